// All-reduces of many hosts through codecs that round each value by itself: tree_halving encodes
// every partial sum.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "stretto/comm/collective/hosts.h"
#include "stretto/comm/collective/simulator.h"

namespace stretto::comm {
namespace {

using Floats = std::vector<float>;

Problem coded_problem(const Placement& placement, int64_t count, const Codec& codec) {
  return {.host = placement,
          .count = count,
          .coded = true,
          .coded_sums = codec.sums,
          .order = SumOrder::kTree,
          .align = codec.block};
}

Placement some_placement(int n, std::mt19937& random) {
  std::vector<int> host(n), rack(n);
  const unsigned layout = random() % 4;
  for (int r = 0; r < n; ++r) {
    host[r] = layout == 0   ? r
              : layout == 1 ? r / 3
                            : static_cast<int>(random() % static_cast<unsigned>(n));
    rack[r] = layout == 3 ? host[r] % 3 : 0;
  }
  return Placement(host, rack);
}

std::vector<Floats> some_values(int n, int64_t count, std::mt19937& random) {
  std::vector<Floats> values(n);
  for (Floats& of_rank : values)
    for (int64_t i = 0; i < count; ++i)
      of_rank.push_back(static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 7.0f);
  return values;
}

std::vector<Floats> all_reduced(const Problem& problem, const Codec& codec, ReduceOp op,
                                const std::vector<Floats>& inputs, bool in_place,
                                std::mt19937& random, std::vector<Floats>* residuals = nullptr) {
  std::vector<Floats> memory = inputs,
                      outputs(inputs.size(), Floats(static_cast<size_t>(problem.count)));
  std::vector<SimulatedRank> ranks(inputs.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    Floats& out = in_place ? memory[r] : outputs[r];
    ranks[r] = {.problem = problem,
                .input = reinterpret_cast<const std::byte*>(memory[r].data()),
                .output = reinterpret_cast<std::byte*>(out.data()),
                .residual = residuals ? (*residuals)[r].data() : nullptr};
    ranks[r].problem.rank = static_cast<int>(r);
  }
  simulate(find_algorithm(problem, "tree_halving"), ranks,
           {.op = op, .codec = &codec, .isa = usable_isa()}, random);
  return in_place ? memory : outputs;
}

float rounded(const Codec& codec, float x) {
  std::byte encoded[4];
  codec.encode(usable_isa(), &x, nullptr, 1, encoded);
  float decoded = 0;
  codec.decode(usable_isa(), encoded, 1, &decoded);
  return decoded;
}

// The definition: each host's sum and each partial sum is rounded, and the result. Those of an
// average are halved at every node below the root.
struct RoundedSum {
  const Hosts& hosts;
  const std::vector<Floats>& inputs;
  const Codec& codec;
  bool average;
  size_t i;

  float below(const TreeNode& node) const {
    if (node.leaf()) {
      float sum = 0;
      for (const int rank : hosts.members[node.begin])
        sum = rank == hosts.members[node.begin][0] ? inputs[rank][i] : sum + inputs[rank][i];
      return rounded(codec, sum);
    }
    return rounded(codec, both(node, node.depth));
  }

  float both(const TreeNode& node, int halved) const {
    const auto side = [&](int child) {
      const TreeNode& n = hosts.tree[child];
      return below(n) * (average ? std::ldexp(1.0f, n.depth - halved) : 1.0f);
    };
    return side(node.left) + side(node.right);
  }

  float total() const {
    const float sum = both(hosts.tree[0], 0);
    return rounded(codec, average ? sum / static_cast<float>(inputs.size()) : sum);
  }
};

// Whatever the units and the events. And an error of no more than the roundings of the way up: one
// of each host's sum, one at each level below the root, and one of the result.
TEST(CodedTree, GivesTheBitsOfRoundedPartialSums) {
  const unsigned seed = 20261128;
  std::mt19937 random(seed);
  int runs = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const int sizes[] = {33, 48, 65}, n = trial % 20 < 17 ? 1 + trial % 20 : sizes[trial % 20 - 17];
    for (const char* name : {"fp16", "bf16", "none"}) {
      const Codec& codec = find_codec(name);
      Problem problem = coded_problem(some_placement(n, random), 1 + random() % 150, codec);
      problem.unit = random() % 2 ? 0 : 1 + random() % 60;
      if (problem.host.hosts().count() == 1) continue;
      ++runs;
      const bool average = random() % 2;
      const std::vector<Floats> inputs = some_values(n, problem.count, random);
      const auto results =
          all_reduced(problem, codec, average ? ReduceOp::kAverage : ReduceOp::kSum, inputs,
                      random() % 2, random);
      const Hosts& hosts = problem.host.hosts();
      const double unit = name[0] == 'f' ? 0x1p-11 : name[0] == 'b' ? 0x1p-8 : 0x1p-22;
      for (size_t i = 0; i < results[0].size(); ++i) {
        const RoundedSum sum{hosts, inputs, codec, average, i};
        double exact = 0, magnitude = 0;
        for (const Floats& of_rank : inputs) {
          exact += of_rank[i] / (average ? n : 1.0);
          magnitude += std::abs(of_rank[i]) / (average ? n : 1.0);
        }
        // A hundredth for roundings of what has been rounded, and of fp32.
        ASSERT_NEAR(results[0][i], exact, 1.01 * (hosts.tree[0].depth + 1) * unit * magnitude)
            << name << ", trial " << trial;
        for (int r = 0; r < n; ++r)
          ASSERT_EQ(results[r][i], sum.total())
              << name << ", seed " << seed << ", trial " << trial << ", rank " << r << " of " << n
              << (average ? ", average" : ", sum");
      }
    }
  }
  EXPECT_GT(runs, 700);
}

// A sum of 64 such values is too large for fp16, and so would those of 33 be.
TEST(CodedTree, AveragesOfLargeValuesDoNotOverflow) {
  std::mt19937 random(1);
  for (const int n : {5, 33, 64}) {
    std::vector<int> host(n);
    for (int r = 0; r < n; ++r) host[r] = r;
    const Codec& fp16 = find_codec("fp16");
    const std::vector<Floats> inputs(n, Floats(9, 60000.0f));
    const auto results =
        all_reduced(coded_problem(host, 9, fp16), fp16, ReduceOp::kAverage, inputs, false, random);
    for (const Floats& of_rank : results)
      for (const float x : of_rank) ASSERT_EQ(x, 60000.0f) << n;
  }
}

// What is lost at any level is in the residual of the rank that encoded it.
TEST(CodedTree, ResidualsHoldWhatWasLost) {
  std::mt19937 random(2);
  for (const char* name : {"fp16", "bf16"})
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage})
      for (const int n : {3, 7, 16, 24}) {
        const Codec& codec = find_codec(name);
        const int64_t count = 50;
        const Problem problem = coded_problem(some_placement(n, random), count, codec);
        if (problem.host.hosts().count() == 1) continue;
        const std::vector<Floats> inputs = some_values(n, count, random);
        std::vector<Floats> residuals(n, Floats(count));
        std::vector<double> arrived(count);
        const int steps = 5;
        for (int step = 0; step < steps; ++step) {
          const auto results = all_reduced(problem, codec, op, inputs, false, random, &residuals);
          for (int64_t i = 0; i < count; ++i) arrived[i] += results[0][i];
        }
        const double scale = op == ReduceOp::kAverage ? 1.0 / n : 1;
        double owed = 0;
        for (int64_t i = 0; i < count; ++i) {
          double given = 0, left = 0;
          for (int r = 0; r < n; ++r) {
            given += scale * steps * inputs[r][i];
            left += scale * residuals[r][i];
          }
          owed += std::abs(left);
          // Roundings of fp32, of sums below 150 n.
          ASSERT_NEAR(arrived[i] + left, given, scale * steps * n * n * 1e-4)
              << name << ", " << n << " ranks";
        }
        EXPECT_GT(owed, 0);
      }
}

// Each value is encoded more often in the tree, so few ranks do not take it.
TEST(CodedTree, IsChosenForManyHostsOnly) {
  const auto chosen = [](int ranks, int per_host, int racks, int64_t count, const char* name) {
    std::vector<int> host(ranks), rack(ranks);
    for (int r = 0; r < ranks; ++r) host[r] = r / per_host;
    for (int r = 0; r < ranks; ++r) rack[r] = host[r] * racks / (host.back() + 1);
    Problem problem = coded_problem(Placement(host, rack), count, find_codec(name));
    problem.order = SumOrder::kAuto;
    problem.unit = 1 << 20;
    return choose_algorithm(problem, {}, {.local = 4, .wire = 2}).name;
  };
  for (int ranks = 2; ranks <= 32; ++ranks)
    for (const int per_host : {1, 2, 8})
      for (const int racks : {1, 2})
        for (const int64_t count : {16, 16 << 10, 16 << 20}) {
          if (racks > 1 && ranks > 16) continue;
          EXPECT_NE(chosen(ranks, per_host, racks, count, "fp16"), "tree_halving") << ranks;
        }
  for (const int64_t count : {1 << 10, 16 << 20}) {
    EXPECT_EQ(chosen(512, 1, 1, count, "bf16"), "tree_halving") << count;
    EXPECT_NE(chosen(512, 1, 1, count, "int8"), "tree_halving") << count;
  }
}

}  // namespace
}  // namespace stretto::comm
