#include "stretto/tensor/shape_range.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto {
namespace {

TEST(ShapeRange, TextAndBack) {
  for (const char* text : {"scalar", "1x3x224x224", "1..8x3x224x224", "batch:1..x16..128", "0..4",
                           "maxlen:2..9xx:1..3", "N:4x5"}) {
    EXPECT_EQ(shape_range_text(parse_shape_range(text)), text);
  }
  const ShapeRange range = parse_shape_range("batch:2..x7");
  ASSERT_EQ(range.size(), 2u);
  EXPECT_EQ(range[0], (Dimension{2, Dimension::kAny, "batch"}));
  EXPECT_EQ(range[1], (Dimension{7, 7, ""}));
  EXPECT_TRUE(is_fixed(parse_shape_range("1x3")));
  EXPECT_FALSE(is_fixed(range));
  EXPECT_EQ(fixed_range(Shape{1, 3}), parse_shape_range("1x3"));
}

TEST(ShapeRange, RefusesWhatIsNoRange) {
  for (const char* text : {"", "x", "1x", "1..8x", "-1x3", "1...3", "a:", ":3", "a", "1.5",
                           "99999999999999999999", "8..1", "1x3 "}) {
    EXPECT_THROW(parse_shape_range(text), InvalidArgument) << text;
  }
}

}  // namespace
}  // namespace stretto
