#include "stretto/comm/negotiate/unordered.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/base/thread_testing.h"
#include "stretto/comm/engine/engine_testing.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::patient;

constexpr int kElements = 8;

std::vector<int> everyone(const Engine& engine) {
  std::vector<int> ranks(engine.membership().size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Operation sum_of(float* values, int64_t count = kElements) {
  return {.reduction = ReduceOp::kSum, .count = count, .input = values, .output = values};
}

// Adds zeros to what the others sum.
UnorderedOptions standing_in(Engine& engine, double stall_s = 60) {
  return {.stall_s = stall_s, .stalled = {}, .stand_in = [&engine](const std::string&) -> Rest {
            auto zeros = std::make_shared<std::array<float, kElements>>();
            const Handle handle = engine.submit(kWorld, sum_of(zeros->data()));
            return [&engine, zeros, handle](double s) { return engine.wait(handle, s); };
          }};
}

void leave(Unordered& named) {
  named.leave();
  EXPECT_TRUE(named.wait_left(60));
}

TEST(Unordered, AnyOrderGivesTheSums) {
  const unsigned seed = 4;
  for (const int size : {1, 2, 3, 5}) {
    expect_no_errors(testing::run_ranks(
        size, [](int) { return patient(); },
        [&](Engine& engine) {
          const int rank = engine.membership().rank, n = 60;
          Unordered named(engine, "job", everyone(engine), {});
          std::mt19937 random(seed + static_cast<unsigned>(rank));
          for (int step = 0; step < 4; ++step) {
            std::vector<int> order(n);
            std::iota(order.begin(), order.end(), 0);
            std::shuffle(order.begin(), order.end(), random);
            std::vector<std::array<float, kElements>> values(n);
            std::vector<Handle> handles(n);
            for (const int i : order) {
              values[i].fill(static_cast<float>(i + rank));
              handles[i] =
                  named.submit("t" + std::to_string(i), "f32", kWorld, {sum_of(values[i].data())});
            }
            for (const int i : order) {
              EXPECT_TRUE(named.wait(handles[i]));
              EXPECT_EQ(values[i][3], static_cast<float>(size * i + size * (size - 1) / 2)) << seed;
            }
          }
          EXPECT_EQ(engine.statistics().operations, 4 * n) << "rounds are nobody else's affair";
          leave(named);
        }));
  }
}

// What is agreed upon together is one operation for the network.
TEST(Unordered, SmallOnesOfARoundAreFused) {
  expect_no_errors(testing::run_ranks(
      2, [](int) { return patient(); },
      [&](Engine& engine) {
        const int n = 200;
        Unordered named(engine, "job", everyone(engine), {});
        std::vector<std::array<float, kElements>> values(n);
        for (int step = 0; step < 3; ++step) {
          std::vector<Handle> handles;
          for (int i = 0; i < n; ++i) {
            values[i].fill(static_cast<float>(i));
            handles.push_back(
                named.submit("t" + std::to_string(i), "f32", kWorld, {sum_of(values[i].data())}));
          }
          int taken = 0;
          for (const Handle handle : handles) {
            if (named.take_over(handle)) {
              ++taken;
              EXPECT_THROW(named.wait(handle), InvalidArgument) << "it is known no more";
            } else {
              named.wait(handle);
            }
            EXPECT_FALSE(named.take_over(handle));
          }
          EXPECT_LT(taken, n) << "somebody has waited first";
          if (step > 0) {
            EXPECT_GT(taken, n / 2) << "for an operation that carried many names";
          }
          for (int i = 0; i < n; ++i) ASSERT_EQ(values[i][0], static_cast<float>(2 * i));
        }
        EXPECT_GT(engine.statistics().joined, 3 * n / 2) << "of " << 3 * n;
        leave(named);
      }));
}

// Threads wait, look and give up in any order for names that are one operation of the engine. One
// rank comes late, so that they do it before, while and after the operation is under way.
TEST(Unordered, ThreadsWaitForNamesOfOneOperation) {
  expect_no_errors(testing::run_ranks(
      2, [](int) { return patient(); },
      [](Engine& engine) {
        constexpr int kNames = 64, kThreads = 4;
        Unordered named(engine, "job", everyone(engine), {});
        for (unsigned step = 0; step < 20; ++step) {
          std::vector<std::array<float, kElements>> values(kNames);
          std::vector<Handle> handles;
          if (engine.membership().rank == 1)
            std::this_thread::sleep_for(std::chrono::milliseconds(step % 4));
          for (int i = 0; i < kNames; ++i) {
            values[i].fill(static_cast<float>(i));
            handles.push_back(
                named.submit("t" + std::to_string(i), "f32", kWorld, {sum_of(values[i].data())}));
          }
          std::vector<std::thread> threads;
          for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([&, t] {
              std::mt19937 random(step * kThreads + static_cast<unsigned>(t));
              std::vector<int> own;
              for (int i = t; i < kNames; i += kThreads) own.push_back(i);
              std::shuffle(own.begin(), own.end(), random);
              for (const int i : own) {
                if (random() % 2) named.poll(handles[i]);
                while (!named.take_over(handles[i]) &&
                       !named.wait(handles[i], random() % 3 ? 1e-4 : 0.0)) {
                }
                EXPECT_EQ(values[i][kElements - 1], static_cast<float>(2 * i));
              }
            });
          }
          for (std::thread& thread : threads) thread.join();
        }
        EXPECT_GT(engine.statistics().joined, 0);
        leave(named);
      }));
}

// What a rank waits for when another one is lost: every name raises the error.
TEST(Unordered, EveryNameOfAnOperationThatFailsRaisesTheError) {
  const auto errors = testing::run_ranks(
      2, [](int) { return patient(); },
      [](Engine& engine) {
        Unordered named(engine, "job", everyone(engine), {});
        const Group pair = engine.add_group("pair", everyone(engine));
        std::vector<std::array<float, kElements>> values(10);
        // The order check finds that rank 1 has begun something else in this group.
        std::array<float, 3> other{};
        if (engine.membership().rank == 1) engine.submit(pair, sum_of(other.data(), 3));
        std::vector<Handle> handles;
        for (size_t i = 0; i < values.size(); ++i)
          handles.push_back(
              named.submit("t" + std::to_string(i), "f32", pair, {sum_of(values[i].data())}));
        int raised = 0;
        for (const Handle handle : handles) {
          EXPECT_FALSE(named.take_over(handle));
          try {
            named.wait(handle);
          } catch (const CommError&) {
            ++raised;
          }
        }
        EXPECT_EQ(raised, 10);
        throw InternalError("as expected");  // nobody leaves a job that has failed
      });
  for (const std::string& error : errors) EXPECT_EQ(error, "as expected");
}

TEST(Unordered, RanksThatHaveJoinedStandIn) {
  expect_no_errors(testing::run_ranks(
      3, [](int) { return patient(); },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        Unordered named(engine, "job", everyone(engine), standing_in(engine));
        for (int epoch = 0; epoch < 2; ++epoch) {
          for (int i = 0; i <= rank; ++i) {  // rank 0 has the least to do
            std::array<float, kElements> values;
            values.fill(1);
            named.wait(named.submit("uneven " + std::to_string(i), "f32", kWorld,
                                    {sum_of(values.data())}));
            EXPECT_EQ(values[0], static_cast<float>(3 - i));
          }
          named.wait(named.join());
          EXPECT_EQ(named.last_joined(), 2);
        }
        leave(named);
      }));
}

// The rank that stands in submits one operation after the other, so the others must not fuse them.
TEST(Unordered, ARankStandsInForSeveralOperationsOfOneName) {
  expect_no_errors(testing::run_ranks(
      3, [](int) { return patient(); },
      [&](Engine& engine) {
        constexpr int kParts = 4;
        const auto stand_in = [&engine](const std::string&) -> Rest {
          auto zeros = std::make_shared<std::array<std::array<float, kElements>, kParts>>();
          std::vector<Handle> handles;
          for (auto& part : *zeros) handles.push_back(engine.submit(kWorld, sum_of(part.data())));
          return [&engine, zeros, handles](double) mutable {
            for (; !handles.empty(); handles.pop_back()) engine.wait(handles.back());
            return true;
          };
        };
        Unordered named(engine, "job", everyone(engine),
                        {.stall_s = 60, .stalled = {}, .stand_in = stand_in});
        for (int i = 0; i < 20 && engine.membership().rank != 0; ++i) {
          std::array<std::array<float, kElements>, kParts> values;
          std::vector<Operation> operations;
          for (auto& part : values) {
            part.fill(1);
            operations.push_back(sum_of(part.data()));
          }
          named.wait(named.submit("group", "4 x f32", kWorld, operations));
          for (const auto& part : values) ASSERT_EQ(part[0], 2);
        }
        named.wait(named.join());
        leave(named);
      }));
}

TEST(Unordered, ADifferentMeaningIsAnErrorWithBoth) {
  expect_no_errors(testing::run_ranks(
      3, [](int) { return patient(); },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        Unordered named(engine, "job", everyone(engine), {});
        std::array<float, kElements> values{};
        for (int step = 0; step < 3; ++step) {
          // In the last step all have changed their minds, which is fine.
          const std::string meaning = step == 2 ? "f32 [3]" : rank == 1 ? "f32 [2]" : "f32 [1]";
          const Handle odd = named.submit("odd", meaning, kWorld, {sum_of(values.data())});
          const Handle even = named.submit("even", "f32", kWorld, {sum_of(values.data())});
          if (step == 2) {
            named.wait(odd);
          } else {
            try {
              named.wait(odd);
              ADD_FAILURE() << "no error";
            } catch (const InvalidArgument& e) {
              EXPECT_STREQ(e.what(),
                           "'odd' differs between ranks: rank 0: f32 [1]; rank 1: f32 [2]; rank 2: "
                           "f32 [1]");
            }
          }
          named.wait(even);
        }
        if (rank == 0) {
          const Handle once = named.submit("twice", "f32", kWorld, {sum_of(values.data())});
          EXPECT_THROW(named.submit("twice", "f32", {}), InvalidArgument);
          named.wait(named.submit("all", "f32", kWorld, {sum_of(values.data())}));
          named.wait(once);
        } else {
          named.wait(named.submit("all", "f32", kWorld, {sum_of(values.data())}));
          named.wait(named.submit("twice", "f32", kWorld, {sum_of(values.data())}));
        }
        leave(named);
      }));
}

// Also while the rank that is missing does nothing at all.
TEST(Unordered, NamesWhoIsMissing) {
  std::mutex mutex;
  std::vector<Stall> stalls;
  std::atomic<bool> seen = false;
  expect_no_errors(testing::run_ranks(
      3, [](int) { return patient(); },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        Unordered named(engine, "job", everyone(engine),
                        {.stall_s = 0.05,
                         .stalled =
                             [&](const Stall& stall) {
                               std::lock_guard lock(mutex);
                               stalls.push_back(stall);
                               seen = true;
                             },
                         .stand_in = {}});
        std::array<float, kElements> values{};
        for (int i = 0; rank == 2 && !seen && i < 6000; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        named.wait(named.submit("late", "f32", kWorld, {sum_of(values.data())}));
        leave(named);
      }));
  ASSERT_FALSE(stalls.empty());
  EXPECT_EQ(stalls[0].name, "late");
  EXPECT_EQ(std::count(stalls[0].missing.begin(), stalls[0].missing.end(), 2), 1);
  EXPECT_GT(stalls[0].waiting_s, 0) << "here; somebody else has waited for 0.05 s";
}

TEST(Unordered, WhatNeedsARankThatHasLeftFailsNamingIt) {
  std::atomic<int> told = 0;
  expect_no_errors(testing::run_ranks(
      3, [](int) { return patient(); },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        Unordered named(engine, "job", everyone(engine), {});
        std::array<float, kElements> values{};
        named.wait(named.submit("all", "f32", kWorld, {sum_of(values.data())}));
        if (rank != 1) {
          const Handle handle = named.submit("some", "f32", kWorld, {sum_of(values.data())});
          try {
            named.wait(handle);
            ADD_FAILURE() << "no error";
          } catch (const CommError& e) {
            EXPECT_EQ(e.rank(), 1);
            EXPECT_STREQ(e.what(), "'some' cannot be done: rank 1 has left the job");
          }
          // A rank that leaves earlier might be the one that the other's error names.
          for (++told; told < 2;) std::this_thread::yield();
        }
        // So does joining: it would wait for that rank.
        if (rank == 2) {
          EXPECT_THROW(named.wait(named.join()), CommError);
        }
        leave(named);
      }));
}

TEST(Unordered, WhatARankCannotStandInForEndsTheJob) {
  const std::vector<std::string> errors = testing::run_ranks(
      3, [](int) { return patient(); },
      [&](Engine& engine) {
        Unordered named(engine, "job", everyone(engine), {});
        std::array<float, kElements> values{};
        if (engine.membership().rank == 1)
          named.wait(named.join());
        else
          named.wait(named.submit("rows", "gather of rows", kWorld, {sum_of(values.data())}));
      });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("this rank cannot contribute zeros to gather of rows"), error.npos)
        << error;
}

TEST(Unordered, AnOperationThatMakesNoSenseIsItsSubmittersError) {
  expect_no_errors(testing::run_ranks(
      2, [](int) { return patient(); },
      [&](Engine& engine) {
        Unordered named(engine, "job", everyone(engine), {});
        std::array<float, kElements> values;
        values.fill(1);
        const Handle bad =
            named.submit("bad", "f32", kWorld, {sum_of(values.data()), sum_of(values.data(), -1)});
        const Handle good = named.submit("good", "f32", kWorld, {sum_of(values.data())});
        EXPECT_THROW(named.wait(bad), InvalidArgument);
        named.wait(good);
        EXPECT_EQ(values[0], 2) << "nothing of what is not valid has begun";
        leave(named);
      }));
}

// Operations that come again use the memory of those before; none may get what another had.
TEST(Unordered, RecurringOperationsKeepApart) {
  const unsigned seed = 11;
  expect_no_errors(testing::run_ranks(3, testing::two_hosts, [&](Engine& engine) {
    const int rank = engine.membership().rank, n = 50;
    Unordered named(engine, "job", everyone(engine), {});
    Operation sum{.reduction = ReduceOp::kSum, .count = kElements};
    const auto small =
        std::make_shared<const Recurring>(Recurring{.description = "8", .operation = sum});
    sum.count = 2 * kElements;
    const auto large =
        std::make_shared<const Recurring>(Recurring{.description = "16", .operation = sum});
    std::mt19937 random(seed + static_cast<unsigned>(rank));
    for (int step = 0; step < 20; ++step) {
      std::vector<std::array<float, 2 * kElements>> values(n);
      std::vector<int> order(n);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      std::vector<Handle> handles(n);
      for (const int i : order) {
        values[i].fill(static_cast<float>(i + step));
        handles[i] =
            named.submit("t" + std::to_string(i), (i + step) % 3 ? small : large, values[i].data());
      }
      std::shuffle(order.begin(), order.end(), random);
      for (const int i : order) {
        if (!named.take_over(handles[i])) named.wait(handles[i]);
        const auto one = static_cast<float>(i + step);
        EXPECT_EQ(values[i].front(), 3 * one);
        EXPECT_EQ(values[i].back(), (i + step) % 3 ? one : 3 * one) << "seed " << seed;
        EXPECT_THROW(named.wait(handles[i]), InvalidArgument);
      }
    }
    leave(named);
  }));
}

TEST(Unordered, EveryoneWhoWaitsGetsTheError) {
  expect_no_errors(testing::run_ranks(
      2, [](int) { return patient(); },
      [&](Engine& engine) {
        Unordered named(engine, "job", everyone(engine), {});
        std::array<float, kElements> values{};
        const Handle bad = named.submit("bad", "f32", kWorld, {sum_of(values.data(), -1)});
        std::atomic<int> told{0};
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i)
          threads.emplace_back([&] {
            try {
              named.wait(bad);
            } catch (const InvalidArgument&) {  // its own, or that the handle is known no more
              ++told;
            }
          });
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(told, 4);
        leave(named);
      }));
}

// Python's start functions may take long; meanwhile the engine goes on.
TEST(Unordered, AStartThatTakesLongStopsNobody) {
  expect_no_errors(testing::run_ranks(2, testing::two_hosts, [&](Engine& engine) {
    Unordered named(engine, "job", everyone(engine), {});
    std::atomic<bool> over{false};
    const Handle slow = named.submit("slow", "call", [&]() -> Rest {
      while (!over) std::this_thread::yield();
      return {};
    });
    std::array<float, kElements> values{};
    const Handle queued = engine.submit(kWorld, sum_of(values.data()), Delivery::kQueue);
    std::array<Completion, 1> done;
    EXPECT_EQ(engine.next_completions(done, 60), 1u);
    EXPECT_EQ(done[0].handle, queued);
    over = true;
    named.wait(slow);
    leave(named);
  }));
}

TEST(Unordered, SubsetsDoNotKnowEachOther) {
  expect_no_errors(testing::run_ranks(
      4, [](int) { return patient(); },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        const std::vector<int> ranks =
            rank % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{3, 1};
        const Group group = engine.add_group("half " + std::to_string(rank % 2), ranks);
        {
          Unordered all(engine, "all", everyone(engine), {});
          Unordered half(engine, "half", ranks, {});
          std::array<float, kElements> a, b;
          a.fill(static_cast<float>(rank));
          b.fill(static_cast<float>(rank));
          const Handle one = half.submit("x", "f32", group, {sum_of(a.data())});
          const Handle other = all.submit("x", "f32", kWorld, {sum_of(b.data())});
          while (!all.poll(other)) std::this_thread::yield();
          all.wait(other);
          half.wait(one);
          EXPECT_EQ(a[0], rank % 2 == 0 ? 2 : 4);
          EXPECT_EQ(b[0], 6);
          leave(half);
          leave(all);
        }
        engine.remove_group(group);
      }));
}

TEST(Unordered, EveryoneIsToldOfTheEnd) {
  const std::vector<std::string> errors = testing::run_ranks(
      3, [](int) { return patient(); },
      [&](Engine& engine) {
        Unordered named(engine, "job", everyone(engine), {});
        std::array<float, kElements> values{};
        named.wait(named.submit("all", "f32", kWorld, {sum_of(values.data())}));
        const int rank = engine.membership().rank;
        for (const int other : {0, 1}) {  // who have got their sums by then
          if (rank == 2)
            engine.wait(engine.submit(
                kWorld,
                {.kind = Kind::kRecv, .peer = other, .count = kElements, .output = values.data()}));
          if (rank == other)
            engine.wait(engine.submit(
                kWorld,
                {.kind = Kind::kSend, .peer = 2, .count = kElements, .input = values.data()}));
        }
        if (rank == 2) return;  // without a word
        EXPECT_THROW(named.wait(named.submit("some", "f32", kWorld, {sum_of(values.data())})),
                     CommError);
        EXPECT_THROW(named.submit("more", "f32", kWorld, {sum_of(values.data())}), CommError);
        EXPECT_TRUE(named.wait_left(60));
      });
  expect_no_errors(errors);
}

// The other rank says that its message has 4 GiB. Memory for it was taken, and then waited for.
TEST(Unordered, ALengthThatAnotherRankMadeUpEndsTheJob) {
  const std::vector<std::string> errors = testing::run_ranks(
      2, [](int) { return patient(); },
      [&](Engine& engine) {
        if (engine.membership().rank == 0) {
          Unordered named(engine, "job", everyone(engine), {});
          std::array<float, kElements> values{};
          named.wait(named.submit("all", "f32", kWorld, {sum_of(values.data())}));
          return;
        }
        const Group group = engine.add_group("job, negotiation", everyone(engine));
        std::array<unsigned char, 100> message, theirs;
        message.fill(0xff);
        const auto move = [&](Kind kind, unsigned char* data) {
          return engine.submit(group, {.kind = kind,
                                       .dtype = DType::kUInt8,
                                       .peer = 0,
                                       .count = static_cast<int64_t>(message.size()),
                                       .input = kind == Kind::kSend ? data : nullptr,
                                       .output = kind == Kind::kSend ? nullptr : data});
        };
        engine.wait(move(Kind::kSend, message.data()));
        engine.wait(move(Kind::kRecv, theirs.data()));
        engine.wait(move(Kind::kRecv, theirs.data()));  // until the job ends
      });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("rank 1 breaks the protocol: negotiation message: expected at most "
                         "16777216 bytes, got 4294967295"),
              error.npos)
        << error;
}

TEST(Unordered, AThreadThatCannotStartIsAnErrorAndLeavesNoGroup) {
  EXPECT_EXIT(
      {
        const auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, patient());
        forbid_threads();
        try {
          Unordered named(*engine, "job", {0}, {});
        } catch (const Unsupported& error) {
          engine->add_group("job, negotiation", {0});  // the name is free again
          const std::string text = error.what();
          _exit(text.starts_with("named operations: the system starts no more threads") ? 0 : 1);
        }
        _exit(2);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace stretto::comm
