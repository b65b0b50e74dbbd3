#include "stretto/runtime/measure_model.h"

#include <gtest/gtest.h>

namespace stretto::runtime {
namespace {

TEST(Contest, NeedsTwoSignsAndAMargin) {
  const auto wins = [](double first_ms, double second_ms, double ratio) {
    return first_wins({.first_ms = first_ms, .second_ms = second_ms, .ratio = ratio, .rounds = 9});
  };
  EXPECT_TRUE(wins(10, 11, 0.9));
  EXPECT_FALSE(wins(10, 10, 1.0));
  EXPECT_FALSE(wins(10, 10.05, 0.995));  // too close to call
  EXPECT_TRUE(wins(10, 10.5, 0.999));
  EXPECT_FALSE(wins(10, 10, 0.9));  // undisturbed, both take as long
  EXPECT_FALSE(wins(10, 11, 1.0));  // some quick runs do not make it faster
  EXPECT_FALSE(wins(10, 9, 1.1));
}

}  // namespace
}  // namespace stretto::runtime
