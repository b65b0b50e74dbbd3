#include "stretto/comm/engine/spin.h"

#include <gtest/gtest.h>

namespace stretto::comm {
namespace {

constexpr double kSpin_s = 0.25;  // such times add up without rounding
constexpr int64_t kMiddle = kSmallBytes + 1;

TEST(Spin, OnceForASmallOperationWhateverArrives) {
  for (const bool core_each : {false, true}) {
    Spin spin(1, kSpin_s, kSmallBytes, core_each);
    EXPECT_FALSE(spin.over(1.24));
    spin.on_arrival(1.24);
    EXPECT_TRUE(spin.over(1.25));
  }
}

TEST(Spin, AfterEachArrivalUpToALimitForOneOfMiddleSize) {
  for (const int64_t bytes : {kMiddle, Spin::kMostBytes}) {
    Spin spin(1, kSpin_s, bytes, true);
    EXPECT_FALSE(spin.over(1.24));
    EXPECT_TRUE(spin.over(1.25));
    spin.on_arrival(1.5);  // one that slept meanwhile spins again
    EXPECT_FALSE(spin.over(1.74));
    EXPECT_TRUE(spin.over(1.75));
    spin.on_arrival(2.2);  // the end of all: 1 + Spin::kSpins * kSpin_s
    EXPECT_FALSE(spin.over(2.24));
    EXPECT_TRUE(spin.over(2.25));
    spin.on_arrival(2.3);
    EXPECT_TRUE(spin.over(2.3));
  }
}

TEST(Spin, NeverForALargeOneNorWithoutACore) {
  EXPECT_TRUE(Spin(1, kSpin_s, Spin::kMostBytes + 1, true).over(1));
  EXPECT_TRUE(Spin(1, kSpin_s, kMiddle, false).over(1));
  EXPECT_TRUE(Spin(1, 0, 4, true).over(1)) << "a time of zero: sleep at once";
}

}  // namespace
}  // namespace stretto::comm
