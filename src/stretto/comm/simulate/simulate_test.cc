// The virtual network by hand on jobs that can be worked out on paper, and the player against what
// the engine and the simulator of collective/ count.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/comm/collective/simulator.h"
#include "stretto/comm/collective/unit_size.h"
#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/simulate/negotiation.h"
#include "stretto/comm/simulate/network.h"
#include "stretto/comm/simulate/operation.h"
#include "stretto/comm/simulate/request.h"
#include "stretto/comm/simulate/tune_steps.h"

namespace stretto::comm {
namespace {

// Times that add up exactly in binary.
constexpr LinkModel kLink{.wire_latency_s = 1.0 / 1024,
                          .wire_message_s = 1.0 / 8192,
                          .wire_byte_s = 1.0 / (1 << 20),
                          .local_latency_s = 1.0 / 65536,
                          .local_message_s = 1.0 / 131072,
                          .local_byte_s = 1.0 / (1 << 25),
                          .sum_byte_s = 1.0 / (1 << 26)};

std::vector<int> in_hosts(int ranks, int per_host) {
  std::vector<int> host;
  for (int r = 0; r < ranks; ++r) host.push_back(r / per_host);
  return host;
}

TEST(VirtualNetwork, AMessageTakesTheTimeOfTheModel) {
  const Hosts hosts = find_hosts(in_hosts(3, 1));
  VirtualNetwork network(hosts, kLink);
  network.send(0, 1, 1 << 20, 7);
  VirtualNetwork::Event event;
  ASSERT_TRUE(network.next(&event));
  EXPECT_EQ(event.kind, VirtualNetwork::Event::Kind::kSent);
  EXPECT_EQ(event.time_s, kLink.wire_message_s + 1);
  ASSERT_TRUE(network.next(&event));
  EXPECT_EQ(event.kind, VirtualNetwork::Event::Kind::kDelivered);
  EXPECT_EQ(event.rank, 1);
  EXPECT_EQ(event.number, 7U);
  EXPECT_EQ(event.time_s, kLink.wire_latency_s + kLink.wire_message_s + 1);
  EXPECT_FALSE(network.next(&event));
}

// Two senders to one host take turns at its card; two receivers of one sender too.
TEST(VirtualNetwork, RanksShareTheCardOfTheirHost) {
  const Hosts hosts = find_hosts(std::vector<int>{0, 1, 2, 2});
  VirtualNetwork network(hosts, kLink);
  network.send(0, 2, 1 << 20, 0);
  network.send(1, 3, 1 << 20, 0);
  VirtualNetwork::Event event;
  while (network.next(&event)) continue;
  EXPECT_EQ(network.now_s(), kLink.wire_latency_s + 2 * (kLink.wire_message_s + 1));
  EXPECT_EQ(network.cards()[2].received_bytes, 2 << 20);
  EXPECT_EQ(network.cards()[2].received_messages, 2);
}

TEST(VirtualNetwork, AHostIsNotOnTheWire) {
  const Hosts hosts = find_hosts(std::vector<int>{0, 0});
  VirtualNetwork network(hosts, kLink);
  network.send(0, 1, 1 << 20, 0);
  VirtualNetwork::Event event;
  while (network.next(&event)) continue;
  EXPECT_EQ(network.now_s(),
            kLink.local_message_s + kLink.local_latency_s + (1 << 20) * kLink.local_byte_s);
  EXPECT_EQ(network.cards()[0].sent_bytes, 0);
}

// All hosts exchange halves, quarters, ... at the same time.
TEST(SimulateOperation, TreeHalvingTakesTheTimeOfItsRounds) {
  Problem problem{.host = in_hosts(8, 1), .count = 1 << 18, .order = SumOrder::kTree};
  const OperationRun run =
      simulate_operation(problem, find_algorithm(problem, "tree_halving"), {.link = kLink});
  const double bytes = 4.0 * (1 << 18), rounds = 3;
  double expected = 0;
  for (double part = bytes / 2; part >= bytes / 8; part /= 2)
    expected += 2 * (kLink.wire_latency_s + kLink.wire_message_s + part * kLink.wire_byte_s) +
                2 * part * kLink.sum_byte_s;
  EXPECT_NEAR(run.seconds, expected, 1e-9);
  EXPECT_EQ(run.card_bytes, 2 * bytes * 7 / 8);
  EXPECT_EQ(run.card_bytes, run.bound_bytes);
  EXPECT_EQ(run.card_messages, 2 * rounds);
  EXPECT_EQ(run.messages, 8 * 2 * rounds);
  EXPECT_EQ(run.peers, rounds);
  EXPECT_EQ(run.played_units, 1);
  EXPECT_GE(run.seconds, run.bound_s);
}

// The player and the simulator that moves data count the same messages and bytes.
TEST(SimulateOperation, CountsWhatTheSimulatorWithDataCounts) {
  const auto check = [](const Problem& problem, const Algorithm& algorithm, const Codec* codec) {
    const auto n = static_cast<size_t>(problem.ranks());
    std::vector<std::vector<float>> data(n, std::vector<float>(5000, 1.0f));
    std::vector<SimulatedRank> ranks(n);
    for (size_t r = 0; r < n; ++r) {
      auto* bytes = reinterpret_cast<std::byte*>(data[r].data());
      ranks[r] = {.problem = problem, .input = bytes, .output = bytes};
      ranks[r].problem.rank = static_cast<int>(r);
    }
    std::mt19937 random(1);
    const SimulatedTraffic traffic = simulate(algorithm, ranks, {.codec = codec}, random);
    const OperationRun run =
        simulate_operation(problem, algorithm, {.link = kLink, .codec = codec});
    SCOPED_TRACE(fmt::format("{} {}, {} ranks, {}", collective_name(problem.kind), algorithm.name,
                             n, codec ? codec->name : "no codec"));
    EXPECT_EQ(run.messages, traffic.messages);
    EXPECT_EQ(run.card_bytes, traffic.busiest());
    EXPECT_EQ(run.card_messages, traffic.most_messages());
    EXPECT_EQ(run.played_units, run.units);
    EXPECT_GE(run.seconds, run.bound_s);
  };
  for (const Collective kind :
       {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce})
    for (const int per_host : {1, 3})
      for (const int n : {2, 6, 9, 15})
        for (const SumOrder order : {SumOrder::kLine, SumOrder::kTree})
          for (const char* codec : {"", "fp16", "bf16", "int8"}) {
            Problem problem{.kind = kind,
                            .host = in_hosts(n, per_host),
                            .count = 5000,
                            .order = order,
                            .unit = 1500};
            const Codec* coded = *codec != 0 ? &find_codec(codec) : nullptr;
            if (coded && kind != Collective::kAllReduce) continue;
            if (coded) {
              problem.coded = true;
              problem.coded_sums = coded->sums;
              problem.align = coded->block;
            }
            for (const Algorithm& algorithm : algorithms(kind))
              if (algorithm.unfit(problem).empty()) check(problem, algorithm, coded);
          }
}

// One exchange: both ranks encode their tensor, send half the bytes, and add two encodings.
TEST(SimulateOperation, ACodecTakesTimeAndSavesBytes) {
  const Codec& codec = find_codec("fp16");
  const Problem problem{
      .host = in_hosts(2, 1), .count = 1 << 18, .coded = true, .coded_sums = true};
  const OperationRun run =
      simulate_operation(problem, find_algorithm(problem, "gather_sum"),
                         {.link = kLink, .codec = &codec, .codec_byte_s = 1.0 / (1 << 24)});
  EXPECT_EQ(run.card_bytes, 2 << 18);
  const double encode = 1.0 / 16, wire = kLink.wire_latency_s + kLink.wire_message_s + 0.5;
  EXPECT_GE(run.seconds, 2 * encode + wire);
  EXPECT_LE(run.seconds, 5 * encode + wire);
  EXPECT_THROW(simulate_operation(problem, find_algorithm(problem, "direct"), {}), InvalidArgument);
}

// What the engine sends for one operation, without headers, is what the schedules say. Integers, so
// that every algorithm fits.
TEST(SimulateOperation, BytesAreThoseThatTheEngineSends) {
  using testing::expect_no_errors, testing::patient, testing::run_ranks;
  constexpr int kRanks = 5;
  constexpr int64_t kCount = 200'000, kChunk = 16 << 10;
  for (const Algorithm& algorithm : algorithms(Collective::kAllReduce)) {
    SCOPED_TRACE(algorithm.name);
    std::vector<int64_t> sent(kRanks);
    std::vector<int> wrong(kRanks);
    expect_no_errors(run_ranks(
        kRanks,
        [&](int rank) {
          Options options = patient();
          options.transports = "tcp";
          options.streams = 1;
          options.host = fmt::format("host {}", rank / 2);  // the last one has one rank
          options.algorithm = algorithm.name;
          options.chunk_bytes = kChunk;
          return options;
        },
        [&](Engine& engine) {
          const int rank = engine.membership().rank;
          std::vector<int32_t> data(kCount);
          std::iota(data.begin(), data.end(), rank);
          const auto run = [&](const Operation& operation) {
            engine.wait(engine.submit(kWorld, operation));
          };
          run({.dtype = DType::kInt32,
               .reduction = ReduceOp::kMax,
               .count = kCount,
               .input = data.data(),
               .output = data.data()});
          run({.kind = Kind::kBarrier});  // all is received, so all is counted
          sent[rank] = engine.statistics().payload_bytes;
          for (int64_t i = 1; i < kCount; ++i) wrong[rank] += data[i] != i + kRanks - 1;
        }));
    Problem problem{.host = in_hosts(kRanks, 2), .count = kCount, .exact = true};
    problem.unit = default_unit_bytes(problem, kChunk, 4 * kCount) / 4;
    EXPECT_GT(unit_count(problem), 3);
    const auto counted = count_traffic(problem, algorithm, 4);
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_EQ(sent[r], counted[r].bytes) << "rank " << r;
      EXPECT_EQ(wrong[r], 0) << "rank " << r;
    }
  }
}

// Units are cut, and started, by the functions that the engine uses.
TEST(SimulateOperation, TwoUnitsOfAnySizeMayBeUnderWay) {
  EXPECT_TRUE(unit_may_start(0, 1 << 30));
  EXPECT_TRUE(unit_may_start(1 << 30, 1 << 30));
  EXPECT_FALSE(unit_may_start(int64_t{2} << 30, 1 << 30));
  EXPECT_TRUE(unit_may_start(kWindowBytes - window_share(1), 1));
  EXPECT_FALSE(unit_may_start(kWindowBytes, 1));
}

// Over a long way, ranks that may have few units under way wait for each other more often.
TEST(SimulateOperation, TheWindowLimitsUnitsUnderWay) {
  Problem problem{.host = in_hosts(4, 1), .count = 1 << 20, .unit = 1 << 15};
  const Algorithm& direct = find_algorithm(problem, "direct");
  LinkModel far = kLink;
  far.wire_latency_s = 1;
  const double two = simulate_operation(problem, direct, {.link = far, .window_bytes = 1}).seconds;
  const double many = simulate_operation(problem, direct, {.link = far}).seconds;
  EXPECT_GT(two, 1.2 * many);
}

// Playing a part of the units gives almost the time of all.
TEST(SimulateOperation, UnitsThatAreNotPlayedTakeTheTimeOfTheOthers) {
  Problem problem{
      .host = in_hosts(16, 2), .count = 1 << 22, .order = SumOrder::kTree, .unit = 1 << 16};
  const Algorithm& algorithm = find_algorithm(problem, "tree_halving");
  OperationOptions options{.link = kLink, .window_bytes = 1 << 20};  // 4 units
  const OperationRun all = simulate_operation(problem, algorithm, options);
  options.most_steps = 16 * 27 * 16;
  const OperationRun some = simulate_operation(problem, algorithm, options);
  EXPECT_EQ(all.played_units, 64);
  EXPECT_LT(some.played_units, 32);
  EXPECT_GE(some.played_units, 8);
  EXPECT_NEAR(some.seconds, all.seconds, 0.02 * all.seconds);
  EXPECT_EQ(some.card_bytes, all.card_bytes);
  EXPECT_EQ(some.messages, all.messages);
}

TEST(SimulateOperation, TooManyStepsAreEstimated) {
  Problem problem{.host = in_hosts(64, 1), .count = 1 << 20};
  const Algorithm& direct = find_algorithm(problem, "direct");
  const OperationRun run = simulate_operation(problem, direct, {.link = kLink, .most_steps = 1000});
  EXPECT_EQ(run.played_units, 0);
  EXPECT_EQ(run.seconds, run.estimate_s);
  const OperationRun played = simulate_operation(problem, direct, {.link = kLink});
  EXPECT_EQ(run.card_bytes, played.card_bytes);
  EXPECT_EQ(run.card_messages, played.card_messages);
  EXPECT_EQ(run.messages, 0);
}

TEST(SimulateNegotiation, NamesAreAgreedInTwoRoundsThenInOne) {
  const auto rounds = simulate_negotiation(Placement(in_hosts(24, 4)), 50, 3, kLink);
  ASSERT_EQ(rounds.size(), 4U);
  EXPECT_EQ(rounds[0].agreed, 0);  // numbers are given
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(rounds[i].agreed, 50);
    EXPECT_EQ(rounds[i].rank_messages, 5 + 4) << "one exchange for every bit of 24, and wakes";
    EXPECT_GE(rounds[i].seconds, 3 * kLink.wire_latency_s);
  }
  EXPECT_GT(rounds[0].rank_bytes, 5 * 50 * 16);
  EXPECT_LT(rounds[3].rank_bytes, 5 * 130);
}

// A trial must win by 3 %, so the tuner may stop short of the best where the slope is small.
TEST(SimulateTuning, BadSettingsBecomeGoodOnes) {
  for (const int hosts : {16, 48}) {
    const Placement placement(in_hosts(hosts, 1));
    const StepSetting start{.unit_bytes = 128 << 10, .algorithm = "direct"};
    const TuningRun run = simulate_tuning(placement, 4 << 20, start, {});
    EXPECT_GT(run.tried.size(), 0U);
    EXPECT_GT(run.steps, 0);
    EXPECT_GE(run.best_s, run.fastest_s);
    EXPECT_LE(run.best_s, 1.1 * run.fastest_s) << hosts;
    if (hosts == 48) {
      EXPECT_LT(run.best_s, 0.9 * run.start_s);
    }
  }
}

TEST(SimulateRequest, AnswersAndRefuses) {
  const auto answer = nlohmann::json::parse(
      simulate_request(R"({"ranks": 64, "ranks_per_host": 8, "bytes": 4194304})"));
  EXPECT_EQ(answer.at("algorithm"), "hierarchical");
  EXPECT_GT(answer.at("seconds").get<double>(), answer.at("bound_s").get<double>());
  const auto unfit = nlohmann::json::parse(
      simulate_request(R"({"ranks": 4, "bytes": 4096, "algorithm": "tree_halving"})"));
  EXPECT_TRUE(unfit.contains("unfit"));
  for (const char* bad : {"", "[]", R"({"ranks": 0})", R"({"ranks": 4, "what": "dance"})",
                          R"({"ranks": 4, "algorithm": "fastest"})", R"({"ranks": "four"})"})
    EXPECT_THROW(simulate_request(bad), InvalidArgument) << bad;
}

// No group waits for a unit of less than a chunk per message because it has many ranks.
TEST(UnitSize, GrowsWithTheParts) {
  const auto size = [](int ranks, int per_host, int64_t bytes) {
    return default_unit_bytes({.host = in_hosts(ranks, per_host)}, 256 << 10, bytes);
  };
  EXPECT_EQ(size(2, 1, 64 << 20), 2 << 20);
  EXPECT_EQ(size(2, 1, 1 << 20), 1 << 20);
  EXPECT_EQ(size(8, 1, 64 << 20), 2 << 20);
  EXPECT_EQ(size(64, 8, 64 << 20), 4 << 20);
  for (const int ranks : {256, 512, 4096})
    for (const int per_host : {8, 16}) {
      Problem problem{.host = in_hosts(ranks, per_host)};
      const int64_t unit = size(ranks, per_host, 64 << 20);
      EXPECT_GE(unit / parts_per_unit(problem), 16 << 10) << ranks;
      const auto sizes = unit_sizes_to_try(problem, 256 << 10);
      EXPECT_GE(sizes.back(), unit);
      EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
    }
}

// A message of a link with a longer latency, or with more bytes per second, needs more bytes.
TEST(UnitSize, FollowsTheLinkWithinTheLimitsOfTheCache) {
  const auto size = [](std::vector<int> hosts, const LinkModel& link) {
    return default_unit_bytes({.host = Placement(hosts)}, 256 << 10, 1 << 20, link);
  };
  const LinkModel usual;
  LinkModel a_little = usual, fast = usual, slow = usual, far = usual;
  a_little.wire_byte_s *= 1.3;
  fast.wire_byte_s /= 4;
  slow.wire_byte_s *= 8;
  far.wire_latency_s *= 1000;
  EXPECT_EQ(size({0, 1}, usual), 1 << 20);
  EXPECT_EQ(size({0, 1}, a_little), 1 << 20);
  EXPECT_EQ(size({0, 1}, fast), 2 << 20);
  EXPECT_EQ(size({0, 1}, slow), 128 << 10) << "an eighth of the operation";
  EXPECT_EQ(size({0, 1}, far), 2 << 20);
  EXPECT_EQ(size({0, 0}, fast), 1 << 20) << "the wire does not matter inside a host";
  LinkModel inside = usual;
  inside.local_byte_s /= 2;
  EXPECT_EQ(size({0, 0}, inside), 2 << 20);
}

}  // namespace
}  // namespace stretto::comm
