// Named operations that some ranks do not submit, or whose negotiation does not end, in time.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/negotiate/unordered.h"

namespace stretto::comm {
namespace {

using testing::patient;
using testing::run_ranks;

constexpr int kCount = 8;
using Values = std::array<float, kCount>;

Operation mean_of(Values* values) {
  return {.count = kCount, .input = values->data(), .output = values->data()};
}

// A guard against hanging for ever.
void wait_a_minute(const std::shared_future<void>& over) {
  EXPECT_EQ(over.wait_for(std::chrono::minutes(1)), std::future_status::ready) << "it hangs";
}

// Rank 0 submits "w" `before` or after it sets the time limit; ranks 2, 3, .. submit it, too.
std::vector<std::string> outcomes_without_rank_1(int size, bool before, const Options& options,
                                                 double timeout_s) {
  std::promise<void> end;
  const std::shared_future<void> over = end.get_future().share();
  return run_ranks(
      size, [&](int) { return options; },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        std::vector<int> ranks;
        for (int r = 0; r < size; ++r) ranks.push_back(r);
        Unordered named(engine, "job", ranks, {});
        Values x{};
        named.wait(named.submit("all have it", "f32", kWorld, {mean_of(&x)}));
        if (rank == 1) {
          wait_a_minute(over);
          named.wait(named.submit("the next", "f32", kWorld, {mean_of(&x)}));
        }
        if (rank == 0 && !before) named.set_timeout(timeout_s);
        const Handle handle = named.submit("w", "f32", kWorld, {mean_of(&x)});
        if (rank == 0 && before) named.set_timeout(timeout_s);
        try {
          named.wait(handle);
        } catch (const CommError& error) {
          if (rank == 0) {
            EXPECT_EQ(error.rank(), 1);
            end.set_value();
          }
          throw;
        }
      });
}

TEST(UnorderedTimeout, NamesTheRanksThatHaveNotSubmittedAName) {
  for (const int size : {2, 3, 5})
    for (const bool before : {false, true}) {
      const auto errors = outcomes_without_rank_1(size, before, patient(), 0.2);
      EXPECT_EQ(errors[0],
                "'w' is not done after 0.2 s (the timeout of group 'job'); rank 0 waits for rank "
                "1, which has not submitted it");
      for (const std::string& error : errors)
        EXPECT_NE(error.find("waits for rank 1, which has not submitted it"), error.npos) << error;
    }
}

TEST(UnorderedTimeout, WithoutOneItIsThatOfTheEngine) {
  Options options = patient();
  options.operation_timeout_s = 3;
  const auto errors = outcomes_without_rank_1(2, false, options, 0);
  EXPECT_EQ(errors[0],
            "'w' is not done after 3 s (STRETTO_OPERATION_TIMEOUT); rank 0 waits for rank 1, which "
            "has not submitted it");
}

// Names that wait for a slow rank for less than their time limit, many times.
TEST(UnorderedTimeout, IsForEachNameFromItsSubmission) {
  testing::expect_no_errors(run_ranks(
      2, [](int) { return patient(); },
      [](Engine& engine) {
        Unordered named(engine, "job", {0, 1}, {});
        named.set_timeout(30);
        Values x{};
        for (int i = 0; i < 20; ++i) {
          if (engine.membership().rank == 1)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          named.wait(named.submit(fmt::format("w{}", i % 3), "f32", kWorld, {mean_of(&x)}));
        }
        named.set_timeout(0.2);
        std::this_thread::sleep_for(std::chrono::milliseconds(400));  // nothing waits for anything
        named.leave();
        EXPECT_TRUE(named.wait_left(60));
      }));
}

// The thread of rank 1 is in a function and cannot say what rank 1 has submitted.
TEST(UnorderedTimeout, ARankThatDoesNotAnswerIsNamed) {
  std::promise<void> end;
  const std::shared_future<void> over = end.get_future().share();
  const auto errors = run_ranks(
      2, [](int) { return patient(); },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        Unordered named(engine, "job", {0, 1}, {});
        const Handle called = named.submit("call", "", [&]() -> Rest {
          if (rank == 1) wait_a_minute(over);
          return {};
        });
        Values x{};
        named.wait(called);
        named.set_timeout(0.2);
        try {
          named.wait(named.submit("w", "f32", kWorld, {mean_of(&x)}));
        } catch (const CommError& error) {
          EXPECT_EQ(error.rank(), rank == 0 ? 1 : error.rank());
          if (rank == 0) end.set_value();
          throw;
        }
      });
  EXPECT_EQ(errors[0],
            "a negotiation of names is not done after 0.2 s (the timeout of group 'job'); rank 0 "
            "waits for rank 1");
  EXPECT_NE(errors[1].find(errors[0]), errors[1].npos) << errors[1];
}

}  // namespace
}  // namespace stretto::comm
