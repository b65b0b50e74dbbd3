#include "stretto/media/fuse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "stretto/base/error.h"
#include "stretto/media/fuse_plan.h"

namespace stretto::media {
namespace {

// Noise, in planes whose rows end where the memory does.
struct Source {
  std::vector<uint8_t> bytes[3];
  Planes planes;
};

void fill(Source& s, Colour colour, int64_t width, int64_t height, int ratio_x, int ratio_y,
          std::mt19937& random) {
  s.planes = {
      .colour = colour, .width = width, .height = height, .count = colour == Colour::kGrey ? 1 : 3};
  for (int k = 0; k < s.planes.count; ++k) {
    Plane& p = s.planes.plane[k];
    p.ratio_x = k == 0 ? 1 : ratio_x;
    p.ratio_y = k == 0 ? 1 : ratio_y;
    p.width = p.full_width = p.stride = ceil_div(width, p.ratio_x);
    p.height = p.full_height = ceil_div(height, p.ratio_y);
    s.bytes[k].resize(static_cast<size_t>(p.width * p.height));
    for (uint8_t& b : s.bytes[k]) b = static_cast<uint8_t>(random());
    p.data = s.bytes[k].data();
  }
}

double value_at(const std::vector<uint8_t>& memory, DType dtype, size_t i) {
  const uint8_t* p = memory.data() + i * dtype_bytes(dtype);
  uint16_t bits;
  std::memcpy(&bits, p, dtype == DType::kUInt8 ? 1 : 2);
  float f;
  switch (dtype) {
    case DType::kUInt8:
      return *p;
    case DType::kFloat16:
      return half_to_float(bits);
    case DType::kBFloat16:
      return bfloat16_to_float(bits);
    default:
      std::memcpy(&f, p, sizeof f);
      return f;
  }
}

// What the kernel may differ by from the same sum in double precision: about ten float roundings of
// values up to 255 (of 1.2e-7), divided by 255 * std; then one step of the type that is stored,
// because a value may lie at the border of two. A byte may be the next one for the same reason.
double tolerance(DType dtype, double value) {
  constexpr double kFloatError = 3e-6;
  switch (dtype) {
    case DType::kUInt8:
      return 1;
    case DType::kFloat16:
      return 1.1 * std::max(std::abs(value) * 0x1p-10, 0x1p-24) + kFloatError;
    case DType::kBFloat16:
      return 1.1 * std::abs(value) * 0x1p-7 + kFloatError;
    default:
      return kFloatError + std::abs(value) * 1e-6;
  }
}

struct Case {
  Source source;
  View view;
  std::optional<ColourMatrix> colour;
  Target target;  // strides, type and scaling; memory is made for each run
  size_t elements = 0;
};

void expect_reference(const Case& c) {
  std::vector<uint8_t> expected(c.elements * dtype_bytes(c.target.dtype), 0xAB);
  Target target = c.target;
  target.data = expected.data();
  fuse_reference(c.source.planes, c.view, c.colour, target);
  FuseScratch scratch;
  for (const Isa isa : usable_isas()) {
    SCOPED_TRACE(isa_name(isa));
    std::vector<uint8_t> got(expected.size(), 0xAB);
    target.data = got.data();
    fuse(c.source.planes, c.view, c.colour, target, scratch, isa);
    int64_t different_bytes = 0;
    for (size_t i = 0; i < c.elements; ++i) {
      const double want = value_at(expected, c.target.dtype, i);
      const double value = value_at(got, c.target.dtype, i);
      ASSERT_NEAR(value, want, tolerance(c.target.dtype, want)) << "element " << i;
      different_bytes += c.target.dtype == DType::kUInt8 && value != want;
    }
    // Values at the border of two bytes are rare.
    ASSERT_LE(different_bytes, 1 + static_cast<int64_t>(c.elements) / 200);
  }
}

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kUInt8};
constexpr Filter kFilters[] = {Filter::kTriangle, Filter::kCubic, Filter::kBox};

TEST(Fuse, EveryKernelGivesTheReferencesValues) {
  std::mt19937 random(11);  // the seed
  const auto up_to = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  const auto unit = [&] { return std::uniform_real_distribution<double>()(random); };
  for (int i = 0; i < 400; ++i) {
    Case c;
    const int64_t width = 1 + up_to(70), height = 1 + up_to(70);
    const Colour colour = static_cast<Colour>(i % 3);
    const int rx = colour == Colour::kYCbCr ? 1 << up_to(3) : 1;
    const int ry = colour == Colour::kYCbCr ? 1 << up_to(2) : 1;
    fill(c.source, colour, width, height, rx, ry, random);
    View& view = c.view;
    view.orientation = 1 + static_cast<int>(up_to(8));
    const Size size = oriented_size(width, height, view.orientation);
    const double w = static_cast<double>(size.width), h = static_cast<double>(size.height);
    view.box = {.x0 = unit() * w * 0.6, .y0 = unit() * h * 0.6};
    view.box.x1 = view.box.x0 + (w - view.box.x0) * (0.1 + 0.9 * unit());
    view.box.y1 = view.box.y0 + (h - view.box.y0) * (0.1 + 0.9 * unit());
    if (i % 4 == 0) view.box = {0, 0, w, h};
    view.width = 1 + up_to(40);
    view.height = 1 + up_to(40);
    view.filter = kFilters[i / 3 % 3];
    view.edge = i % 2 == 0 ? Edge::kBox : Edge::kPicture;
    view.flip = i / 2 % 2 == 0;
    if (i % 5 == 0) c.colour = then(then(brightness(1.2f), contrast(0.8f, 99)), hue(0.1f));
    const DType dtype = kTypes[i / 7 % 4];
    switch (i % 3) {
      case 0:
        c.target = planar_target(nullptr, dtype, view.width, view.height);
        c.elements = static_cast<size_t>(3 * view.width * view.height);
        break;
      case 1:
        c.target = interleaved_target(nullptr, dtype, view.width);
        c.elements = static_cast<size_t>(3 * view.width * view.height);
        break;
      default:  // rows, pixels and channels with gaps, which nothing writes to
        c.target = {.dtype = dtype,
                    .row_stride = 5 * view.width + 3,
                    .pixel_stride = 5,
                    .channel_stride = 2};
        c.elements = static_cast<size_t>((5 * view.width + 3) * view.height);
        break;
    }
    c.target.mean = {0.485f, 0.456f, 0.406f};
    c.target.std = {0.229f, 0.224f, 0.225f};
    SCOPED_TRACE(fmt::format(
        "case {}: {}x{} of colour {} 1/{} 1/{}, orientation {}, box {} {} {} "
        "{}, to {}x{}, type {}",
        i, width, height, static_cast<int>(colour), rx, ry, view.orientation, view.box.x0,
        view.box.y0, view.box.x1, view.box.y1, view.width, view.height, dtype_name(dtype)));
    expect_reference(c);
    if (HasFatalFailure()) return;
  }
}

TEST(Fuse, InterleavedPixelsAreTakenAsPlanes) {
  std::mt19937 random(12);
  const int64_t width = 53, height = 31;
  std::vector<uint8_t> rgb(static_cast<size_t>(3 * width * height));
  for (uint8_t& b : rgb) b = static_cast<uint8_t>(random());
  Case c;
  c.source.planes = planes_of_rgb(rgb.data(), width, height, 3 * width);
  c.view = {.box = {3, 2, 51, 30}, .width = 24, .height = 19, .edge = Edge::kBox};
  c.target = planar_target(nullptr, DType::kFloat32, 24, 19);
  c.elements = 3 * 24 * 19;
  expect_reference(c);
  // Channels in another order are no special case either.
  std::swap(c.source.planes.plane[0], c.source.planes.plane[2]);
  expect_reference(c);
}

TEST(Fuse, ResamplesOnePlaneToFloats) {
  std::mt19937 random(13);
  for (const Filter filter : kFilters) {
    Source s;
    fill(s, Colour::kGrey, 47, 39, 1, 1, random);
    const Taps columns = make_taps({47, 3.25, 44.5, 20, 0, 47}, filter);
    const Taps rows = make_taps({39, 0, 39, 57, 0, 39, true}, filter);
    std::vector<float> expected(57 * 23, -7), got;
    resample_reference(s.planes.plane[0], rows, columns, expected.data(), 23);
    FuseScratch scratch;
    for (const Isa isa : usable_isas()) {
      got.assign(expected.size(), -7);
      resample(s.planes.plane[0], rows, columns, got.data(), 23, scratch, isa);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 2e-4) << i;
    }
  }
}

// A picture whose pixels tell where they are, seen whole and at its own size.
TEST(Fuse, OrientationsTurnThePictureAsExifSays) {
  constexpr int kWidth = 5, kHeight = 3;
  std::vector<uint8_t> pixels(kWidth * kHeight);
  for (int i = 0; i < kWidth * kHeight; ++i) pixels[i] = static_cast<uint8_t>(10 * i);
  Planes planes{.colour = Colour::kGrey, .width = kWidth, .height = kHeight, .count = 1};
  planes.plane[0] = {.data = pixels.data(),
                     .stride = kWidth,
                     .width = kWidth,
                     .height = kHeight,
                     .full_width = kWidth,
                     .full_height = kHeight};
  // Which stored pixel (x, y) the first, the last of the first row, and the first of the last row
  // show: EXIF 2.32, table of tag Orientation.
  struct {
    int orientation, first, end_of_row, last_row;
  } const cases[] = {{1, 0, 4, 10}, {2, 4, 0, 14},  {3, 14, 10, 4}, {4, 10, 14, 0},
                     {5, 0, 10, 4}, {6, 10, 0, 14}, {7, 14, 4, 10}, {8, 4, 14, 0}};
  FuseScratch scratch;
  for (const auto& c : cases) {
    for (const bool flip : {false, true}) {
      SCOPED_TRACE(fmt::format("orientation {} flip {}", c.orientation, flip));
      const Size size = oriented_size(kWidth, kHeight, c.orientation);
      std::vector<uint8_t> out(3 * kWidth * kHeight);
      const View view{
          .box = {0, 0, static_cast<double>(size.width), static_cast<double>(size.height)},
          .width = size.width,
          .height = size.height,
          .flip = flip,
          .orientation = c.orientation};
      fuse(planes, view, std::nullopt,
           planar_target(out.data(), DType::kUInt8, size.width, size.height), scratch,
           usable_isa());
      const auto w = static_cast<size_t>(size.width), h = static_cast<size_t>(size.height);
      EXPECT_EQ(out[flip ? w - 1 : 0], 10 * c.first);
      EXPECT_EQ(out[flip ? 0 : w - 1], 10 * c.end_of_row);
      EXPECT_EQ(out[(h - 1) * w + (flip ? w - 1 : 0)], 10 * c.last_row);
    }
  }
}

TEST(Fuse, ReadsOnlyTheRegionThatItNames) {
  std::mt19937 random(14);
  for (int i = 0; i < 100; ++i) {
    Source s;
    fill(s, Colour::kYCbCr, 90, 70, 1 + i % 2, 1 + i / 2 % 2, random);
    const View view{.box = {20.5 + i % 7, 15, 44, 40.25},
                    .width = 16,
                    .height = 16,
                    .filter = kFilters[i % 3],
                    .edge = i % 2 == 0 ? Edge::kPicture : Edge::kBox,
                    .orientation = 1 + i % 4};
    const Region r = needed_region(view, 90, 70);
    std::vector<float> all(3 * 256), part(3 * 256);
    FuseScratch scratch;
    const Target target = planar_target(all.data(), DType::kFloat32, 16, 16);
    fuse(s.planes, view, std::nullopt, target, scratch, usable_isa());
    Planes planes = s.planes;
    std::vector<uint8_t> copies[3];
    for (int k = 0; k < 3; ++k) {
      Plane& p = planes.plane[k];
      const Plane& from = s.planes.plane[k];
      p.x0 = r.x0 / p.ratio_x;
      p.y0 = r.y0 / p.ratio_y;
      p.width = p.stride = ceil_div(r.x1, p.ratio_x) - p.x0;
      p.height = ceil_div(r.y1, p.ratio_y) - p.y0;
      for (int64_t y = p.y0; y < p.y0 + p.height; ++y) {
        const uint8_t* row = from.data + y * from.stride + p.x0;
        copies[k].insert(copies[k].end(), row, row + p.width);
      }
      p.data = copies[k].data();
    }
    Target other = target;
    other.data = part.data();
    fuse(planes, view, std::nullopt, other, scratch, usable_isa());
    ASSERT_EQ(all, part) << "case " << i;
    planes.plane[0].height = 10;
    EXPECT_THROW(fuse(planes, view, std::nullopt, other, scratch, usable_isa()), InvalidArgument);
  }
}

TEST(Fuse, WrongArgumentsAreRefused) {
  std::mt19937 random(15);
  Source s;
  fill(s, Colour::kRgb, 20, 20, 1, 1, random);
  std::vector<float> out(3 * 16);
  FuseScratch scratch;
  const View good{.box = {0, 0, 20, 20}, .width = 4, .height = 4};
  const auto run = [&](const View& view, const Target& target) {
    fuse(s.planes, view, std::nullopt, target, scratch, usable_isa());
  };
  const Target target = planar_target(out.data(), DType::kFloat32, 4, 4);
  EXPECT_NO_THROW(run(good, target));
  for (const auto change : {+[](View& v) { v.box.x0 = -1; }, +[](View& v) { v.box.y1 = 20.5; },
                            +[](View& v) { v.box.x1 = 0; }, +[](View& v) { v.width = 0; },
                            +[](View& v) { v.orientation = 9; }, +[](View& v) { v.box.x0 = NAN; },
                            +[](View& v) { v.height = int64_t{1} << 40; }}) {
    View view = good;
    change(view);
    EXPECT_THROW(run(view, target), InvalidArgument);
    EXPECT_THROW(needed_region(view, 20, 20), InvalidArgument);
  }
  for (const auto change : {+[](Target& t) { t.std[1] = 0; }, +[](Target& t) { t.data = nullptr; },
                            +[](Target& t) { t.dtype = DType::kInt32; }}) {
    Target wrong = target;
    change(wrong);
    EXPECT_THROW(run(good, wrong), InvalidArgument);
  }
}

TEST(Taps, WeightsSumToOneAndStayInside) {
  std::mt19937 random(16);
  for (int i = 0; i < 500; ++i) {
    Axis axis{.pixels = 1 + static_cast<int64_t>(random() % 60)};
    axis.outputs = 1 + static_cast<int64_t>(random() % 60);
    const double pixels = static_cast<double>(axis.pixels);
    axis.begin = std::uniform_real_distribution<double>(0, pixels * 0.9)(random);
    axis.end = std::uniform_real_distribution<double>(axis.begin + pixels * 0.05, pixels)(random);
    axis.low = i % 2 == 0 ? 0 : static_cast<int64_t>(axis.begin);
    axis.high = i % 2 == 0 ? axis.pixels : static_cast<int64_t>(std::ceil(axis.end));
    const int ratio = 1 << i % 3;
    const int64_t samples = ceil_div(axis.pixels, ratio);
    const Taps taps = make_taps(axis, kFilters[i % 3], ratio, samples);
    for (size_t o = 0; o < static_cast<size_t>(taps.outputs); ++o) {
      double sum = 0;
      for (int64_t t = 0; t < taps.count; ++t) {
        sum += taps.weight[o * static_cast<size_t>(taps.count) + static_cast<size_t>(t)];
      }
      ASSERT_NEAR(sum, 1, 1e-6);
      ASSERT_GE(taps.first[o], 0);
      ASSERT_LE(taps.first[o] + taps.count, samples);
    }
  }
}

// Ties of the box filter fell otherwise, and pixels differed from Pillow's by up to 99.
TEST(Taps, OfACropAreThoseOfThePictureThatWasCropped) {
  std::mt19937 random(19);
  for (int i = 0; i < 300; ++i) {
    const int64_t low = static_cast<int64_t>(random() % 300);
    const int64_t size = 1 + static_cast<int64_t>(random() % 200);
    const auto begin = static_cast<double>(low), end = static_cast<double>(low + size);
    const int64_t outputs = 1 + static_cast<int64_t>(random() % 224);
    const Filter filter = kFilters[i % 3];
    const Taps crop = make_taps({500, begin, end, outputs, low, low + size}, filter);
    const Taps all = make_taps({size, 0, static_cast<double>(size), outputs, 0, size}, filter);
    ASSERT_EQ(crop.count, all.count);
    ASSERT_EQ(crop.weight, all.weight) << size << " pixels from " << low << " to " << outputs;
    for (size_t o = 0; o < all.first.size(); ++o) ASSERT_EQ(crop.first[o], all.first[o] + low);
  }
}

// Upsampled by libjpeg's rule and then resized, and in one step.
TEST(Taps, OfChromaAreThoseOfTheUpsampledPicture) {
  std::mt19937 random(17);
  for (int i = 0; i < 100; ++i) {
    const int64_t pixels = 6 + static_cast<int64_t>(random() % 50), samples = (pixels + 1) / 2;
    const Axis axis{.pixels = pixels,
                    .begin = 0.25,
                    .end = static_cast<double>(pixels) - 1.5,
                    .outputs = 1 + static_cast<int64_t>(random() % 50),
                    .high = pixels,
                    .reversed = i % 2 == 0};
    std::vector<double> chroma(static_cast<size_t>(samples)), full;
    for (double& c : chroma) c = random() % 256;
    for (int64_t x = 0; x < pixels; ++x) {
      const int64_t near = x / 2;
      const int64_t far = std::clamp<int64_t>(x % 2 == 0 ? near - 1 : near + 1, 0, samples - 1);
      full.push_back(0.75 * chroma[static_cast<size_t>(near)] +
                     0.25 * chroma[static_cast<size_t>(far)]);
    }
    const auto apply = [](const Taps& taps, const std::vector<double>& values, int64_t o) {
      double sum = 0;
      for (int64_t t = 0; t < taps.count; ++t) {
        sum += taps.weight[static_cast<size_t>(o * taps.count + t)] *
               values[static_cast<size_t>(taps.first[static_cast<size_t>(o)] + t)];
      }
      return sum;
    };
    const Taps direct = make_taps(axis, kFilters[i % 3], 2, samples);
    const Taps after = make_taps(axis, kFilters[i % 3]);
    for (int64_t o = 0; o < axis.outputs; ++o) {
      // Weights are rounded to float: 255 * a few times 6e-8.
      ASSERT_NEAR(apply(direct, chroma, o), apply(after, full, o), 1e-4);
    }
  }
}

TEST(Colour, ChangesAreThoseOfTheirNames) {
  const auto apply = [](const ColourMatrix& m, std::array<float, 3> p) {
    std::array<float, 3> r;
    for (size_t c = 0; c < 3; ++c) {
      r[c] = m.m[c][0] * p[0] + m.m[c][1] * p[1] + m.m[c][2] * p[2] + m.m[c][3];
    }
    return r;
  };
  const std::array<float, 3> p{200, 100, 50};
  const float grey = 0.299f * 200 + 0.587f * 100 + 0.114f * 50;
  EXPECT_NEAR(apply(brightness(0.5f), p)[1], 50, 1e-4);
  EXPECT_NEAR(apply(contrast(0.5f, 80), p)[0], 140, 1e-4);
  EXPECT_NEAR(apply(contrast(0, 80), p)[2], 80, 1e-4);
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(apply(saturation(0), p)[c], grey, 1e-3);
    EXPECT_NEAR(apply(saturation(1), p)[c], p[c], 1e-3);
    // JFIF's coefficients have six digits: 255 * 1e-5.
    EXPECT_NEAR(apply(hue(0), p)[c], p[c], 3e-3);
    EXPECT_NEAR(apply(hue(1), p)[c], p[c], 3e-3);
    EXPECT_NEAR(apply(then(brightness(2), contrast(0.5f, 80)), p)[c], p[c] + 40, 1e-3);
  }
  const auto turned = apply(hue(0.25f), p);
  EXPECT_NEAR(0.299f * turned[0] + 0.587f * turned[1] + 0.114f * turned[2], grey, 1e-2)
      << "hue keeps the luma";
  EXPECT_NEAR(apply(ycbcr_to_rgb(), {50, 128, 128})[0], 50, 1e-4);
}

TEST(Colour, MeanGreyIsThatOfTheRegion) {
  std::mt19937 random(18);
  Source s;
  fill(s, Colour::kYCbCr, 33, 21, 2, 2, random);
  double sum = 0;
  for (int y = 4; y < 20; ++y) {
    for (int x = 5; x < 30; ++x) sum += s.bytes[0][static_cast<size_t>(y * 33 + x)];
  }
  EXPECT_NEAR(mean_grey(s.planes, {5, 4, 30, 20}), sum / (25 * 16), 1e-3);
  s.planes.plane[0].x0 = 40;
  EXPECT_THROW(mean_grey(s.planes, {5, 4, 30, 20}), InvalidArgument);
}

}  // namespace
}  // namespace stretto::media
