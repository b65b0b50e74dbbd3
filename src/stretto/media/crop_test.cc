#include "stretto/media/crop.h"

#include <gtest/gtest.h>

#include <cmath>

#include "stretto/base/error.h"

namespace stretto::media {
namespace {

TEST(SampleRandom, DependsOnSeedEpochSampleAndDrawOnly) {
  const auto first = [](uint64_t seed, uint32_t epoch, uint64_t sample, Draw draw) {
    return SampleRandom(seed, epoch, sample, draw).bits();
  };
  const uint32_t value = first(1, 2, 3, Draw::kCrop);
  EXPECT_EQ(value, first(1, 2, 3, Draw::kCrop));
  EXPECT_NE(value, first(1ull << 32 | 1, 2, 3, Draw::kCrop));
  EXPECT_NE(value, first(1, 3, 3, Draw::kCrop));
  EXPECT_NE(value, first(1, 2, 1ull << 32 | 3, Draw::kCrop));
  EXPECT_NE(value, first(1, 2, 3, Draw::kFlip));
}

TEST(SampleRandom, UnitsAreUniform) {
  constexpr int kCount = 100000;
  double sum = 0, squares = 0;
  int64_t below[7] = {};
  SampleRandom random(5, 0, 0, Draw::kOther);
  for (int i = 0; i < kCount; ++i) {
    const double u = random.unit();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
    ++below[random.below(7)];
  }
  // Five standard deviations of a mean of kCount uniform numbers.
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1. / 12 / kCount));
  EXPECT_NEAR(squares / kCount, 1. / 3, 5 * std::sqrt(4. / 45 / kCount));
  for (const int64_t n : below) EXPECT_NEAR(static_cast<double>(n), kCount / 7., 5 * 120);
}

TEST(RandomCrop, ObeysItsRanges) {
  const RandomCrop ranges;
  double area = 0;
  constexpr int kCount = 20000;
  for (uint64_t i = 0; i < kCount; ++i) {
    SampleRandom random(9, 1, i, Draw::kCrop);
    const Region r = random_crop(ranges, 500, 375, random);
    ASSERT_NO_THROW(check_region(r, 500, 375));
    const auto w = static_cast<double>(r.width()), h = static_cast<double>(r.height());
    const double share = w * h / (500. * 375);
    ASSERT_GT(share, 0.078);  // sides are rounded
    ASSERT_NEAR(std::log(w / h), 0, std::log(4. / 3) + 0.02);
    area += share;
  }
  // 200,000 draws by this rule in NumPy have a mean of 0.4326.
  EXPECT_NEAR(area / kCount, 0.4326, 0.01);
}

TEST(RandomCrop, TakesTheMiddleWhereNothingFits) {
  SampleRandom random(1, 1, 1, Draw::kCrop);
  // 1000x10 allows no crop of 8 % and 4:3; of 10 rows it takes the widest allowed: 13.
  EXPECT_EQ(random_crop({}, 1000, 10, random), (Region{493, 0, 506, 10}));
  EXPECT_EQ(random_crop({}, 10, 1000, random), (Region{0, 493, 10, 506}));
  EXPECT_EQ(random_crop({.min_area = 2, .max_area = 3}, 8, 8, random), (Region{0, 0, 8, 8}));
  EXPECT_EQ(random_crop({}, 1, 1, random), (Region{0, 0, 1, 1}));
}

TEST(RandomCrop, WrongRangesAreRefused) {
  SampleRandom random(1, 1, 1, Draw::kCrop);
  EXPECT_THROW(random_crop({.min_area = 0}, 8, 8, random), InvalidArgument);
  EXPECT_THROW(random_crop({.min_area = 0.5, .max_area = 0.4}, 8, 8, random), InvalidArgument);
  EXPECT_THROW(random_crop({.min_ratio = NAN}, 8, 8, random), InvalidArgument);
  EXPECT_THROW(random_crop({}, 0, 8, random), InvalidArgument);
}

TEST(CentreCrop, IsTheMiddleOfTheResizedPicture) {
  // 500x375 to 341x256, of which 224x224 from (58, 16): round((341 - 224) / 2) is 58, to even.
  const Box box = centre_crop(500, 375, 256, 224, 224);
  EXPECT_DOUBLE_EQ(box.x0, 58 * 500. / 341);
  EXPECT_DOUBLE_EQ(box.x1, (58 + 224) * 500. / 341);
  EXPECT_DOUBLE_EQ(box.y0, 16 * 375. / 256);
  EXPECT_DOUBLE_EQ(box.y1, 240 * 375. / 256);
  EXPECT_THROW(centre_crop(500, 375, 200, 224, 224), InvalidArgument);
  EXPECT_THROW(centre_crop(0, 375, 256, 224, 224), InvalidArgument);
}

}  // namespace
}  // namespace stretto::media
