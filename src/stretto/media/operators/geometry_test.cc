#include "stretto/media/operators/geometry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "stretto/base/error.h"
#include "stretto/media/operators/mix.h"

namespace stretto::media::operators {
namespace {

Geometry whole(int64_t width, int64_t height) {
  return {.stored_width = width,
          .stored_height = height,
          .crop = {0, 0, static_cast<double>(width), static_cast<double>(height)},
          .width = width,
          .height = height};
}

void expect_box(const std::optional<Box>& box, const Box& want) {
  ASSERT_TRUE(box.has_value());
  for (const auto& [got, expected] :
       {std::pair{box->x0, want.x0}, {box->y0, want.y0}, {box->x1, want.x1}, {box->y1, want.y1}}) {
    EXPECT_NEAR(got, expected, 1e-9);
  }
}

TEST(Geometry, BoxesFollowCropMirrorAndMoves) {
  Geometry g = whole(100, 80);
  g.crop = {20, 10, 70, 60};
  g.width = 100;
  g.height = 100;
  expect_box(map_box({30, 20, 40, 40}, g, {}), {20, 20, 40, 60});
  expect_box(map_box({0, 0, 30, 20}, g, {}), {0, 0, 20, 20});
  g.flip = true;
  expect_box(map_box({30, 20, 40, 40}, g, {}), {60, 20, 80, 60});
  g.moves = {affine_of({{.op = &operator_named("translate_x"), .value = {5}}}, {100, 100})};
  expect_box(map_box({30, 20, 40, 40}, g, {}), {65, 20, 85, 60});
  g.moves = {affine_of({{.op = &operator_named("rotate"), .value = {90}}}, {100, 100})};
  // Against the clock: what is at the right goes to the top.
  expect_box(map_box({30, 20, 40, 40}, g, {}), {20, 20, 60, 40});
}

TEST(Geometry, SmallAndInvisibleBoxesAreDropped) {
  Geometry g = whole(50, 50);
  EXPECT_FALSE(map_box({60, 10, 70, 20}, g, {}));
  EXPECT_FALSE(map_box({10, 10, 10, 20}, g, {}));
  EXPECT_FALSE(map_box({NAN, 10, 20, 20}, g, {}));
  EXPECT_FALSE(map_box({10, 10, 12, 12}, g, {.min_area = 5}));
  EXPECT_TRUE(map_box({10, 10, 12, 12}, g, {.min_area = 4}));
  EXPECT_FALSE(map_box({40, 10, 60, 20}, g, {.min_visible = 0.6}));
  EXPECT_TRUE(map_box({40, 10, 60, 20}, g, {.min_visible = 0.5}));
  g.moves = {{{0, 0, 0, 0, 0, 0}}};
  EXPECT_FALSE(map_box({10, 10, 20, 20}, g, {}));
}

// A mask that is drawn as a picture and goes the picture's way has the same pixels.
TEST(Geometry, MasksGoThePicturesWay) {
  std::mt19937 random(21);
  Work work;
  for (int i = 0; i < 200; ++i) {
    const int64_t width = 3 + static_cast<int64_t>(random() % 20);
    const int64_t height = 3 + static_cast<int64_t>(random() % 20);
    std::vector<uint8_t> mask(static_cast<size_t>(width * height));
    for (uint8_t& m : mask) m = static_cast<uint8_t>(1 + random() % 250);
    Planes planes{.colour = Colour::kGrey, .width = width, .height = height, .count = 1};
    planes.plane[0] = {.data = mask.data(),
                       .stride = width,
                       .width = width,
                       .height = height,
                       .full_width = width,
                       .full_height = height};
    View view{.flip = i % 2 == 0, .orientation = 1 + i % 8};
    const Size seen = oriented_size(width, height, view.orientation);
    view.box = {1, 0, static_cast<double>(seen.width), static_cast<double>(seen.height - 1)};
    view.edge = Edge::kBox;
    view.width = seen.width - 1;  // nothing is resized: pixels stay what they are
    view.height = seen.height - 1;
    std::vector<uint8_t> rgb(static_cast<size_t>(3 * view.width * view.height));
    FuseScratch scratch;
    fuse(planes, view, std::nullopt, interleaved_target(rgb.data(), DType::kUInt8, view.width),
         scratch, usable_isa());
    const Steps steps = draw_steps(parse_operators("translate_x, shear_y, translate_y"),
                                   {1, 1, static_cast<uint64_t>(i)}, {view.width, view.height});
    std::vector<uint8_t> moved = rgb, result(rgb.size() / 3);
    apply_steps(steps, {moved.data(), view.width, view.height}, work);
    map_mask(mask, geometry_of(view, width, height, steps, {view.width, view.height}), 0, result);
    for (size_t p = 0; p < result.size(); ++p) ASSERT_EQ(moved[3 * p], result[p]) << i;
  }
}

TEST(Geometry, MovesAreMultipliedInTheirOrder) {
  const Steps steps = {{.op = &operator_named("translate_x"), .value = {3}},
                       {.op = &operator_named("rotate"), .value = {90}}};
  // After the move to the right by 3, the pixel at (13, 5) of 20x20 turns to (5, 7).
  const Affine a = affine_of(steps, {20, 20});
  EXPECT_NEAR(a.m[0] * 5 + a.m[1] * 7 + a.m[2], 10, 1e-9);
  EXPECT_NEAR(a.m[3] * 5 + a.m[4] * 7 + a.m[5], 5, 1e-9);
}

TEST(Geometry, WrongMasksAreRefused) {
  std::vector<uint8_t> mask(20), result(20);
  Geometry g = whole(5, 4);
  EXPECT_NO_THROW(map_mask(mask, g, 0, result));
  EXPECT_THROW(map_mask({mask.data(), 19}, g, 0, result), InvalidArgument);
  EXPECT_THROW(map_mask(mask, g, 0, {result.data(), 19}), InvalidArgument);
  g.crop.x1 = 6;
  EXPECT_THROW(map_mask(mask, g, 0, result), InvalidArgument);
}

Mixing mixing(const char* text) { return mixing_of(parse_operators(text)); }

// Elements as numbers.
double value_at(const std::vector<uint8_t>& bytes, DType dtype, size_t i) {
  float f = 0;
  uint16_t h = 0;
  if (dtype == DType::kUInt8) return bytes[i];
  if (dtype == DType::kFloat32) {
    std::memcpy(&f, &bytes[4 * i], sizeof f);
    return static_cast<double>(f);
  }
  std::memcpy(&h, &bytes[2 * i], sizeof h);
  return static_cast<double>(dtype == DType::kFloat16 ? half_to_float(h) : bfloat16_to_float(h));
}

TEST(Mix, PairsAreWhatTheirPlansSay) {
  const Size size{7, 5};
  constexpr size_t kElements = 3 * 7 * 5;
  std::mt19937 random(22);
  struct Case {
    DType dtype;
    double unit;  // what a value of up to 200 is rounded by
  };
  for (const Case c : {Case{DType::kFloat32, 5e-5}, Case{DType::kFloat16, 0.07},
                       Case{DType::kBFloat16, 0.51}, Case{DType::kUInt8, 0.501}}) {
    for (int i = 0; i < 20; ++i) {
      const bool planar = i % 2 == 0;
      const MixPlan plan = draw_mix(mixing(i / 2 % 2 == 0 ? "mixup(0.5)" : "cutmix"), size,
                                    {5, 0, static_cast<uint64_t>(i)});
      std::vector<uint8_t> a(kElements * dtype_bytes(c.dtype)), b = a;
      for (auto* picture : {&a, &b}) {
        for (size_t e = 0; e < kElements; ++e) {
          const float v = static_cast<float>(random() % 200);
          const uint16_t h = c.dtype == DType::kFloat16 ? float_to_half(v) : float_to_bfloat16(v);
          if (c.dtype == DType::kUInt8) {
            (*picture)[e] = static_cast<uint8_t>(v);
          } else if (c.dtype == DType::kFloat32) {
            std::memcpy(&(*picture)[4 * e], &v, sizeof v);
          } else {
            std::memcpy(&(*picture)[2 * e], &h, sizeof h);
          }
        }
      }
      const auto before_a = a, before_b = b;
      apply_mix(plan, a.data(), b.data(), c.dtype, size, planar);
      for (size_t e = 0; e < kElements; ++e) {
        const auto x = static_cast<int64_t>(planar ? e % 7 : e / 3 % 7);
        const auto y = static_cast<int64_t>(planar ? e / 7 % 5 : e / 21);
        const bool in_box =
            x >= plan.box.x0 && x < plan.box.x1 && y >= plan.box.y0 && y < plan.box.y1;
        const double own = value_at(before_a, c.dtype, e), other = value_at(before_b, c.dtype, e);
        const double l = plan.mix == Mix::kMixUp ? plan.lambda : in_box ? 0 : 1;
        ASSERT_NEAR(value_at(a, c.dtype, e), l * own + (1 - l) * other, c.unit) << i;
        ASSERT_NEAR(value_at(b, c.dtype, e), l * other + (1 - l) * own, c.unit) << i;
      }
    }
  }
}

// torchvision's CutMix: lambda is what the box, clipped at the edges, leaves.
TEST(Mix, LambdaOfCutMixIsTheShareOfTheRest) {
  double sum = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    const MixPlan plan = draw_mix(mixing("cutmix"), {40, 30}, {3, 1, i});
    ASSERT_EQ(plan.mix, Mix::kCutMix);
    const auto area = static_cast<double>(plan.box.width() * plan.box.height());
    ASSERT_EQ(plan.lambda, 1 - area / 1200);
    sum += plan.lambda;
  }
  // Half of the uniform lambda, and more for what is clipped.
  EXPECT_GT(sum / 2000, 0.5);
  EXPECT_LT(sum / 2000, 0.75);
}

// The mean of Beta(alpha, alpha) is 1/2, its variance 1 / (8 alpha + 4).
TEST(Mix, LambdaHasTheBetaDistributionsMoments) {
  for (const double alpha : {0.001, 0.2, 1.0, 8.0}) {
    double sum = 0, squares = 0;
    constexpr int kCount = 20000;
    const Mixing one{.mixup = 1, .mixup_alpha = alpha};
    for (uint64_t i = 0; i < kCount; ++i) {
      const double l = draw_mix(one, {1, 1}, {6, 0, i}).lambda;
      ASSERT_TRUE(l >= 0 && l <= 1);
      sum += l;
      squares += (l - 0.5) * (l - 0.5);
    }
    const double variance = 1 / (8 * alpha + 4);
    EXPECT_NEAR(sum / kCount, 0.5, 6 * std::sqrt(variance / kCount)) << alpha;
    EXPECT_NEAR(squares / kCount, variance, 0.06 * variance) << alpha;
  }
}

TEST(Mix, OneOfBothIsTakenByItsChance) {
  struct Case {
    const char* text;
    double mixup, cutmix;
  };
  for (const Case& c : {Case{"mixup(0.2), cutmix(1)", 0.5, 0.5},
                        {"mixup(0.2, 0.25)", 0.25, 0},
                        {"cutmix(1, 0.3), rotate, mixup(1, 0.2)", 0.2, 0.3},
                        {"rotate", 0, 0}}) {
    double times[3] = {};
    constexpr int kCount = 10000;
    for (uint64_t i = 0; i < kCount; ++i) {
      times[static_cast<int>(draw_mix(mixing(c.text), {9, 9}, {8, 2, i}).mix)] += 1. / kCount;
    }
    EXPECT_NEAR(times[1], c.mixup, 0.03) << c.text;  // six deviations
    EXPECT_NEAR(times[2], c.cutmix, 0.03) << c.text;
    EXPECT_EQ(mixing(c.text).any(), c.mixup + c.cutmix > 0);
  }
}

TEST(Mix, WrongPlansAreRefused) {
  EXPECT_THROW(mixing("mixup, mixup(0.2)"), InvalidArgument);
  EXPECT_THROW(mixing("mixup(0)"), InvalidArgument);
  EXPECT_THROW(mixing("cutmix(1, 2)"), InvalidArgument);
  std::vector<float> a(12), b(12);
  MixPlan plan{.mix = Mix::kCutMix, .lambda = 1, .box = {0, 0, 3, 1}};
  EXPECT_THROW(draw_mix({}, {0, 2}, {}), InvalidArgument);
  const auto mix = [&](void* x, DType dtype, Size size) {
    apply_mix(plan, x, b.data(), dtype, size, true);
  };
  EXPECT_THROW(mix(a.data(), DType::kFloat32, {2, 2}), InvalidArgument);
  plan.box = {};
  EXPECT_NO_THROW(mix(a.data(), DType::kFloat32, {2, 2}));
  EXPECT_THROW(mix(nullptr, DType::kFloat32, {2, 2}), InvalidArgument);
  EXPECT_THROW(mix(a.data(), DType::kInt64, {2, 2}), InvalidArgument);
  EXPECT_THROW(mix(a.data(), DType::kFloat32, {2, 0}), InvalidArgument);
}

}  // namespace
}  // namespace stretto::media::operators
