#include "stretto/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "stretto/tensor/layout.h"

namespace stretto {
namespace {

TEST(Shape, CountsAndRefusesOverflow) {
  EXPECT_EQ(element_count(Shape{}), 1);
  EXPECT_EQ(element_count(Shape{2, 0, 3}), 0);
  EXPECT_EQ(element_count(Shape{2, 3, 4}), 24);
  EXPECT_THROW(element_count(Shape{int64_t{1} << 33, int64_t{1} << 33}), InvalidArgument);
  EXPECT_THROW(element_count(Shape{2, -1}), InvalidArgument);
}

TEST(Shape, BroadcastsAsNumPyDoes) {
  EXPECT_EQ(broadcast(Shape{3, 1}, Shape{4}), (Shape{3, 4}));
  EXPECT_EQ(broadcast(Shape{}, Shape{2, 0}), (Shape{2, 0}));
  EXPECT_THROW(broadcast(Shape{3}, Shape{4}), InvalidArgument);
}

TEST(Shape, TextRoundTrips) {
  for (const Shape& shape : {Shape{}, Shape{7}, Shape{1, 3, 224, 224}}) {
    EXPECT_EQ(parse_shape(shape_text(shape)), shape);
  }
  EXPECT_THROW(parse_shape("1x"), InvalidArgument);
  EXPECT_THROW(parse_shape("1x-3"), InvalidArgument);
}

TEST(Layout, PadsTheLastChannelBlock) {
  const Shape shape{2, 24, 7, 7};
  EXPECT_EQ(storage_elements(shape, Layout::kPlain, 16), 2 * 24 * 49);
  EXPECT_EQ(storage_elements(shape, Layout::kBlocked, 16), 2 * 32 * 49);
}

TEST(Tensor, HalfTypesRoundTripEveryFiniteValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t b = static_cast<uint16_t>(bits);
    const float half = half_to_float(b);
    if (std::isnan(half)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(half))));
    } else {
      EXPECT_EQ(float_to_half(half), b);
    }
    const float brain = bfloat16_to_float(b);
    EXPECT_TRUE(std::isnan(brain) || float_to_bfloat16(brain) == b);
  }
}

TEST(Tensor, ConversionsAreTotal) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1.9f, -1.9f, infinity, std::nanf("")};
  const Tensor t = Tensor::of<float>({4}, values);
  EXPECT_EQ(t.converted(DType::kInt32).as_int64s(), (std::vector<int64_t>{1, -1, 0, 0}));
  EXPECT_EQ(t.converted(DType::kBool).as_int64s(), (std::vector<int64_t>{1, 1, 1, 1}));
  EXPECT_THROW(t.as_int64s(), InvalidArgument);
  EXPECT_THROW(t.values<int64_t>(), InvalidArgument);
}

}  // namespace
}  // namespace stretto
