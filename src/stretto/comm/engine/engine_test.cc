#include "stretto/comm/engine/engine.h"

#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/comm/engine/engine_testing.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::run_ranks;
using testing::tcp;
using testing::two_hosts;

TEST(Engine, SumsOnEveryRank) {
  for (int size : {1, 2, 3, 5}) {
    expect_no_errors(run_ranks(size, tcp, [&](Engine& engine) {
      const int rank = engine.membership().rank;
      for (int64_t count : {0, 1, 7, 4096, 100'003}) {
        std::vector<float> x(count);
        for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(rank + i % 10);
        engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                           .count = count,
                                           .input = x.data(),
                                           .output = x.data(),
                                           .name = "x"}));
        for (int64_t i = 0; i < count; ++i) {
          const float expected = static_cast<float>(size * (size - 1) / 2 + size * (i % 10));
          ASSERT_EQ(x[i], expected) << "rank " << rank << " of " << size << ", element " << i;
        }
      }
    }));
  }
}

TEST(Engine, ReductionsAverageUnlessToldOtherwise) {
  expect_no_errors(run_ranks(2, tcp, [&](Engine& engine) {
    float x = engine.membership().rank == 0 ? 1.0f : 4.0f;
    engine.wait(engine.submit(kWorld, {.count = 1, .input = &x, .output = &x}));
    EXPECT_EQ(x, 2.5f);
  }));
}

// Every kind once, with parts whose values tell where they came from.
TEST(Engine, EveryKindMovesWhatItPromises) {
  for (const auto& options_of : {tcp, two_hosts}) {
    constexpr int kSize = 4;
    expect_no_errors(run_ranks(kSize, options_of, [&](Engine& engine) {
      const int rank = engine.membership().rank;
      const auto run = [&](Operation op) {
        op.dtype = DType::kInt32;
        engine.wait(engine.submit(kWorld, op));
      };
      constexpr int64_t kCount = 1000;
      std::vector<int32_t> one(kCount), all(kSize * kCount), out(kSize * kCount, -1);
      const auto refill = [&] {
        std::fill(one.begin(), one.end(), 100 + rank);
        for (int64_t i = 0; i < kSize * kCount; ++i)
          all[i] = 10 * rank + static_cast<int32_t>(i / kCount);
        std::fill(out.begin(), out.end(), -1);
      };
      const auto part = [&](const std::vector<int32_t>& v, int i) { return v[i * kCount + 500]; };

      refill();
      run({.kind = Kind::kBroadcast,
           .root = 2,
           .count = kCount,
           .input = one.data(),
           .output = one.data()});
      EXPECT_EQ(one[500], 102);
      refill();
      run({.kind = Kind::kAllGather, .count = kCount, .input = one.data(), .output = out.data()});
      for (int i = 0; i < kSize; ++i) EXPECT_EQ(part(out, i), 100 + i);
      refill();
      run({.kind = Kind::kGather,
           .root = 1,
           .count = kCount,
           .input = one.data(),
           .output = out.data()});
      for (int i = 0; i < kSize; ++i) EXPECT_EQ(part(out, i), rank == 1 ? 100 + i : -1);
      refill();
      run({.kind = Kind::kReduceScatter,
           .reduction = ReduceOp::kSum,
           .count = kCount,
           .input = all.data(),
           .output = out.data()});
      EXPECT_EQ(out[500], 60 + kSize * rank);
      refill();
      run({.kind = Kind::kReduce,
           .reduction = ReduceOp::kSum,
           .root = 3,
           .count = kCount,
           .input = one.data(),
           .output = out.data()});
      if (rank == 3) {
        EXPECT_EQ(out[500], 406);
      }
      refill();
      run({.kind = Kind::kScatter,
           .root = 1,
           .count = kCount,
           .input = all.data(),
           .output = out.data()});
      EXPECT_EQ(out[500], 10 + rank);
      refill();
      run({.kind = Kind::kAllToAll, .count = kCount, .input = all.data(), .output = out.data()});
      for (int i = 0; i < kSize; ++i) EXPECT_EQ(part(out, i), 10 * i + rank);
      run({.kind = Kind::kBarrier});
    }));
  }
}

TEST(Engine, UnevenAllToAllWithGaps) {
  constexpr int kSize = 3;
  expect_no_errors(run_ranks(kSize, tcp, [&](Engine& engine) {
    const int rank = engine.membership().rank;
    // Rank r sends r + i + 1 elements to rank i, from places three apart plus the part's size.
    std::vector<int64_t> in_counts, in_places, out_counts, out_places;
    int64_t in_end = 0, out_end = 0;
    for (int i = 0; i < kSize; ++i) {
      in_counts.push_back(rank + i + 1);
      out_counts.push_back(i + rank + 1);
      in_places.push_back(in_end);
      out_places.push_back(out_end);
      in_end += in_counts.back() + 3;
      out_end += out_counts.back() + 2;
    }
    std::vector<int64_t> in(in_end, -7), out(out_end, -5);
    for (int i = 0; i < kSize; ++i) {
      for (int64_t j = 0; j < in_counts[i]; ++j) in[in_places[i] + j] = 100 * rank + 10 * i + j;
    }
    engine.wait(engine.submit(kWorld, {.kind = Kind::kAllToAll,
                                       .dtype = DType::kInt64,
                                       .input = in.data(),
                                       .output = out.data(),
                                       .input_counts = in_counts,
                                       .input_displacements = in_places,
                                       .output_counts = out_counts,
                                       .output_displacements = out_places}));
    for (int i = 0; i < kSize; ++i) {
      for (int64_t j = 0; j < out_counts[i]; ++j)
        EXPECT_EQ(out[out_places[i] + j], 100 * i + 10 * rank + j);
      EXPECT_EQ(out[out_places[i] + out_counts[i]], -5) << "a gap";
    }
  }));
}

TEST(Engine, SendAndReceiveInOrderAndFromAnyone) {
  expect_no_errors(run_ranks(3, tcp, [](Engine& engine) {
    const int rank = engine.membership().rank;
    const auto run = [&](Kind kind, int peer, uint32_t tag, int64_t* value) {
      const Handle handle = engine.submit(kWorld, {.kind = kind,
                                                   .dtype = DType::kInt64,
                                                   .peer = peer,
                                                   .tag = tag,
                                                   .count = 1,
                                                   .input = value,
                                                   .output = value});
      while (!engine.poll(handle)) std::this_thread::yield();
      const int polled = engine.source(handle);
      int source = -2;
      engine.wait(handle, -1, &source);
      EXPECT_EQ(source, kind == Kind::kRecv ? polled : -1);
      return source;
    };
    for (int64_t i = 0; i < 50; ++i) {
      int64_t value = 1000 * rank + i;
      if (rank > 0) {
        run(Kind::kSend, 0, 5, &value);
        run(Kind::kSend, 0, 6, &value);
        continue;
      }
      const int first = run(Kind::kRecv, kAnyPeer, 5, &value);
      ASSERT_EQ(value / 1000, first);
      const int64_t second = 0;
      value = second;
      run(Kind::kRecv, 1 + static_cast<int>(i % 2), 6, &value);
      ASSERT_EQ(value, 1000 * (1 + i % 2) + i / 2);
    }
    if (rank == 0) {
      for (int64_t i = 0; i < 50; ++i) {
        int64_t value = 0;
        const int source = run(Kind::kRecv, kAnyPeer, 5, &value);
        ASSERT_EQ(value / 1000, source);
        run(Kind::kRecv, 1 + static_cast<int>(i % 2), 6, &value);
        ASSERT_EQ(value, 1000 * (1 + i % 2) + 25 + i / 2);
      }
    }
  }));
}

// The promise of operation.h: no setting changes a bit.
TEST(Engine, BitsDoNotDependOnTheSettings) {
  constexpr int kSize = 4;
  constexpr int64_t kCount = 70'001;
  std::vector<float> first;
  struct Setting {
    const char* algorithm;
    int streams;
    int64_t chunk_bytes;
  };
  for (const Setting& s :
       {Setting{"auto", 1, 256 << 10}, Setting{"direct", 3, 4 << 10},
        Setting{"hierarchical", 2, 8 << 10}, Setting{"gather_sum", 2, 64 << 10}}) {
    std::vector<std::vector<float>> results(kSize);
    expect_no_errors(run_ranks(
        kSize,
        [&](int rank) {
          Options options = two_hosts(rank);
          options.algorithm = s.algorithm;
          options.streams = s.streams;
          options.chunk_bytes = s.chunk_bytes;
          return options;
        },
        [&](Engine& engine) {
          const int rank = engine.membership().rank;
          std::mt19937 random(rank);
          std::vector<float> x(kCount);
          for (float& v : x) v = std::uniform_real_distribution<float>(-1, 1)(random);
          engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                             .count = kCount,
                                             .input = x.data(),
                                             .output = x.data()}));
          results[rank] = x;
        }));
    if (first.empty()) first = results[0];
    for (const auto& result : results) {
      ASSERT_EQ(result.size(), first.size());
      EXPECT_EQ(std::memcmp(result.data(), first.data(), kCount * sizeof(float)), 0) << s.algorithm;
    }
  }
}

TEST(Engine, ManyOperationsAtOnceComeThroughTheCompletionQueue) {
  expect_no_errors(run_ranks(3, tcp, [](Engine& engine) {
    constexpr int kOperations = 200;
    std::vector<std::vector<float>> data(kOperations, std::vector<float>(100, 1.0f));
    data[7].assign(300'000, 1.0f);
    for (auto& x : data)
      engine.submit(kWorld,
                    {.reduction = ReduceOp::kSum,
                     .count = static_cast<int64_t>(x.size()),
                     .input = x.data(),
                     .output = x.data()},
                    Delivery::kQueue);
    std::vector<Completion> batch(16);
    for (int left = kOperations; left > 0;) {
      const size_t got = engine.next_completions(batch, 120);
      ASSERT_GT(got, 0u);
      for (size_t i = 0; i < got; ++i) EXPECT_FALSE(batch[i].error);
      left -= static_cast<int>(got);
    }
    for (const auto& x : data) {
      for (float v : x) ASSERT_EQ(v, 3.0f);
    }
  }));
}

TEST(Engine, GroupsHaveTheirOwnOrder) {
  expect_no_errors(run_ranks(4, tcp, [](Engine& engine) {
    const int rank = engine.membership().rank;
    const Group mine = engine.add_group(rank % 2 ? "odd" : "even",
                                        rank % 2 ? std::vector{3, 1} : std::vector{0, 2});
    for (int round = 0; round < 20; ++round) {
      int64_t local = rank, world = rank;
      const Handle a = engine.submit(mine, {.dtype = DType::kInt64,
                                            .reduction = ReduceOp::kSum,
                                            .count = 1,
                                            .input = &local,
                                            .output = &local});
      const Handle b = engine.submit(kWorld, {.dtype = DType::kInt64,
                                              .reduction = ReduceOp::kSum,
                                              .count = 1,
                                              .input = &world,
                                              .output = &world});
      engine.wait(b);
      engine.wait(a);
      ASSERT_EQ(local, rank % 2 ? 4 : 2);
      ASSERT_EQ(world, 6);
    }
    engine.remove_group(mine);
  }));
}

TEST(Engine, DifferentOperationsFailOnEveryRankWithBothDescriptions) {
  const auto errors = run_ranks(3, tcp, [](Engine& engine) {
    const bool odd = engine.membership().rank == 1;
    std::vector<float> x(64);
    const int64_t count = odd ? 20 : 10;
    engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                       .count = count,
                                       .input = x.data(),
                                       .output = x.data(),
                                       .name = odd ? "b" : "a"}));
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("all_reduce of 20 float32 (sum), 'b'"), error.npos) << error;
    EXPECT_NE(error.find("all_reduce of 10 float32 (sum), 'a'"), error.npos) << error;
  }
}

// A root that is far ahead waits for those who have not even begun, and loses nothing.
TEST(Engine, WhatComesEarlyTakesNoMoreMemoryThanAllowed) {
  expect_no_errors(run_ranks(
      3,
      [](int rank) {
        Options options = tcp(rank);
        options.eager_limit_bytes = 2 << 20;
        return options;
      },
      [](Engine& engine) {
        constexpr int kOperations = 100;
        constexpr int64_t kCount = 50'000;
        const bool root = engine.membership().rank == 1;
        std::vector<std::vector<float>> data(kOperations, std::vector<float>(kCount));
        std::vector<Handle> handles;
        const auto submit = [&](int i) {
          if (root) std::iota(data[i].begin(), data[i].end(), static_cast<float>(i));
          handles.push_back(engine.submit(kWorld, {.kind = Kind::kBroadcast,
                                                   .root = 1,
                                                   .count = kCount,
                                                   .input = data[i].data(),
                                                   .output = data[i].data()}));
        };
        if (!root) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        for (int i = 0; i < kOperations; ++i) submit(i);
        for (Handle handle : handles) engine.wait(handle);
        for (int i = 0; i < kOperations; ++i)
          ASSERT_EQ(data[i].back(), static_cast<float>(i + kCount - 1)) << i;
        EXPECT_LE(engine.statistics().peak_eager_bytes, 2 << 20);
      }));
}

// How an operation is cut must not depend on what is a rank's own affair.
TEST(Engine, LargePartsOfDifferentSizesAreCutAlike) {
  const std::vector<int64_t> counts = {1'000, 5'000'000};
  expect_no_errors(run_ranks(2, tcp, [&](Engine& engine) {
    const int rank = engine.membership().rank;
    const std::vector<float> mine(static_cast<size_t>(counts[rank]), static_cast<float>(rank + 1));
    std::vector<float> all(static_cast<size_t>(counts[0] + counts[1]));
    engine.wait(engine.submit(kWorld, {.kind = Kind::kAllGather,
                                       .count = counts[rank],
                                       .input = mine.data(),
                                       .output = all.data(),
                                       .output_counts = counts}));
    EXPECT_EQ(std::count(all.begin(), all.begin() + counts[0], 1.0f), counts[0]);
    EXPECT_EQ(std::count(all.begin() + counts[0], all.end(), 2.0f), counts[1]);
  }));
}

// Many times, because a rank may hear of it before the others have reached it: what they shall hear
// then is the reason, not that its links broke.
TEST(Engine, AbortAtTheVeryBeginningIsTheReasonForAll) {
  for (uint32_t epoch = 0; epoch < 300 && !HasFailure(); ++epoch) {
    const auto errors = run_ranks(
        3, tcp,
        [](Engine& engine) {
          if (engine.membership().rank == 2) {
            engine.abort("enough");
            throw std::runtime_error("aborted");
          }
          engine.wait(engine.submit(kWorld, {.kind = Kind::kBarrier}));
        },
        memory_store(), epoch);
    EXPECT_EQ(errors, (std::vector<std::string>{"enough", "enough", "aborted"}));
  }
}

TEST(Engine, AbortEndsEveryRankAndTheNextEpochWorks) {
  const auto store = memory_store();
  const auto errors = run_ranks(
      3, tcp,
      [](Engine& engine) {
        std::vector<float> x(100'000);
        if (engine.membership().rank == 2) {
          engine.abort("rank 2 has had enough");
          throw std::runtime_error("aborted");
        }
        engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                           .count = 100'000,
                                           .input = x.data(),
                                           .output = x.data()}));
      },
      store, 0);
  EXPECT_EQ(errors, (std::vector<std::string>{"rank 2 has had enough", "rank 2 has had enough",
                                              "aborted"}));
  expect_no_errors(run_ranks(
      3, tcp, [](Engine& engine) { engine.wait(engine.submit(kWorld, {.kind = Kind::kBarrier})); },
      store, 1));
}

TEST(Engine, ARankThatLeavesIsMissedByThoseWhoNeedIt) {
  const auto errors = run_ranks(2, tcp, [](Engine& engine) {
    if (engine.membership().rank == 1) return;
    float x = 1;
    engine.wait(engine.submit(
        kWorld, {.reduction = ReduceOp::kSum, .count = 1, .input = &x, .output = &x}));
  });
  EXPECT_EQ(errors[0], "rank 1 has left the job while rank 0 waits for it");
  EXPECT_EQ(errors[1], "");
}

TEST(Engine, NamesTheRanksThatDoNotCome) {
  Options options = tcp(0);
  options.connect_timeout_s = 0.05;
  try {
    Engine::create(memory_store(), {.rank = 0, .size = 3}, options);
    ADD_FAILURE() << "no error";
  } catch (const CommError& e) {
    EXPECT_STREQ(e.what(),
                 "ranks 1, 2 did not start within 0.05 s (STRETTO_CONNECT_TIMEOUT); check that "
                 "they run with the same address, size and epoch");
  }
}

}  // namespace
}  // namespace stretto::comm
