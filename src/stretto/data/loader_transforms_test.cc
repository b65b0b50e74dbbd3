// Picture operators on the loader's threads.
#include "stretto/base/cpu.h"
#include "stretto/data/loader_testing.h"
#include "stretto/media/decode.h"
#include "stretto/media/operators/normalise.h"

namespace stretto::data {
namespace {

using media::operators::parse_operators;

constexpr int64_t kElements = 3 * 24 * 20;

LoaderOptions changed_by(std::string_view transforms) {
  LoaderOptions o = small_options();
  o.transforms = parse_operators(transforms);
  return o;
}

std::vector<float> pixels_of(const Given& g, size_t j) {
  const auto* at = reinterpret_cast<const float*>(g.pixels.data()) + j * kElements;
  return {at, at + kElements};
}

// An epoch as bytes, before any operator.
std::vector<Given> bytes_of(const TestPictures& pictures) {
  LoaderOptions plain = small_options();
  plain.dtype = DType::kUInt8;
  plain.layout = PixelLayout::kNhwc;
  Loader loader(pictures.as_folder(), plain);
  return rest_of_epoch(loader);
}

// What the operators make of a sample that fuse() made: as a loader of bytes without them gives it.
std::vector<float> by_hand(const LoaderOptions& o, const Given& bytes, size_t j) {
  std::string picture = bytes.pixels.substr(j * kElements, kElements);
  const media::operators::Pixels pixels{
      .rgb = reinterpret_cast<uint8_t*>(picture.data()), .width = 20, .height = 24};
  media::operators::Work work;
  const auto steps = media::operators::apply(
      o.transforms, {.seed = 17, .sample = static_cast<uint64_t>(bytes.samples[j])}, pixels, work);
  std::vector<float> out(kElements);
  auto target = media::planar_target(out.data(), DType::kFloat32, 20, 24);
  target.mean = o.mean;
  target.std = o.std;
  media::operators::normalise_reference(pixels, target, media::operators::erased(steps));
  return out;
}

TEST(LoaderTransforms, AreAppliedToBytesBeforeNormalising) {
  const TestPictures pictures(9);
  const auto bytes = bytes_of(pictures);
  const LoaderOptions o = changed_by("posterize(3, 1), rotate(40), erase(0.5)");
  Loader loader(pictures.as_folder(), o);
  const auto given = rest_of_epoch(loader);
  ASSERT_EQ(given.size(), bytes.size());
  for (size_t b = 0; b < given.size(); ++b) {
    EXPECT_EQ(given[b].samples, bytes[b].samples);
    for (size_t j = 0; j < given[b].samples.size(); ++j) {
      const auto got = pixels_of(given[b], j), expected = by_hand(o, bytes[b], j);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5);
    }
  }
}

// One change of colour is a part of fuse(), which rounds once. Several clamp in between, as bytes.
TEST(LoaderTransforms, ChangesOfColourAreThoseOfBytes) {
  const TestPictures pictures(9);
  const auto bytes = bytes_of(pictures);
  constexpr double kUnit = 1 / 255. / 0.225;  // of a byte, normalised
  for (const char* transforms : {"brightness(0.9)", "contrast(0.9)", "color(0.9), erase(1)",
                                 "brightness(0.9), contrast(0.9), color(0.9)"}) {
    const LoaderOptions o = changed_by(transforms);
    Loader loader(pictures.as_folder(), o);
    const auto given = rest_of_epoch(loader);
    ASSERT_EQ(given.size(), bytes.size());
    for (size_t b = 0; b < given.size(); ++b) {
      for (size_t j = 0; j < given[b].samples.size(); ++j) {
        const auto got = pixels_of(given[b], j), expected = by_hand(o, bytes[b], j);
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], expected[i], 3 * kUnit) << transforms;  // a factor of 1.9, rounded
        }
      }
    }
  }
}

TEST(LoaderTransforms, BitsDependOnNoThreadCacheOrSource) {
  const TestPictures pictures(14);
  for (const char* transforms :
       {"rand_augment(2, 9), erase(0.5)", "colour_jitter", "hue(0.3, 0.5)"}) {
    LoaderOptions o = changed_by(transforms);
    o.threads = 1;
    std::vector<std::vector<Given>> expected;
    {
      Loader loader(pictures.as_folder(), o);
      for (int epoch = 0; epoch < 3; ++epoch) expected.push_back(rest_of_epoch(loader));
    }
    EXPECT_NE(expected[0], expected[1]);
    for (const CacheKind cache : {CacheKind::kPage, CacheKind::kUser, CacheKind::kDecoded}) {
      o.cache = cache;
      o.threads = 3;
      Loader loader(pictures.as_pack(), o);
      for (const auto& epoch : expected) EXPECT_EQ(rest_of_epoch(loader), epoch) << transforms;
    }
  }
}

TEST(LoaderTransforms, WorkInEveryElementTypeAndLayout) {
  const TestPictures pictures(5);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kUInt8}) {
    for (const PixelLayout layout : {PixelLayout::kNchw, PixelLayout::kNhwc}) {
      LoaderOptions o = changed_by("invert(1)");
      o.dtype = dtype;
      o.layout = layout;
      LoaderOptions twice = o;
      twice.transforms = parse_operators("invert(1), invert(1), invert(1)");
      Loader once(pictures.as_folder(), o), thrice(pictures.as_folder(), twice);
      EXPECT_EQ(rest_of_epoch(once), rest_of_epoch(thrice)) << dtype_name(dtype);
      o.transforms.clear();
      Loader plain(pictures.as_folder(), o);
      thrice.set_epoch(0);
      EXPECT_NE(rest_of_epoch(plain), rest_of_epoch(thrice)) << dtype_name(dtype);
    }
  }
}

}  // namespace
}  // namespace stretto::data
