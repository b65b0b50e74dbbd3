#include "stretto/data/in_order.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace stretto::data {
namespace {

TEST(InOrder, TakesInTheOrderOfTheList) {
  for (const int threads : {1, 2, 7}) {
    std::vector<int64_t> taken;
    in_order<int64_t>(
        3, 200, threads, [](int64_t i) { return i * i; },
        [&](int64_t i, int64_t square) {
          EXPECT_EQ(square, i * i);
          taken.push_back(i);
        });
    ASSERT_EQ(taken.size(), 197);
    for (size_t i = 0; i < taken.size(); ++i) EXPECT_EQ(taken[i], static_cast<int64_t>(i) + 3);
  }
  in_order<int>(
      5, 5, 2, [](int64_t) { return 0; }, [](int64_t, int) { ADD_FAILURE(); });
}

// The calling thread has to wait for another one, which is in a sample for long.
TEST(InOrder, AnInterruptIsSeenWhileItWaits) {
  const auto caller = std::this_thread::get_id();
  for (const int64_t end : {int64_t{2}, int64_t{10'000}}) {
    std::atomic<bool> begun{false}, interrupted{false};
    const InterruptScope scope([&] {
      if (!begun) return;
      interrupted = true;
      throw std::runtime_error("interrupted");
    });
    const auto make = [&](int64_t) {
      const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      const bool waits = std::this_thread::get_id() != caller;
      if (waits) begun = true;
      while ((waits ? !interrupted : !begun) && std::chrono::steady_clock::now() < late) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return 0;
    };
    EXPECT_THROW(in_order<int>(0, end, 2, make, [](int64_t, int) {}), std::runtime_error);
    EXPECT_TRUE(interrupted);
  }
}

}  // namespace
}  // namespace stretto::data
