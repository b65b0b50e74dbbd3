// Jobs whose hosts are in several racks.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>

#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/engine/engine_testing.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::run_ranks;

constexpr int kSize = 8;

// Two racks of two hosts of two ranks, interleaved: hosts 0 and 2 are in the first rack.
int host_of(int rank) { return rank % 4; }
int rack_of(int rank) { return rank % 2; }

Options in_racks(int rank, bool named, std::string algorithm = "auto") {
  Options options = testing::patient();
  options.algorithm = std::move(algorithm);
  options.transports = "tcp";
  options.host = fmt::format("host {}", host_of(rank));
  if (named) options.rack = fmt::format("rack {}", rack_of(rank));
  return options;
}

// All-reduces `count` values, checks the bits, and returns how many bytes both racks together have
// sent to the other one.
int64_t sent_across(bool named, int64_t count, const std::vector<float>& expected,
                    const std::string& algorithm) {
  std::vector<std::vector<float>> values;
  for (int rank = 0; rank < kSize; ++rank) values.push_back(testing::values_of(rank, count));
  std::atomic<int64_t> across = 0;
  const auto sent = [](Engine& engine) {
    const int rank = engine.membership().rank;
    int64_t bytes = 0;
    for (const LinkStatistics& link : engine.statistics().links) {
      for (const StreamStatistics& stream : link.streams)
        bytes += rack_of(link.rank) != rack_of(rank) ? stream.sent_bytes : 0;
    }
    return bytes;
  };
  expect_no_errors(run_ranks(
      kSize, [&](int rank) { return in_racks(rank, named, algorithm); },
      [&](Engine& engine) {
        std::vector<float>& x = values[engine.membership().rank];
        const int64_t before = sent(engine);
        engine.wait(engine.submit(
            kWorld,
            {.reduction = ReduceOp::kSum, .count = count, .input = x.data(), .output = x.data()}));
        across += sent(engine) - before;
      }));
  for (int rank = 0; rank < kSize; ++rank) EXPECT_EQ(values[rank], expected) << "rank " << rank;
  return across;
}

// The sum of each host, then of each rack, then of both; or of all hosts from left to right.
std::vector<float> expected_sum(bool named, int64_t count) {
  std::array<std::vector<float>, 4> hosts;
  for (int h = 0; h < 4; ++h) {
    hosts[h] = testing::values_of(h, count);
    const std::vector<float> second = testing::values_of(h + 4, count);
    for (int64_t i = 0; i < count; ++i) hosts[h][i] += second[i];
  }
  std::vector<float> total(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    total[i] = named ? (hosts[0][i] + hosts[2][i]) + (hosts[1][i] + hosts[3][i])
                     : hosts[0][i] + hosts[1][i] + hosts[2][i] + hosts[3][i];
  return total;
}

TEST(EngineRacks, OnlyTheSumOfARackLeavesIt) {
  constexpr int64_t kCount = 1'000'003, kBytes = 4 * kCount;
  // Each rack sends half of the tensor to be added there and the other half as a result. Frames,
  // acknowledgements and heartbeats take less than a twentieth.
  const int64_t across = sent_across(true, kCount, expected_sum(true, kCount), "tree_halving");
  EXPECT_GE(across, 2 * kBytes);
  EXPECT_LT(across, 2 * kBytes * 21 / 20);
  // Without names of racks each host sends as much.
  EXPECT_GT(sent_across(false, kCount, expected_sum(false, kCount), "hierarchical"), 3 * kBytes);
}

TEST(EngineRacks, EveryAlgorithmAndSizeHasTheSameBits) {
  for (const int64_t count : {1, 7, 5000, 300'001}) {
    for (const char* algorithm :
         {"auto", "direct", "hierarchical", "hierarchical_exchange", "tree_halving"})
      sent_across(true, count, expected_sum(true, count), algorithm);
  }
}

// Two hosts of nine ranks in two racks are few enough to run here and many enough for the tree, cut
// in several units.
TEST(EngineRacks, AReduceScatterInTheTreeHasTheBitsOfTheSum) {
  constexpr int kRanks = 18;
  constexpr int64_t kBlock = 20'011, kAll = kRanks * kBlock;
  Problem problem{.kind = Collective::kReduceScatter, .count = kBlock, .unit = 1 << 16};
  std::vector<int> sides;
  for (int r = 0; r < kRanks; ++r) sides.push_back(r % 2);
  problem.host = Placement(sides, sides);
  ASSERT_EQ(choose_algorithm(problem, {}, {}).name, "tree_halving");
  std::array<std::vector<float>, 2> hosts;
  for (int r = 0; r < kRanks; ++r) {
    std::vector<float>& host = hosts[r % 2];
    const std::vector<float> values = testing::values_of(r, kAll);
    if (host.empty()) {
      host = values;
      continue;
    }
    for (int64_t i = 0; i < kAll; ++i) host[i] += values[i];
  }
  std::vector<int> wrong(kRanks);
  expect_no_errors(run_ranks(
      kRanks,
      [](int rank) {
        Options options = testing::patient();
        options.transports = "tcp";
        options.chunk_bytes = 32 << 10;
        options.host = fmt::format("host {}", rank % 2);
        options.rack = fmt::format("rack {}", rank % 2);
        return options;
      },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        const std::vector<float> x = testing::values_of(rank, kAll);
        std::vector<float> block(kBlock);
        engine.wait(engine.submit(kWorld, {.kind = Kind::kReduceScatter,
                                           .reduction = ReduceOp::kSum,
                                           .count = kBlock,
                                           .input = x.data(),
                                           .output = block.data()}));
        for (int64_t i = 0; i < kBlock; ++i) {
          const int64_t at = rank * kBlock + i;
          wrong[rank] += block[i] != hosts[0][at] + hosts[1][at];
        }
      }));
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(wrong[rank], 0) << "rank " << rank;
}

// The halves of an average of 18 ranks in two racks, through codecs that may encode sums again.
TEST(EngineRacks, CodecsInTheTreeGiveOneResultToAllRanks) {
  constexpr int kRanks = 18;
  constexpr int64_t kCount = 100'003;
  std::vector<double> exact(kCount), magnitude(kCount);
  for (int r = 0; r < kRanks; ++r) {
    const std::vector<float> x = testing::values_of(r, kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      exact[i] += x[i] / kRanks;
      magnitude[i] += std::abs(x[i]) / kRanks;
    }
  }
  for (const char* codec : {"fp16", "bf16"}) {
    std::vector<std::vector<float>> results(kRanks);
    expect_no_errors(run_ranks(
        kRanks,
        [](int rank) {
          Options options = testing::patient();
          options.transports = "tcp";
          options.algorithm = "tree_halving";
          options.host = fmt::format("host {}", rank / 3);
          options.rack = fmt::format("rack {}", rank / 9);
          return options;
        },
        [&](Engine& engine) {
          std::vector<float> x = testing::values_of(engine.membership().rank, kCount);
          engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kAverage,
                                             .count = kCount,
                                             .input = x.data(),
                                             .output = x.data(),
                                             .codec = codec}));
          results[engine.membership().rank] = x;
        }));
    for (int rank = 1; rank < kRanks; ++rank) EXPECT_EQ(results[rank], results[0]) << codec;
    // Six hosts: a tree of depth 3, so four roundings.
    const double unit = codec[0] == 'f' ? 0x1p-11 : 0x1p-8;
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_NEAR(results[0][i], exact[i], 1.01 * 4 * unit * magnitude[i] + 0x1p-24) << codec;
  }
}

// More ranks than have an algorithm of their own for few: segments go through many trees.
TEST(EngineRacks, LargeTensorsAreReducedAndBroadcastInSegments) {
  constexpr int kRanks = 18, kRoot = 5;
  constexpr int64_t kCount = 150'001;
  const auto host_of = [](int rank) { return rank < 16 ? rank : rank - 2; };  // two have two ranks
  std::vector<int> host, rack;
  for (int rank = 0; rank < kRanks; ++rank) {
    host.push_back(host_of(rank));
    rack.push_back(host.back() / 9);
  }
  const Problem problem{.kind = Collective::kReduce,
                        .host = Placement(host, rack),
                        .count = kCount,
                        .root = kRoot,
                        .unit = 1 << 19};
  EXPECT_EQ(choose_algorithm(problem, {}, {}).name, "pipelined_trees");
  std::vector<std::vector<float>> everywhere(kRanks), summed(kRanks), received(kRanks);
  expect_no_errors(run_ranks(
      kRanks,
      [&](int rank) {
        Options options = testing::patient();
        options.transports = "tcp";
        options.streams = 1;
        options.host = fmt::format("host {}", host[rank]);
        options.rack = fmt::format("rack {}", rack[rank]);
        return options;
      },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        const std::vector<float> x = testing::values_of(rank, kCount);
        std::vector<float>&sum = everywhere[rank], &own = summed[rank], &got = received[rank];
        sum = got = x;
        own.resize(rank == kRoot ? kCount : 0);
        const auto run = [&](const Operation& operation) {
          engine.wait(engine.submit(kWorld, operation));
        };
        run({.reduction = ReduceOp::kAverage,
             .count = kCount,
             .input = sum.data(),
             .output = sum.data()});
        run({.kind = Kind::kReduce,
             .reduction = ReduceOp::kAverage,
             .root = kRoot,
             .count = kCount,
             .input = x.data(),
             .output = own.data()});
        run({.kind = Kind::kBroadcast,
             .root = kRoot,
             .count = kCount,
             .input = got.data(),
             .output = got.data()});
      }));
  EXPECT_EQ(summed[kRoot], everywhere[0]) << "one order for all reductions";
  const std::vector<float> sent = testing::values_of(kRoot, kCount);
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(received[rank], sent) << "rank " << rank;
}

TEST(EngineRacks, ARankWhoseRackIsNotThatOfItsHostIsAnError) {
  const auto errors = run_ranks(
      kSize,
      [](int rank) {
        Options options = in_racks(rank, true);
        if (rank == 5) options.rack = "elsewhere";
        return options;
      },
      [](Engine&) {});
  for (const std::string& error : errors)
    EXPECT_EQ(error,
              "STRETTO_RACK: ranks 1 and 5 are on one host, but their racks are 'rack 1' and "
              "'elsewhere'");
}

}  // namespace
}  // namespace stretto::comm
