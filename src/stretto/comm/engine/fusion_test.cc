// Small all-reduces that are joined: the same ones on every rank, whatever the timing, and no bit
// of a result changes.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <future>
#include <memory>
#include <random>
#include <set>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/engine/state.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::run_ranks;
using testing::two_hosts;

struct Burst {
  std::vector<std::vector<float>> values;
  std::vector<ReduceOp> reductions;
};

// The same sizes and reductions on every rank, values of its own.
Burst make_burst(int rank, unsigned seed) {
  std::mt19937 shapes(seed), random(seed + 100 * static_cast<unsigned>(rank) + 1);
  Burst burst;
  for (int i = 0; i < 200; ++i) {
    // Some too large to be joined, some empty.
    const int64_t count = shapes() % 20 == 0 ? shapes() % 50'000 : shapes() % 3000;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = std::uniform_real_distribution<float>(-1, 1)(random);
    burst.values.push_back(std::move(values));
    burst.reductions.push_back(shapes() % 10 == 0 ? ReduceOp::kAverage : ReduceOp::kSum);
  }
  return burst;
}

Operation operation(Burst& burst, size_t i) {
  return {.reduction = burst.reductions[i],
          .count = static_cast<int64_t>(burst.values[i].size()),
          .input = burst.values[i].data(),
          .output = burst.values[i].data()};
}

// All-reduces of these sizes that wait in one group, numbered from 0.
struct Waiting {
  explicit Waiting(const std::vector<int64_t>& counts) {
    for (const int64_t count : counts) {
      values.emplace_back(static_cast<size_t>(count), static_cast<float>(values.size()));
      auto& open = operations.emplace_back(std::make_unique<OpenOperation>());
      open->operation.count = count;
      open->sequence = operations.size() - 1;
      open->input = reinterpret_cast<const std::byte*>(values.back().data());
      open->output = reinterpret_cast<std::byte*>(values.back().data());
      fusion.waiting.push_back(open.get());
    }
  }
  std::deque<std::vector<float>> values;
  std::vector<std::unique_ptr<OpenOperation>> operations;
  Fusion fusion;
};

TEST(Fusion, CountsWhatEveryRankHasSubmittedUpToALimit) {
  Waiting some({1, 1, 1, 1});
  Fusion& fusion = some.fusion;
  EXPECT_EQ(count_next(fusion, 1024), 1u) << "nobody knows what the others have submitted";
  fusion.submitted_everywhere = 3;
  EXPECT_EQ(count_next(fusion, 1024), 3u);
  EXPECT_EQ(count_next(fusion, 8), 2u);
  EXPECT_EQ(count_next(fusion, 0), 1u);
  some.operations[1]->operation.reduction = ReduceOp::kSum;
  EXPECT_EQ(count_next(fusion, 1024), 1u);
  fusion.under_way = some.operations[0].get();
  EXPECT_EQ(count_next(fusion, 1024), 0u);
  EXPECT_EQ(count_next(Fusion{}, 1024), 0u);
}

TEST(Fusion, ACarrierTakesTheDataOfItsMembersThereAndBack) {
  Waiting some({2, 3, 1});
  const std::unique_ptr<OpenOperation> carrier = join(some.fusion, 2);
  EXPECT_EQ(carrier->operation.count, 5);
  EXPECT_EQ(some.operations[1]->carrier, carrier.get());
  EXPECT_EQ(some.operations[2]->carrier, nullptr);
  auto* packed = reinterpret_cast<float*>(carrier->packed_output.data());
  EXPECT_EQ(std::vector<float>(packed, packed + 5), (std::vector<float>{0, 0, 1, 1, 1}));
  for (int i = 0; i < 5; ++i) packed[i] += 10;
  split(*carrier);
  EXPECT_EQ(some.values[0], std::vector<float>(2, 10));
  EXPECT_EQ(some.values[1], std::vector<float>(3, 11));
  EXPECT_EQ(some.values[2], std::vector<float>(1, 2));
  EXPECT_EQ(some.operations[1]->carrier, nullptr);
}

TEST(Fusion, TheEndOfOneTellsWhatEveryRankHasSubmitted) {
  Waiting some({1, 1, 1, 1, 1});
  Fusion& fusion = some.fusion;
  fusion.under_way = some.operations[0].get();
  some.operations[0]->ahead = 2;
  note_over(fusion, *some.operations[0]);
  EXPECT_EQ(fusion.under_way, nullptr);
  EXPECT_EQ(fusion.submitted_everywhere, 3u);
  OpenOperation carrier;
  carrier.members = {some.operations[1].get(), some.operations[3].get()};
  note_over(fusion, carrier);
  EXPECT_EQ(fusion.submitted_everywhere, 4u) << "up to the last member";
}

TEST(Fusion, StoppingKeepsTheMemoryThatAThreadMayUse) {
  Waiting some({1, 1});
  Fusion& fusion = some.fusion;
  fusion.carrier = join(fusion, 2);
  OpenOperation* carrier = fusion.under_way = fusion.carrier.get();
  stop(fusion);
  EXPECT_TRUE(fusion.waiting.empty());
  EXPECT_EQ(fusion.under_way, nullptr);
  EXPECT_EQ(fusion.stopped.get(), carrier);
  stop(fusion);
  EXPECT_EQ(fusion.stopped.get(), carrier) << "an engine stops again when it closes";
}

TEST(Fusion, IsForSmallAllReducesOfSeveralRanksWithoutACodec) {
  Options options;
  GroupState group;
  group.ranks = {0, 1};
  OpenOperation open;
  const auto of = [&](int64_t count) {
    open.operation.count = count;
    return may_fuse(open, group, options);
  };
  EXPECT_FALSE(of(0));
  EXPECT_TRUE(of(1));
  EXPECT_TRUE(of(kSmallBytes / 4));
  EXPECT_FALSE(of(kSmallBytes / 4 + 1));
  open.codec = &find_codec("int8");
  EXPECT_FALSE(of(1));
  open.codec = nullptr;
  open.operation.kind = Kind::kReduce;
  EXPECT_FALSE(of(1));
  open.operation.kind = Kind::kAllReduce;
  group.internal = true;
  EXPECT_FALSE(of(1));
  group.internal = false;
  group.ranks = {0};
  EXPECT_FALSE(of(1));
  group.ranks = {0, 1};
  options.fuse_bytes = 0;
  EXPECT_FALSE(of(1));
}

TEST(Fusion, RanksJoinTheSameOperationsAndNoBitChanges) {
  for (int size : {2, 3, 4}) {
    std::atomic<int64_t> joined = 0;
    expect_no_errors(run_ranks(size, two_hosts, [&](Engine& engine) {
      const int rank = engine.membership().rank;
      for (unsigned seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(seed);
        Burst alone = make_burst(rank, seed), burst = make_burst(rank, seed);
        for (size_t i = 0; i < alone.values.size(); ++i)
          engine.wait(engine.submit(kWorld, operation(alone, i)));
        std::mt19937 pace(seed + 7 * static_cast<unsigned>(rank));  // ranks are not in step
        std::vector<Handle> handles;
        for (size_t i = 0; i < burst.values.size(); ++i) {
          handles.push_back(engine.submit(kWorld, operation(burst, i)));
          if (pace() % 50 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(pace() % 2000));
        }
        for (Handle handle : handles) engine.wait(handle);
        for (size_t i = 0; i < burst.values.size(); ++i) {
          ASSERT_EQ(std::memcmp(burst.values[i].data(), alone.values[i].data(),
                                4 * alone.values[i].size()),
                    0)
              << "operation " << i;
        }
      }
      joined += engine.statistics().joined;
    }));
    EXPECT_GT(joined, 100 * size) << "of " << 5 * 200 * size;
  }
}

// Batches of ranks that are not in step, with single operations between them. With tuning, settings
// change at the ends of steps that the engine finds by itself, in the middle of batches.
TEST(Fusion, OperationsThatAreSubmittedTogetherAreJoinedFromTheFirst) {
  for (const Tuning tuning : {Tuning::kOff, Tuning::kQuick}) {
    SCOPED_TRACE(static_cast<int>(tuning));
    const auto options = [&](int rank) {
      Options options = two_hosts(rank);
      options.tuning = tuning;
      return options;
    };
    expect_no_errors(run_ranks(3, options, [&](Engine& engine) {
      const int rank = engine.membership().rank;
      Burst alone = make_burst(rank, 9);
      const size_t n = alone.values.size();
      for (size_t i = 0; i < n; ++i) engine.wait(engine.submit(kWorld, operation(alone, i)));
      std::mt19937 sizes(5), pace(7 * static_cast<unsigned>(rank) + 1);
      for (int repeat = 0; repeat < 30; ++repeat) {
        Burst burst = make_burst(rank, 9);
        std::vector<Handle> handles;
        while (handles.size() < n) {
          const size_t first = handles.size(), size = std::min(sizes() % 60, n - first);
          std::vector<Operation> batch;
          for (size_t i = first; i < first + size; ++i) batch.push_back(operation(burst, i));
          std::vector<Handle> together;
          engine.submit_together(kWorld, std::move(batch), &together);
          ASSERT_EQ(together.size(), size);
          handles.insert(handles.end(), together.begin(), together.end());
          if (handles.size() < n)
            handles.push_back(engine.submit(kWorld, operation(burst, handles.size())));
          if (pace() % 8 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(pace() % 2000));
        }
        for (Handle handle : std::set(handles.begin(), handles.end())) engine.wait(handle);
        for (size_t i = 0; i < n; ++i) {
          ASSERT_EQ(std::memcmp(burst.values[i].data(), alone.values[i].data(),
                                4 * alone.values[i].size()),
                    0)
              << "operation " << i << ", repeat " << repeat;
        }
      }
      EXPECT_GT(engine.statistics().joined, 30 * 200 * 3 / 4);
    }));
  }
}

TEST(Fusion, TogetherIsForCollectives) {
  expect_no_errors(run_ranks(2, two_hosts, [&](Engine& engine) {
    std::vector<float> x(4);
    std::vector<Handle> handles;
    const Operation sum{.count = 4, .input = x.data(), .output = x.data()};
    const Operation send{.kind = Kind::kSend, .peer = 0, .count = 4, .input = x.data()};
    std::vector<Operation> both{sum, send};
    EXPECT_THROW(engine.submit_together(kWorld, std::move(both), &handles), InvalidArgument);
    EXPECT_TRUE(handles.empty());
    EXPECT_EQ(both.size(), 2u);
    engine.submit_together(kWorld, {}, &handles);
    EXPECT_TRUE(handles.empty());
  }));
}

// Two types and a large one take turns: one operation for each type, and the large one alone.
TEST(Fusion, TogetherJoinsAlikeOperationsWhateverStandsBetweenThem) {
  expect_no_errors(run_ranks(3, two_hosts, [](Engine& engine) {
    const float rank = static_cast<float>(engine.membership().rank);
    std::vector<std::vector<float>> small(20, std::vector<float>(100, rank));
    std::vector<std::vector<double>> wide(20, std::vector<double>(70, 2.0 * rank));
    std::vector<float> large(100'000, 3 * rank);
    std::vector<Operation> operations;
    const auto add = [&](DType dtype, auto& x) {
      operations.push_back({.dtype = dtype,
                            .reduction = ReduceOp::kSum,
                            .count = static_cast<int64_t>(x.size()),
                            .input = x.data(),
                            .output = x.data()});
    };
    for (size_t i = 0; i < small.size(); ++i) {
      add(DType::kFloat32, small[i]);
      add(DType::kFloat64, wide[i]);
      if (i == 7) add(DType::kFloat32, large);
    }
    std::vector<Handle> handles;
    engine.submit_together(kWorld, std::move(operations), &handles);
    EXPECT_EQ(handles.size(), operations.size());
    const std::set<Handle> different(handles.begin(), handles.end());
    EXPECT_EQ(different.size(), 3u);
    for (Handle handle : different) engine.wait(handle);
    for (const auto& x : small) EXPECT_EQ(x, std::vector<float>(100, 3));
    for (const auto& x : wide) EXPECT_EQ(x, std::vector<double>(70, 6));
    EXPECT_EQ(large, std::vector<float>(100'000, 9));
    EXPECT_EQ(engine.statistics().joined, 40);
    EXPECT_EQ(engine.statistics().operations, 41);
  }));
}

// Ranks may have different time limits, and join the same operations all the same.
TEST(Fusion, TogetherTheShortestTimeLimitHolds) {
  const auto submit = [](Engine& engine, std::vector<float>& x, std::vector<double> limits_s) {
    std::vector<Operation> operations;
    for (const double limit_s : limits_s)
      operations.push_back({.count = 1,
                            .input = &x[operations.size()],
                            .output = &x[operations.size()],
                            .timeout_s = limit_s});
    std::vector<Handle> handles;
    engine.submit_together(kWorld, std::move(operations), &handles);
    EXPECT_EQ(std::set(handles.begin(), handles.end()).size(), 1u);
    engine.wait(handles[0]);
  };
  expect_no_errors(run_ranks(2, two_hosts, [&](Engine& engine) {
    std::vector<float> x(3);
    const double rank = engine.membership().rank;
    submit(engine, x, {0, 100 + rank, 200 * rank});
  }));
  std::promise<void> end;
  const std::shared_future<void> over = end.get_future().share();
  const auto errors = run_ranks(2, two_hosts, [&](Engine& engine) {
    if (engine.membership().rank == 1) {
      over.wait_for(std::chrono::minutes(1));
      return;
    }
    std::vector<float> x(3);
    EXPECT_THROW(submit(engine, x, {100, 0.2, 0}), CommError);
    end.set_value();
    submit(engine, x, {0});  // its error is that of the job
  });
  EXPECT_EQ(errors[0],
            "all_reduce of 3 float32 (average), '3 operations in one' is not done after 0.2 s (the "
            "timeout of group 'world'); rank 0 waits for rank 1");
}

TEST(Fusion, NaNInWhatIsSubmittedTogetherIsReportedByName) {
  const auto batch = [](std::vector<std::vector<float>>& data) {
    std::vector<Operation> operations;
    for (size_t i = 0; i < data.size(); ++i)
      operations.push_back({.count = static_cast<int64_t>(data[i].size()),
                            .input = data[i].data(),
                            .output = data[i].data(),
                            .name = fmt::format("layer {}", i)});
    return operations;
  };
  const auto data_of = [](int rank) {
    std::vector<std::vector<float>> data(30, std::vector<float>(50, 1.0f));
    if (rank == 1) data[17][3] = data[17][5] = data[22][0] = NAN;
    return data;
  };
  expect_no_errors(run_ranks(2, two_hosts, [&](Engine& engine) {
    const int rank = engine.membership().rank;
    auto data = data_of(rank);
    std::vector<Handle> handles;
    engine.submit_together(kWorld, batch(data), &handles);
    engine.wait(handles[0]);
    const std::vector<NonFiniteReport> found = engine.take_non_finite();
    ASSERT_EQ(found.size(), rank == 1 ? 2u : 0u);
    if (rank == 0) return;
    EXPECT_EQ(found[0].name, "layer 17");
    EXPECT_EQ(found[0].first_offset, 3);
    EXPECT_EQ(found[0].count, 2);
    EXPECT_EQ(found[1].name, "layer 22");
    EXPECT_EQ(found[1].first_offset, 0);
  }));
  const auto options = [](int rank) {
    Options options = two_hosts(rank);
    options.nan_check = NanCheck::kStop;
    return options;
  };
  const auto errors = run_ranks(2, options, [&](Engine& engine) {
    auto data = data_of(engine.membership().rank);
    std::vector<Handle> handles;
    engine.submit_together(kWorld, batch(data), &handles);
    engine.wait(handles[0]);
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("50 float32"), std::string::npos) << error;
    EXPECT_NE(error.find("'layer 17' has 2 values that are not finite"), std::string::npos)
        << error;
  }
}

TEST(Fusion, OffMeansOneByOne) {
  expect_no_errors(run_ranks(
      2,
      [](int rank) {
        Options options = two_hosts(rank);
        options.fuse_bytes = 0;
        return options;
      },
      [](Engine& engine) {
        Burst burst = make_burst(engine.membership().rank, 3);
        std::vector<Handle> handles;
        for (size_t i = 0; i < burst.values.size(); ++i)
          handles.push_back(engine.submit(kWorld, operation(burst, i)));
        for (Handle handle : handles) engine.wait(handle);
        EXPECT_EQ(engine.statistics().joined, 0);
      }));
}

// One rank may fuse operations after it has changed settings, another before. Both must plan them
// with the settings with which the operations began.
TEST(Fusion, OnlyOperationsOfTheSameSettingsAreJoinedAndTheirCarrierKeepsThem) {
  const auto before = std::make_shared<Settings>();
  const auto after = std::make_shared<Settings>(Settings{.generation = 1});
  std::vector<float> x(10);
  std::deque<OpenOperation> operations(5);
  Fusion fusion{.submitted_everywhere = 5};
  for (size_t i = 0; i < operations.size(); ++i) {
    operations[i].sequence = i;
    operations[i].operation = {.count = 10, .input = x.data(), .output = x.data()};
    operations[i].input = reinterpret_cast<const std::byte*>(x.data());
    operations[i].settings = i < 3 ? before : after;
    fusion.waiting.push_back(&operations[i]);
  }
  EXPECT_EQ(count_next(fusion, 1 << 20), 3u);
  EXPECT_EQ(join(fusion, 3)->settings, before);
}

// The sum of sizes is the same on both ranks, so that nothing but the description tells.
TEST(Fusion, ADifferentOrderInABurstIsAnErrorOnEveryRank) {
  const auto errors = run_ranks(2, two_hosts, [](Engine& engine) {
    const int rank = engine.membership().rank;
    std::vector<std::vector<float>> data(60, std::vector<float>(1000, 1.0f));
    data[rank == 0 ? 40 : 41].resize(500);
    std::vector<Handle> handles;
    for (auto& x : data)
      handles.push_back(engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                               .count = static_cast<int64_t>(x.size()),
                                               .input = x.data(),
                                               .output = x.data()}));
    for (Handle handle : handles) engine.wait(handle);
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("ranks submitted different operations"), error.npos) << error;
}

}  // namespace
}  // namespace stretto::comm
