#include "stretto/tensor/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor floats(std::initializer_list<float> values) {
  Tensor tensor(DType::kFloat32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.mutable_values<float>().begin());
  return tensor;
}

double error(std::initializer_list<float> got, std::initializer_list<float> expected) {
  return compare(floats(got), floats(expected)).relative_to_max;
}

TEST(Compare, IsRelativeToTheLargestExpectedValue) {
  const Difference d = compare(floats({1, -8, 3}), floats({1, -10, 4}));
  EXPECT_EQ(d.relative_to_max, 0.2);
  EXPECT_EQ(d.max_abs, 2);
  EXPECT_EQ(d.worst_index, 1);
  EXPECT_EQ(d.got, -8);
  EXPECT_EQ(d.expected, -10);
}

TEST(Compare, EqualValuesDoNotDiffer) {
  EXPECT_EQ(error({1, kNan, kInf, -kInf}, {1, kNan, kInf, -kInf}), 0);
  EXPECT_EQ(error({}, {}), 0);
}

TEST(Compare, WhatIsNotFiniteDiffersByInfinityFromAllElse) {
  EXPECT_EQ(error({kNan, 1}, {2, 1}), kInf);
  EXPECT_EQ(error({2, 1}, {kNan, 1}), kInf);
  EXPECT_EQ(error({kInf, 1}, {2, 1}), kInf);
  EXPECT_EQ(error({kInf, 1}, {-kInf, 1}), kInf);
  EXPECT_EQ(error({kNan, 1}, {kInf, 1}), kInf);
}

TEST(Compare, AnOutputOfNothingButNanNeverPasses) {
  EXPECT_EQ(error({kNan, kNan}, {kNan, kNan}), kInf);
  EXPECT_EQ(error({1, 2}, {kNan, kNan}), kInf);
  EXPECT_TRUE(compare(floats({kNan}), floats({kNan})).only_nan);
  EXPECT_FALSE(compare(floats({kNan, 1}), floats({kNan, 1})).only_nan);
}

TEST(Compare, AnyOtherIntegerCountsAsOne) {
  Tensor a(DType::kInt64, {3}), b(DType::kInt64, {3});
  for (int64_t i = 0; i < 3; ++i) {
    a.mutable_values<int64_t>()[static_cast<size_t>(i)] = i;
    b.mutable_values<int64_t>()[static_cast<size_t>(i)] = i;
  }
  EXPECT_EQ(compare(a, b).relative_to_max, 0);
  a.mutable_values<int64_t>()[2] = 900;
  EXPECT_EQ(compare(a, b).relative_to_max, 1);
}

TEST(Compare, RefusesOtherShapes) {
  EXPECT_THROW(compare(floats({1}), floats({1, 2})), InvalidArgument);
}

}  // namespace
}  // namespace stretto
