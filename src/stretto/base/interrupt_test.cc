#include "stretto/base/interrupt.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace stretto {
namespace {

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(60)); }

TEST(Interrupt, EndsTheWorkOfItsOwnThread) {
  const InterruptScope scope([] { throw std::runtime_error("enough"); });
  pause();
  EXPECT_THROW(check_interrupt(), std::runtime_error);
  std::thread([] { EXPECT_NO_THROW(check_interrupt()); }).join();
}

TEST(Interrupt, CannotBeSwallowed) {
  int calls = 0;
  const InterruptScope scope([&] {
    ++calls;
    throw std::runtime_error("enough");
  });
  EXPECT_NO_THROW(scope.rethrow());
  pause();
  for (int i = 0; i < 3; ++i) EXPECT_THROW(check_interrupt(), std::runtime_error);
  EXPECT_THROW(scope.rethrow(), std::runtime_error);
  EXPECT_EQ(calls, 1);
}

TEST(Interrupt, IsOverWithTheScope) {
  {
    const InterruptScope scope([] { throw std::runtime_error("enough"); });
  }
  pause();
  EXPECT_NO_THROW(check_interrupt());
}

TEST(Interrupt, IsNotCalledAllTheTime) {
  int calls = 0;
  const InterruptScope scope([&] { ++calls; });
  for (int i = 0; i < 1000; ++i) check_interrupt();
  EXPECT_LT(calls, 20);  // 1,000 calls take a millisecond, and seconds on the busiest machine
  const int before = calls;
  pause();
  check_interrupt();
  EXPECT_EQ(calls, before + 1);
}

TEST(Interrupt, AnEmptyInnerScopeChangesNothing) {
  int outer = 0, inner = 0;
  const InterruptScope first([&] { ++outer; });
  {
    const InterruptScope none({});
    pause();
    check_interrupt();
    EXPECT_EQ(outer, 1);
    const InterruptScope second([&] { ++inner; });
    pause();
    check_interrupt();
  }
  EXPECT_EQ(outer, 1);
  EXPECT_EQ(inner, 1);
  pause();
  check_interrupt();
  EXPECT_EQ(outer, 2);
}

}  // namespace
}  // namespace stretto
