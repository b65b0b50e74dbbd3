#include "stretto/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "stretto/base/cpu.h"
#include "stretto/data/loader_testing.h"
#include "stretto/data/sample_work.h"
#include "stretto/media/decode.h"
#include "stretto/tensor/dtype.h"

namespace stretto::data {
namespace {

// What a sample of epoch 0 has to be, by the plain way: the whole picture, then fuse_with.
template <typename Fuse>
std::vector<float> by_hand(const TestPictures& pictures, const LoaderOptions& o, int64_t sample,
                           Fuse&& fuse_with) {
  const Shape& shape = o.phases[0].shape;
  const auto& file = pictures.file(sample);
  const media::PictureInfo info = media::read_info(file);
  const Draws draws{.seed = o.order.seed, .number = static_cast<uint64_t>(sample), .epoch = 0};
  const media::View view =
      frame_of(o, shape, draws, info.width, info.height, info.orientation).view;
  std::vector<float> out(static_cast<size_t>(sample_elements(shape)));
  media::Target target =
      media::planar_target(out.data(), DType::kFloat32, shape.width, shape.height);
  target.mean = o.mean;
  target.std = o.std;
  fuse_with(view, info, target);
  return out;
}

TEST(Loader, GivesWhatFuseGives) {
  const TestPictures pictures(11);
  for (const bool train : {true, false}) {
    LoaderOptions o = small_options();
    o.train = train;
    o.last = Last::kPad;
    for (const Dataset& dataset : {pictures.as_folder(), pictures.as_pack()}) {
      Loader loader(dataset, o);
      EXPECT_EQ(loader.batches(0), 3);
      const auto given = rest_of_epoch(loader);
      ASSERT_EQ(given.size(), 3u);
      const auto indices = loader.indices(0);
      size_t at = 0;
      for (const Given& g : given) {
        for (size_t j = 0; j < g.samples.size(); ++j, ++at) {
          const int64_t sample = g.samples[j];
          EXPECT_EQ(sample, indices[at]);
          const auto* pixels = reinterpret_cast<const float*>(g.pixels.data()) + j * 3 * 24 * 20;
          const std::vector<float> got(pixels, pixels + 3 * 24 * 20);
          EXPECT_EQ(g.real[j], sample >= 0);
          if (sample < 0) {
            EXPECT_EQ(g.labels[j], -1);
            EXPECT_EQ(got, std::vector<float>(got.size()));
            continue;
          }
          EXPECT_EQ(g.labels[j], pictures.label(sample));
          media::Buffer buffer;
          media::FuseScratch scratch;
          EXPECT_EQ(got, by_hand(pictures, o, sample, [&](auto& view, auto& info, auto& target) {
                      media::fuse(media::decode_planes(pictures.file(sample),
                                                       {0, 0, info.width, info.height}, {}, buffer),
                                  view, std::nullopt, target, scratch, usable_isa());
                    }));
        }
      }
      EXPECT_EQ(at, 12u);
    }
  }
}

// Bytes of one element type to numbers.
std::vector<double> numbers(const std::string& bytes, DType dtype) {
  const size_t size = dtype_bytes(dtype), count = bytes.size() / size;
  std::vector<double> out(count);
  for (size_t i = 0; i < count; ++i) {
    const char* p = bytes.data() + i * size;
    uint16_t half = 0;
    float single = 0;
    switch (dtype) {
      case DType::kUInt8:
        out[i] = static_cast<uint8_t>(*p);
        break;
      case DType::kFloat16:
        std::memcpy(&half, p, 2);
        out[i] = half_to_float(half);
        break;
      case DType::kBFloat16:
        std::memcpy(&half, p, 2);
        out[i] = bfloat16_to_float(half);
        break;
      default:
        std::memcpy(&single, p, 4);
        out[i] = single;
    }
  }
  return out;
}

// Against libjpeg's own way to RGB and the reference of the resize. They differ by the rounding of
// bytes before the resize, in YCbCr and in RGB: 3 of 255, and half a unit of the element type.
TEST(Loader, ComesNearTheReferenceInEveryElementTypeAndLayout) {
  const TestPictures pictures(8);
  const Dataset pack = pictures.as_pack();
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kUInt8}) {
    for (const PixelLayout layout : {PixelLayout::kNchw, PixelLayout::kNhwc}) {
      LoaderOptions o = small_options();
      o.dtype = dtype;
      o.layout = layout;
      Loader loader(pack, o);
      for (const Given& g : rest_of_epoch(loader)) {
        const std::vector<double> got = numbers(g.pixels, dtype);
        for (size_t j = 0; j < 4; ++j) {
          const int64_t sample = g.samples[j];
          const std::vector<float> expected =
              by_hand(pictures, o, sample, [&](auto& view, auto&, auto& target) {
                const media::RgbPicture p = media::decode_rgb(pictures.file(sample));
                media::fuse_reference(
                    media::planes_of_rgb(p.rgb.data(), p.width, p.height, 3 * p.width), view,
                    std::nullopt, target);
              });
          double sum = 0, largest = 0;
          for (size_t c = 0; c < 3; ++c) {
            for (size_t i = 0; i < 24 * 20; ++i) {
              double is =
                  got[j * 3 * 480 + (layout == PixelLayout::kNchw ? c * 480 + i : i * 3 + c)];
              if (dtype != DType::kUInt8) is = (is * o.std[c] + o.mean[c]) * 255;
              const double wanted = (expected[c * 480 + i] * o.std[c] + o.mean[c]) * 255;
              sum += std::abs(is - wanted);
              largest = std::max(largest, std::abs(is - wanted));
            }
          }
          EXPECT_LT(sum / (3 * 480), 1) << dtype_name(dtype) << " sample " << sample;
          EXPECT_LT(largest, 12) << dtype_name(dtype) << " sample " << sample;
        }
      }
    }
  }
}

TEST(Loader, BitsDependOnNoThreadRankOrCache) {
  const TestPictures pictures(27);
  const Dataset folder = pictures.as_folder(), pack = pictures.as_pack();
  for (const Last last : {Last::kDrop, Last::kPad, Last::kWrap}) {
    LoaderOptions o = small_options();
    o.last = last;
    o.threads = 1;
    o.phases[0].shape.batch = 12;
    std::vector<std::vector<Given>> expected;
    {
      Loader loader(folder, o);
      for (int epoch = 0; epoch < 2; ++epoch) expected.push_back(rest_of_epoch(loader));
      EXPECT_EQ(expected[0].size(), last == Last::kDrop ? 2u : 3u);
      EXPECT_NE(expected[0], expected[1]);
    }
    for (const CacheKind cache : {CacheKind::kPage, CacheKind::kUser, CacheKind::kDecoded}) {
      for (const int64_t world : {1, 2, 3, 4}) {
        LoaderOptions part = o;
        part.cache = cache;
        part.world = world;
        part.phases[0].shape.batch = 12 / world;
        part.threads = static_cast<int>(world);
        // Room for a few pictures only in the second case.
        part.cache_bytes = world == 2 ? 40'000 : 16 << 20;
        std::vector<std::vector<Given>> first, second;
        for (part.rank = 0; part.rank < world; ++part.rank) {
          Loader loader(world == 3 ? folder : pack, part);
          first.push_back(rest_of_epoch(loader));
          second.push_back(rest_of_epoch(loader));
        }
        EXPECT_EQ(together(first), expected[0])
            << world << " ranks, cache " << static_cast<int>(cache);
        EXPECT_EQ(together(second), expected[1])
            << world << " ranks, cache " << static_cast<int>(cache);
      }
    }
  }
}

TEST(Loader, CachesAreHitFromTheSecondEpochOn) {
  const TestPictures pictures(20);
  const Dataset pack = pictures.as_pack();
  for (const CacheKind cache : {CacheKind::kUser, CacheKind::kDecoded}) {
    LoaderOptions o = small_options();
    o.ahead = 1;
    Loader plain(pack, o);
    o.cache = cache;
    Loader cached(pack, o);
    for (int epoch = 0; epoch < 4; ++epoch) EXPECT_EQ(rest_of_epoch(plain), rest_of_epoch(cached));
    const Stats s = cached.stats();
    EXPECT_EQ(s.cached_samples, 20);
    EXPECT_GE(s.cache_hits, 60);
    EXPECT_LE(s.cache_bytes, o.cache_bytes);
    EXPECT_GT(s.cache_bytes, 20 * 1000);
    EXPECT_EQ(plain.stats().cache_hits, 0);
    EXPECT_LT(s.read_bytes, plain.stats().read_bytes / 3);
  }
}

TEST(Loader, APositionOfAnotherOrderIsRefused) {
  const TestPictures pictures(12);
  LoaderOptions o = small_options();
  Loader shuffled(pictures.as_folder(), o);
  shuffled.next();
  const Position at = shuffled.position();
  o.threads = 1;
  Loader same(pictures.as_folder(), o);
  same.load(at);
  EXPECT_EQ(copy_of(*same.next()).number, 1);
  o.order.kind = OrderKind::kBlocks;
  Loader blocks(pictures.as_folder(), o);
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { blocks.load(at); }), "of another order"));
  const Position of_blocks = blocks.position();
  o.order.block = 3;
  Loader others(pictures.as_folder(), o);
  EXPECT_NE(others.position().order, of_blocks.order);
  std::vector<double> weights(12, 1.0);
  o.order = {.kind = OrderKind::kWeighted, .cumulative = cumulative_weights(weights)};
  const uint64_t equal = hash_of(o.order, 12);
  weights[7] = 2;
  o.order.cumulative = cumulative_weights(weights);
  EXPECT_NE(hash_of(o.order, 12), equal);
}

TEST(Loader, GoesOnAtEveryPlaceOnOtherRanksAndThreads) {
  const TestPictures pictures(26);
  LoaderOptions o = small_options();
  o.phases = {{.epoch = 0, .shape = {.height = 16, .width = 16, .batch = 4}},
              {.epoch = 1, .shape = {.height = 8, .width = 12, .batch = 6}}};
  o.last = Last::kPad;
  std::vector<Given> all;
  std::vector<Position> behind;
  {
    Loader loader(pictures.as_folder(), o);
    behind.push_back(loader.position());
    for (int epoch = 0; epoch < 2; ++epoch) {
      while (const auto batch = loader.next()) {
        all.push_back(copy_of(*batch));
        behind.push_back(loader.position());
      }
    }
  }
  ASSERT_EQ(all.size(), 7u + 5u);
  LoaderOptions two = o;
  two.world = 2;
  two.threads = 1;
  for (Phase& phase : two.phases) phase.shape.batch /= 2;
  const Dataset pack = pictures.as_pack();
  std::unique_ptr<Loader> ranks[2];
  for (two.rank = 0; two.rank < 2; ++two.rank) {
    ranks[two.rank] = std::make_unique<Loader>(pack, two);
  }
  // Backwards, so that every jump is one.
  for (size_t from = all.size(); from-- > 0;) {
    std::vector<std::vector<Given>> rests;
    for (const auto& rank : ranks) {
      rank->load(behind[from]);
      EXPECT_EQ(rank->position().place, behind[from].place);
      rests.push_back({});
      for (size_t i = 0; i < std::min<size_t>(3, all.size() - from);) {
        auto batch = rank->next();
        if (!batch) continue;  // the end of the first epoch
        rests.back().push_back(copy_of(*batch));
        ++i;
      }
    }
    const auto got = together(rests);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], all[from + i]) << from;
  }
}

TEST(Loader, PhasesSwitchAtTheBorderOfEpochs) {
  const TestPictures pictures(20);
  LoaderOptions o = small_options();
  o.phases = {{.epoch = 0, .shape = {.height = 8, .width = 8, .batch = 5}},
              {.epoch = 2, .shape = {.height = 16, .width = 12, .batch = 3}},
              {.epoch = 3, .shape = {.height = 8, .width = 10, .batch = 10}}};
  o.ahead = 4;  // over the borders
  Loader loader(pictures.as_folder(), o);
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    EXPECT_EQ(loader.epoch(), epoch);
    const int64_t batch = epoch < 2 ? 5 : epoch < 3 ? 3 : 10;
    int64_t number = 0;
    while (const auto b = loader.next()) {
      EXPECT_EQ(b->epoch, epoch);
      EXPECT_EQ(b->number, number++);
      EXPECT_EQ(b->count, batch);
      EXPECT_EQ(b->height, epoch == 2 ? 16 : 8);
      EXPECT_EQ(b->width, epoch < 2 ? 8 : epoch < 3 ? 12 : 10);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data) % 64, 0u);
    }
    EXPECT_EQ(number, 20 / batch);
    EXPECT_EQ(loader.batches(epoch), number);
  }
}

TEST(Loader, SetEpochAndLoadGoAnywhere) {
  const TestPictures pictures(16);
  Loader loader(pictures.as_folder(), small_options());
  std::vector<std::vector<Given>> epochs;
  for (int e = 0; e < 3; ++e) epochs.push_back(rest_of_epoch(loader));
  EXPECT_EQ(loader.epoch(), 3);
  loader.set_epoch(1);
  EXPECT_EQ(loader.position().epoch, 1);
  EXPECT_EQ(copy_of(*loader.next()), epochs[1][0]);
  loader.set_epoch(1);  // again, from its beginning
  EXPECT_EQ(rest_of_epoch(loader), epochs[1]);
  const int64_t made = loader.stats().samples;
  loader.set_epoch(2);  // what comes anyway: nothing is made twice
  EXPECT_EQ(rest_of_epoch(loader), epochs[2]);
  EXPECT_LE(loader.stats().samples, made + 16 + 8);
  // The end of an epoch is a place too.
  loader.load({.seed = 17, .epoch = 0, .place = 16});
  EXPECT_FALSE(loader.next());
  EXPECT_EQ(rest_of_epoch(loader), epochs[1]);
  loader.load({.seed = 17, .epoch = 0, .place = 8});
  EXPECT_EQ(copy_of(*loader.next()), epochs[0][2]);
  for (int i = 0; i < 50; ++i) loader.set_epoch(i % 3);
  EXPECT_EQ(rest_of_epoch(loader), epochs[1]);
}

TEST(Loader, OrdersWithRepetitionsDrawAgainAtEveryPlace) {
  const TestPictures pictures(5);
  LoaderOptions o = small_options();
  o.order.kind = OrderKind::kWeighted;
  o.order.cumulative = cumulative_weights(std::vector<double>{0, 0, 1, 0, 0});
  o.order.epoch_size = 8;
  Loader loader(pictures.as_folder(), o);
  const auto given = rest_of_epoch(loader);
  ASSERT_EQ(given.size(), 2u);
  const size_t bytes = given[0].pixels.size() / 4;
  std::set<std::string> views;
  for (const Given& g : given) {
    for (size_t j = 0; j < 4; ++j) {
      EXPECT_EQ(g.samples[j], 2);
      views.insert(g.pixels.substr(j * bytes, bytes));
    }
  }
  EXPECT_EQ(views.size(), 8u);
}

}  // namespace
}  // namespace stretto::data
