#include "stretto/media/operators/geometry.h"

#include <gtest/gtest.h>

#include <cmath>
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
  g.affine = affine_of({{.op = &operator_named("translate_x"), .value = {5}}}, {100, 100});
  expect_box(map_box({30, 20, 40, 40}, g, {}), {65, 20, 85, 60});
  g.affine = affine_of({{.op = &operator_named("rotate"), .value = {90}}}, {100, 100});
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
  g.affine.m = {0, 0, 0, 0, 0, 0};
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
    // Each by itself: steps after each other round after each other.
    for (const Step& step : steps) {
      std::vector<uint8_t> moved = rgb, result(rgb.size() / 3);
      apply_steps({step}, {moved.data(), view.width, view.height}, work);
      map_mask(mask, geometry_of(view, width, height, {step}), 0, result);
      int64_t different = 0;
      for (size_t p = 0; p < result.size(); ++p) different += moved[3 * p] != result[p];
      // Pillow's 16 bits behind the point: places at the border of two pixels are rare.
      EXPECT_LE(different, step.op->name == "shear_y" ? 1 : 0) << i << " " << step.op->name;
    }
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

TEST(Mix, BatchesAreWhatTheirPlansSay) {
  const Size size{7, 5};
  const int64_t count = 9, elements = 3 * 7 * 5;
  std::mt19937 random(22);
  for (int i = 0; i < 40; ++i) {
    const bool planar = i % 2 == 0;
    const Mix mix = i / 2 % 2 == 0 ? Mix::kMixUp : Mix::kCutMix;
    const MixPlan plan = draw_mix(mix, 0.2 + i, count, size, {5, 0, static_cast<uint64_t>(i)});
    std::vector<float> before(static_cast<size_t>(count * elements));
    for (float& v : before) v = static_cast<float>(random() % 1000) / 500 - 1;
    std::vector<float> after = before;
    apply_mix(plan, after.data(), size, planar);
    for (int64_t n = 0; n < count; ++n) {
      for (int64_t e = 0; e < elements; ++e) {
        const int64_t x = planar ? e % 7 : e / 3 % 7, y = planar ? e / 7 % 5 : e / 21;
        const bool in_box =
            x >= plan.box.x0 && x < plan.box.x1 && y >= plan.box.y0 && y < plan.box.y1;
        const double own = before[static_cast<size_t>(n * elements + e)];
        const double other =
            before[static_cast<size_t>(plan.partner[static_cast<size_t>(n)] * elements + e)];
        const double want = mix == Mix::kMixUp ? plan.lambda * own + (1 - plan.lambda) * other
                            : in_box           ? other
                                               : own;
        // Three roundings of values up to 1.
        ASSERT_NEAR(after[static_cast<size_t>(n * elements + e)], want, 3e-7);
      }
    }
  }
}

// The mean of Beta(alpha, alpha) is 1/2, its variance 1 / (8 alpha + 4).
TEST(Mix, LambdaHasTheBetaDistributionsMoments) {
  for (const double alpha : {0.001, 0.2, 1.0, 8.0}) {
    double sum = 0, squares = 0;
    constexpr int kCount = 20000;
    for (uint64_t i = 0; i < kCount; ++i) {
      const double l = draw_mix(Mix::kMixUp, alpha, 1, {1, 1}, {6, 0, i}).lambda;
      ASSERT_TRUE(l >= 0 && l <= 1);
      sum += l;
      squares += (l - 0.5) * (l - 0.5);
    }
    const double variance = 1 / (8 * alpha + 4);
    EXPECT_NEAR(sum / kCount, 0.5, 6 * std::sqrt(variance / kCount)) << alpha;
    EXPECT_NEAR(squares / kCount, variance, 0.06 * variance) << alpha;
  }
}

TEST(Mix, WrongPlansAreRefused) {
  EXPECT_THROW(draw_mix(Mix::kMixUp, 0, 4, {2, 2}, {}), InvalidArgument);
  EXPECT_THROW(draw_mix(Mix::kMixUp, NAN, 4, {2, 2}, {}), InvalidArgument);
  EXPECT_THROW(draw_mix(Mix::kMixUp, 1, 0, {2, 2}, {}), InvalidArgument);
  std::vector<float> batch(2 * 12);
  MixPlan plan = draw_mix(Mix::kCutMix, 1, 2, {2, 2}, {});
  EXPECT_THROW(apply_mix(plan, batch.data(), {0, 2}, true), InvalidArgument);
  EXPECT_THROW(apply_mix(plan, nullptr, {2, 2}, true), InvalidArgument);
  plan.partner = {1, 1};
  EXPECT_THROW(apply_mix(plan, batch.data(), {2, 2}, true), InvalidArgument);
  plan.partner = {1, 0};
  plan.box = {0, 0, 3, 1};
  EXPECT_THROW(apply_mix(plan, batch.data(), {2, 2}, true), InvalidArgument);
}

}  // namespace
}  // namespace stretto::media::operators
