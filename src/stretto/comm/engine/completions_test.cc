#include "stretto/comm/engine/completions.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace stretto::comm {
namespace {

constexpr double kHour_s = 3600;

class CompletionsTest : public ::testing::Test {
 protected:
  OperationTable::Shared end_one() {
    auto open = std::make_shared<OpenOperation>();
    operations_.add(open, false);
    operations_.end(open.get(), false);
    return open;
  }
  size_t take(double timeout_s) {
    std::unique_lock lock(mutex_);
    return completions_.take(lock, out_, timeout_s, &operations_);
  }
  // Runs `change` while another thread waits in take(), and returns what that got.
  template <typename Change>
  size_t take_during(const Change& change) {
    size_t count = 0;
    std::thread taker([&] { count = take(kHour_s); });
    {
      const std::unique_lock lock(mutex_);
      change();
    }
    taker.join();
    return count;
  }

  std::mutex mutex_;
  OperationTable operations_;
  Completions completions_;
  std::array<Completion, 2> out_;
};

TEST_F(CompletionsTest, AreReportedInTheOrderOfTheirEndsAndReleased) {
  const auto first = end_one(), second = end_one(), third = end_one();
  second->operation.kind = Kind::kRecv;
  second->operation.peer = 3;
  for (const auto& open : {second, third, first}) completions_.add(open);
  EXPECT_EQ(take(kHour_s), 2u);
  EXPECT_EQ(out_[0].handle, second->handle);
  EXPECT_EQ(out_[0].source, 3);
  EXPECT_EQ(out_[1].handle, third->handle);
  EXPECT_EQ(out_[1].source, -1);
  EXPECT_EQ(operations_.find(second->handle), nullptr);
  EXPECT_EQ(operations_.find(first->handle), first);
  EXPECT_EQ(take(kHour_s), 1u);
  EXPECT_EQ(out_[0].handle, first->handle);
  EXPECT_EQ(take(0), 0u);
}

TEST_F(CompletionsTest, WakeAThreadThatWaits) {
  EXPECT_EQ(take_during([&] { completions_.add(end_one()); }), 1u);
}

TEST_F(CompletionsTest, AnInterruptEndsOneWait) {
  EXPECT_EQ(take_during([&] { completions_.interrupt(); }), 0u);
  completions_.interrupt();
  EXPECT_EQ(take(kHour_s), 0u);
  EXPECT_EQ(take_during([&] { completions_.add(end_one()); }), 1u);
}

TEST_F(CompletionsTest, NobodyWaitsOnceTheyAreClosed) {
  EXPECT_EQ(take_during([&] { completions_.close(); }), 0u);
  EXPECT_EQ(take(kHour_s), 0u);
  completions_.add(end_one());
  EXPECT_EQ(take(kHour_s), 1u);
}

}  // namespace
}  // namespace stretto::comm
