// The engine's settings while it looks for them on steps: every rank changes at the same operation,
// no bit of a result changes, and what was found is known the next time.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/tuning/tuning.h"
#include "stretto/tune/cache_file.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::run_ranks;

constexpr int kSize = 4;
constexpr int64_t kCount = 150'001;

struct Outcome {
  std::vector<float> first;
  bool same = true;
  TuningStatistics tuning;
};

// `steps` steps of two all-reduces on 2 x 2 ranks.
std::vector<Outcome> train(int steps, const std::string& cache, bool says_steps,
                           Tuning tuning = Tuning::kQuick) {
  std::vector<Outcome> outcomes(kSize);
  expect_no_errors(run_ranks(
      kSize,
      [&](int rank) {
        Options options = testing::two_hosts(rank);
        options.tuning = tuning;
        options.tuning_cache = cache;
        return options;
      },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        Outcome& outcome = outcomes[rank];
        const std::vector<float> values = testing::values_of(rank, kCount);
        for (int step = 0; step < steps; ++step) {
          std::vector<float> big = values, small(100, 1.0f);
          const Handle a = engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                                  .count = kCount,
                                                  .input = big.data(),
                                                  .output = big.data()});
          const Handle b = engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                                  .count = 100,
                                                  .input = small.data(),
                                                  .output = small.data()});
          if (says_steps) engine.step();
          engine.wait(a);
          engine.wait(b);
          if (step == 0) outcome.first = big;
          outcome.same &=
              std::memcmp(big.data(), outcome.first.data(), kCount * sizeof(float)) == 0;
        }
        const Statistics statistics = engine.statistics();
        EXPECT_EQ(statistics.operations, 2 * steps) << "what ranks agree with is not counted";
        if (!statistics.tuning.empty()) outcome.tuning = statistics.tuning[0];
      }));
  return outcomes;
}

TEST(EngineTuning, RanksChangeTogetherAndNoBitChanges) {
  for (const bool says_steps : {true, false}) {
    const auto cache = std::filesystem::temp_directory_path() /
                       ("stretto_tuning_test_" + std::to_string(getpid()));
    std::filesystem::remove(cache);
    // A trial takes 28 steps. Without being told, the engine waits for 64 operations, and joins 15
    // of these steps to one that is worth measuring.
    const auto outcomes = train(says_steps ? 60 : 520, cache, says_steps);
    for (const Outcome& outcome : outcomes) {
      EXPECT_TRUE(outcome.same);
      EXPECT_EQ(std::memcmp(outcome.first.data(), outcomes[0].first.data(), kCount * 4), 0);
      EXPECT_EQ(outcome.tuning.group, "world");
      EXPECT_GE(outcome.tuning.tried.size(), 1u) << outcome.tuning.model;
      ASSERT_EQ(outcome.tuning.tried.size(), outcomes[0].tuning.tried.size());
      for (size_t i = 0; i < outcome.tuning.tried.size(); ++i) {
        EXPECT_EQ(outcome.tuning.tried[i].setting, outcomes[0].tuning.tried[i].setting);
        EXPECT_EQ(outcome.tuning.tried[i].won, outcomes[0].tuning.tried[i].won);
      }
    }
    std::filesystem::remove(cache);
  }
}

// Loading data and evaluation take times of their own, and would drown what settings change.
TEST(EngineTuning, TimeWithoutAnOperationDoesNotCount) {
  constexpr double kPause_s = 0.1;
  double least_s = 0;
  const auto options_of = [](int rank) {
    Options options = testing::two_hosts(rank);
    options.tuning = Tuning::kQuick;
    options.tuning_cache = "none";
    return options;
  };
  expect_no_errors(run_ranks(2, options_of, [&](Engine& engine) {
    std::vector<float> x(1 << 16, 1.0f);
    for (int i = 0; i < 15; ++i) {
      engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kAverage,
                                         .count = std::ssize(x),
                                         .input = x.data(),
                                         .output = x.data()}));
      engine.step(kWorld);
      std::this_thread::sleep_for(std::chrono::duration<double>(kPause_s));
      if (engine.membership().rank != 0) continue;
      for (const TuningStatistics& tuning : engine.statistics().tuning)
        if (tuning.step_s > 0 && (least_s == 0 || tuning.step_s < least_s)) least_s = tuning.step_s;
    }
  }));
  EXPECT_GT(least_s, 0) << "no time was agreed on";
  EXPECT_LT(least_s, kPause_s);
}

TEST(EngineTuning, WhatTheTuningCacheKnowsIsInUseAtOnce) {
  const auto cache =
      std::filesystem::temp_directory_path() / ("stretto_recall_test_" + std::to_string(getpid()));
  std::filesystem::remove(cache);
  const auto before = train(10, cache, true);
  ASSERT_FALSE(before[0].tuning.model.empty());
  EXPECT_FALSE(before[0].tuning.recalled);
  tune::TuningCache known;
  known.put(setting_key(before[0].tuning.model, "8 streams, 1 interfaces, ranks 2 2"),
            {"unit=131072 streams=4 algorithm=hierarchical", 10.0});
  ASSERT_TRUE(tune::add_to_tuning_cache(cache, known));
  for (const Outcome& outcome : train(10, cache, true)) {
    EXPECT_TRUE(outcome.tuning.recalled);
    EXPECT_TRUE(outcome.tuning.settled);
    EXPECT_EQ(outcome.tuning.setting, "unit=131072 streams=4 algorithm=hierarchical");
    EXPECT_TRUE(outcome.same);
    EXPECT_EQ(std::memcmp(outcome.first.data(), before[0].first.data(), kCount * 4), 0);
  }
  for (const Outcome& outcome : train(10, cache, true, Tuning::kFull)) {
    EXPECT_FALSE(outcome.tuning.recalled);
    EXPECT_FALSE(outcome.tuning.settled) << "a full search does not trust the tuning cache";
    EXPECT_TRUE(outcome.same);
  }
  for (const Outcome& outcome : train(10, cache, true, Tuning::kOff)) {
    EXPECT_FALSE(outcome.tuning.recalled);
    EXPECT_TRUE(outcome.tuning.tried.empty());
  }
  std::filesystem::remove(cache);
}

// Not at the end of a step, with the engine's lock: a file system may take seconds.
TEST(EngineTuning, TheFileIsReadBeforeTheEngineWorks) {
  const auto file =
      std::filesystem::temp_directory_path() / ("stretto_early_test_" + std::to_string(getpid()));
  std::filesystem::remove(file);
  const auto model = train(10, file, true)[0].tuning.model;
  const auto settings = [&](const std::function<Group(Engine&)>& group_of) {
    tune::TuningCache known;
    known.put(setting_key(model, "8 streams, 1 interfaces, ranks 1 1"),
              {"unit=131072 streams=4 algorithm=direct", 10.0});
    EXPECT_TRUE(tune::add_to_tuning_cache(file, known));
    std::atomic<int> ready = 0;
    expect_no_errors(run_ranks(
        2,
        [&](int rank) {
          Options options = testing::two_hosts(rank);
          options.tuning = Tuning::kQuick;
          options.tuning_cache = file;
          return options;
        },
        [&](Engine& engine) {
          const Group group = group_of(engine);
          ++ready;
          while (ready < 2) std::this_thread::yield();
          std::filesystem::remove(file);
          std::vector<float> big(kCount, 1.0f), small(100, 1.0f);
          for (int step = 0; step < 10; ++step) {
            for (std::vector<float>* x : {&big, &small})
              engine.wait(engine.submit(group, {.reduction = ReduceOp::kSum,
                                                .count = std::ssize(*x),
                                                .input = x->data(),
                                                .output = x->data()}));
            engine.step(group);
          }
          const Statistics statistics = engine.statistics();
          ASSERT_EQ(statistics.tuning.size(), 1u);
          EXPECT_EQ(statistics.tuning[0].setting, "unit=131072 streams=4 algorithm=direct");
        }));
  };
  settings([](Engine&) { return kWorld; });
  // Rank 1 leads this group, so its engine reads the file, too.
  settings([](Engine& engine) { return engine.add_group("backwards", {1, 0}); });
  std::filesystem::remove(file);
}

// What this rank has sent over its only link.
struct Carried {
  int64_t first = 0, others = 0;  // over the first stream; over all others
};

Carried carried(Engine& engine) {
  Carried sum;
  const Statistics statistics = engine.statistics();
  for (const StreamStatistics& stream : statistics.links.at(0).streams)
    (&stream == &statistics.links[0].streams[0] ? sum.first : sum.others) += stream.sent_bytes;
  return sum;
}

// Lets no TCP connection of this process send more than this a second. Without it the kernel takes
// whatever is written, as long as the receiver keeps up, and there is nothing left for another
// stream to take.
void pace_connections(uint64_t bytes_s) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int protocol = 0;
    socklen_t length = sizeof protocol;
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) != 0 || protocol != IPPROTO_TCP)
      continue;
    ASSERT_EQ(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_s, sizeof bytes_s), 0);
  }
}

// Two groups of the same two ranks, so that both have the same link. The tuning cache gives one
// stream to the first group and four to the second.
TEST(EngineTuning, GroupsUseTheirOwnNumbersOfStreamsAtTheSameTime) {
  constexpr int64_t kCounts[] = {4 << 20, 3 << 20};  // of the two groups
  constexpr int kStreams[] = {1, 4};
  constexpr int kWarmUp = 12;  // steps; after 50 the tuner would see that times have drifted
  constexpr int64_t kSlack = 64 << 10;  // acknowledgements, heartbeats and what groups agree on
  const auto cache =
      std::filesystem::temp_directory_path() / ("stretto_groups_test_" + std::to_string(getpid()));
  std::filesystem::remove(cache);
  const auto options_of = [&](int rank) {
    Options options = testing::two_hosts(rank);
    options.tuning = Tuning::kQuick;
    options.tuning_cache = cache;
    return options;
  };
  using Body = std::function<void(Engine&, const std::function<void(std::vector<int>)>&)>;
  const auto run = [&](const Body& body) {
    expect_no_errors(run_ranks(2, options_of, [&](Engine& engine) {
      const Group groups[] = {engine.add_group("one", {0, 1}), engine.add_group("four", {0, 1})};
      std::vector<float> data[] = {std::vector<float>(kCounts[0]), std::vector<float>(kCounts[1])};
      const auto step = [&](const std::vector<int>& which) {
        std::vector<Handle> handles;
        for (const int i : which) {
          std::fill(data[i].begin(), data[i].end(), 1.0f);
          handles.push_back(engine.submit(groups[i], {.reduction = ReduceOp::kSum,
                                                      .count = kCounts[i],
                                                      .input = data[i].data(),
                                                      .output = data[i].data()}));
        }
        for (const Handle handle : handles) engine.wait(handle);
        for (const int i : which) {
          engine.step(groups[i]);
          EXPECT_EQ(data[i].back(), 2.0f);
        }
      };
      for (int i = 0; i < kWarmUp; ++i) step({0, 1});
      body(engine, step);
    }));
  };

  tune::TuningCache known;
  run([&](Engine& engine, const auto&) {
    if (engine.membership().rank != 0) return;
    const Statistics statistics = engine.statistics();
    ASSERT_EQ(statistics.tuning.size(), 2u);
    for (const TuningStatistics& tuning : statistics.tuning) {
      const int streams = kStreams[tuning.group == "one" ? 0 : 1];
      known.put(setting_key(tuning.model, fmt::format("{} streams, 1 interfaces, ranks 1 1",
                                                      engine.options().connected_streams())),
                {fmt::format("unit=16777216 streams={} algorithm=direct", streams), 10.0});
    }
  });
  ASSERT_TRUE(tune::add_to_tuning_cache(cache, known));

  run([&](Engine& engine, const auto& step) {
    for (const TuningStatistics& tuning : engine.statistics().tuning)
      EXPECT_EQ(tuning.setting, fmt::format("unit=16777216 streams={} algorithm=direct",
                                            kStreams[tuning.group == "one" ? 0 : 1]));
    const auto sent = [&](const std::vector<int>& which, int steps) {
      const Carried before = carried(engine);
      for (int i = 0; i < steps; ++i) step(which);
      const Carried after = carried(engine);
      return Carried{after.first - before.first, after.others - before.others};
    };
    // An all-reduce of two ranks sends as many bytes as the tensor has.
    const int64_t one = kCounts[0] * 4, four = kCounts[1] * 4;
    // Less than this processor, perhaps under a sanitizer, lets one stream carry.
    const auto begin = std::chrono::steady_clock::now();
    step({1});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    pace_connections(static_cast<uint64_t>(
        std::clamp(static_cast<double>(four) / took.count() / 8, 4e6, 100e6)));
    for (int round = 0; round < 2; ++round) {
      const Carried first = sent({0}, 2);
      EXPECT_GE(first.first, 2 * one);
      EXPECT_LT(first.others, kSlack) << "the other group's streams";
      const Carried second = sent({1}, 4);
      EXPECT_GT(second.others, 4 * kSlack);
      const Carried both = sent({0, 1}, 3);
      EXPECT_GE(both.first, 3 * one);
      EXPECT_LT(both.others, 3 * four + kSlack);
    }
  });
}

// A file for one test, which knows what links of a topology cost.
std::filesystem::path cache_with_links(const std::string& name, const std::string& topology,
                                       const LinkCosts& costs) {
  const auto cache =
      std::filesystem::temp_directory_path() / (name + "_" + std::to_string(getpid()));
  std::filesystem::remove(cache);
  tune::TuningCache known;
  known.put(setting_key("links", topology), {link_costs_text(costs), 0});
  EXPECT_TRUE(tune::add_to_tuning_cache(cache, known));
  return cache;
}

constexpr LinkCosts kCached = {2e-9, 64e-6, 3e-10, 4e-6};  // written without loss

TEST(EngineLinks, AreThoseOfTheTuningCacheUntilTheyAreObserved) {
  const auto cache =
      cache_with_links("stretto_links_test", "8 streams, 1 interfaces, ranks 2 2", kCached);
  for (const Tuning tuning : {Tuning::kQuick, Tuning::kOff}) {
    expect_no_errors(run_ranks(
        kSize,
        [&](int rank) {
          Options options = testing::two_hosts(rank);
          options.tuning = tuning;
          options.tuning_cache = cache.string();
          return options;
        },
        [&](Engine& engine) {
          const GroupLinks before = engine.link_model();
          EXPECT_EQ(before.measured, tuning == Tuning::kQuick) << "off: the file is not used";
          EXPECT_EQ(before.known, tuning == Tuning::kQuick ? kCached : LinkCosts{});
          std::vector<float> large(256 << 10), small(16);
          for (int i = 0; i < 10; ++i)
            for (std::vector<float>* x : {&large, &small})
              engine.wait(engine.submit(kWorld, {.count = static_cast<int64_t>(x->size()),
                                                 .input = x->data(),
                                                 .output = x->data()}));
          const GroupLinks after = engine.link_model();
          EXPECT_TRUE(after.measured);
          EXPECT_NE(after.known[kWireByte], before.known[kWireByte]);
          EXPECT_NE(after.known[kWireLatency], before.known[kWireLatency]);
          EXPECT_EQ(after.known[kLocalByte], before.known[kLocalByte]) << "nothing inside a host";
          const Group again = engine.add_group("again", {0, 1, 2, 3});
          EXPECT_EQ(engine.link_model(again).known[kWireByte], after.known[kWireByte])
              << "groups of the same ranks share what they observe";
        }));
  }
  std::filesystem::remove(cache);
}

TEST(EngineLinks, AreKeptForHostsInTheirRacks) {
  const auto cache =
      cache_with_links("stretto_racks_test", "8 streams, 1 interfaces, ranks 2 / 2", kCached);
  for (const bool racks : {true, false})
    expect_no_errors(run_ranks(
        kSize,
        [&](int rank) {
          Options options = testing::two_hosts(rank);
          options.tuning = Tuning::kQuick;
          options.tuning_cache = cache.string();
          if (racks) options.rack = options.host;
          return options;
        },
        [&](Engine& engine) { EXPECT_EQ(engine.link_model().measured, racks); }));
  std::filesystem::remove(cache);
}

// Every rank plans with the costs that the first rank's file has.
TEST(EngineLinks, CostsOfTheFirstRanksFileAreThoseOfEveryRank) {
  const auto plain = train(6, "none", true);
  const auto cache =
      cache_with_links("stretto_units_test", "8 streams, 1 interfaces, ranks 2 2", kCached);
  for (const Outcome& outcome : train(6, cache, true)) {
    EXPECT_EQ(outcome.tuning.wire_byte_s, kCached[kWireByte]);
    EXPECT_TRUE(outcome.same);
    EXPECT_EQ(std::memcmp(outcome.first.data(), plain[0].first.data(), kCount * 4), 0);
  }
  std::filesystem::remove(cache);
}

}  // namespace
}  // namespace stretto::comm
