#include "stretto/comm/engine/non_finite_reports.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

namespace stretto::comm {
namespace {

OpenOperation of_two_pieces() {
  OpenOperation open;
  open.group = 7;
  open.sequence = 9;
  open.operation = {.reduction = ReduceOp::kSum, .count = 5, .name = "2 operations in one"};
  open.non_finite = 2;
  open.first_non_finite = 3;
  open.pieces.push_back({.count = 2, .name = "w"});
  open.pieces.push_back({.count = 3, .name = "b", .non_finite = {.count = 2, .first = 1}});
  return open;
}

TEST(NonFiniteReports, NameTheOperationOrItsPieces) {
  NonFiniteReports reports(4);
  OpenOperation open;
  open.operation.name = "conv";
  reports.add(open);
  open.non_finite = 3;
  open.first_non_finite = 17;
  reports.add(open);
  reports.add(of_two_pieces());
  const auto taken = reports.take();
  ASSERT_EQ(taken.size(), 2u) << "only of what is not finite";
  EXPECT_EQ(taken[0].name, "conv");
  EXPECT_EQ(taken[0].rank, 4);
  EXPECT_EQ(taken[0].count, 3);
  EXPECT_EQ(taken[0].first_offset, 17);
  EXPECT_EQ(taken[1].name, "b");
  EXPECT_EQ(taken[1].group, 7u);
  EXPECT_EQ(taken[1].sequence, 9u);
  EXPECT_EQ(taken[1].count, 2);
  EXPECT_EQ(taken[1].first_offset, 1);
  EXPECT_TRUE(reports.take().empty());
}

TEST(NonFiniteReports, KeepTheFirstAndCountTheOthers) {
  NonFiniteReports reports(0);
  for (size_t i = 0; i < Engine::kMostReports + 3; ++i)
    reports.add({.name = fmt::format("w{}", i)});
  const auto taken = reports.take();
  ASSERT_EQ(taken.size(), Engine::kMostReports);
  EXPECT_EQ(taken.back().name, fmt::format("w{}", Engine::kMostReports - 1));
  EXPECT_EQ(taken.back().more, 3);
  reports.add({.name = "next"});
  EXPECT_EQ(reports.take().back().more, 0);
}

TEST(NonFiniteReports, WakeWhoWaitsForThem) {
  NonFiniteReports reports(0);
  std::mutex mutex;
  const auto woken_by = [&](const std::function<void()>& event) {
    std::unique_lock lock(mutex);
    std::thread other([&] {
      const std::lock_guard inside(mutex);
      event();
    });
    const auto began = std::chrono::steady_clock::now();
    reports.wait(lock, 600);  // a guard against waiting for ever
    const bool in_time = std::chrono::steady_clock::now() - began < std::chrono::seconds(500);
    lock.unlock();
    other.join();
    return in_time;
  };
  EXPECT_TRUE(woken_by([&] { reports.interrupt(); }));
  EXPECT_TRUE(woken_by([&] { reports.add({.name = "w"}); }));
  EXPECT_EQ(reports.take().size(), 1u);
  EXPECT_TRUE(woken_by([&] { reports.close(); }));
  EXPECT_TRUE(woken_by([] {})) << "after close() nobody waits";
}

TEST(NonFiniteReports, GiveTheReasonForWhichAJobEnds) {
  const NonFiniteReports reports(4);
  EXPECT_EQ(reports.reason("w", 2, 5),
            "rank 4: w has 2 values that are not finite, the first at 5");
  EXPECT_EQ(
      reports.reason(of_two_pieces()),
      "rank 4: all_reduce of 3 float32 (sum), 'b' has 2 values that are not finite, the first "
      "at 1");
  OpenOperation open;
  open.operation.count = 8;
  open.non_finite = 1;
  open.first_non_finite = 6;
  EXPECT_EQ(reports.reason(open),
            "rank 4: all_reduce of 8 float32 (average) has 1 values that are not finite, the first "
            "at 6");
}

}  // namespace
}  // namespace stretto::comm
