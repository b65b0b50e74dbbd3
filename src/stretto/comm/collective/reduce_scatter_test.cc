// The tree of a reduce-scatter against an all-reduce in the documented order, which all_reduce_test
// compares with a plain sum, and what it sends against its bound.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "stretto/base/error.h"
#include "stretto/comm/collective/hosts.h"
#include "stretto/comm/collective/simulator.h"

namespace stretto::comm {
namespace {

using Memory = std::vector<std::byte>;

struct Arithmetic {
  DType dtype;
  ReduceOp op;
};
constexpr Arithmetic kArithmetic[] = {
    {DType::kFloat32, ReduceOp::kSum},      {DType::kFloat32, ReduceOp::kAverage},
    {DType::kFloat64, ReduceOp::kSum},      {DType::kFloat64, ReduceOp::kProduct},
    {DType::kFloat16, ReduceOp::kSum},      {DType::kFloat16, ReduceOp::kAverage},
    {DType::kBFloat16, ReduceOp::kAverage}, {DType::kBFloat16, ReduceOp::kSum},
    {DType::kInt32, ReduceOp::kSum},        {DType::kInt64, ReduceOp::kAverage},
    {DType::kUInt8, ReduceOp::kMax},
};

// Ordinary numbers with fractions that sums have to round.
Memory random_memory(DType dtype, int64_t count, std::mt19937& random) {
  const auto element = static_cast<int64_t>(dtype_bytes(dtype));
  Memory memory(static_cast<size_t>(count * element));
  for (int64_t i = 0; i < count; ++i) {
    const double x = (static_cast<int>(random() % 2001) - 1000) / 7.0;
    std::byte* at = memory.data() + i * element;
    const auto put = [&](auto value) { std::memcpy(at, &value, sizeof value); };
    switch (dtype) {
      case DType::kFloat32:
        put(static_cast<float>(x));
        break;
      case DType::kFloat64:
        put(x);
        break;
      case DType::kFloat16:
        put(float_to_half(static_cast<float>(x)));
        break;
      case DType::kBFloat16:
        put(float_to_bfloat16(static_cast<float>(x)));
        break;
      case DType::kInt32:
        put(static_cast<int32_t>(x));
        break;
      case DType::kInt64:
        put(static_cast<int64_t>(x));
        break;
      default:
        put(static_cast<uint8_t>(random()));
    }
  }
  return memory;
}

std::vector<int> hosts_of(int ranks, int per_host) {
  std::vector<int> host;
  for (int r = 0; r < ranks; ++r) host.push_back(r / per_host);
  return host;
}

Placement random_placement_of(int n, std::mt19937& random) {
  std::vector<int> host = hosts_of(n, 1), rack(host.size(), 0);
  const unsigned layout = random() % 4;
  for (int r = 0; r < n; ++r) {
    if (layout == 1) host[r] = r / 2;
    if (layout == 2) host[r] = static_cast<int>(random() % static_cast<unsigned>(n));
    if (layout == 3) rack[r] = static_cast<int>(random() % 3);
  }
  return Placement(host, rack);
}

const Algorithm& tree_row() {
  const auto rows = algorithms(Collective::kReduceScatter);
  return *std::find_if(rows.begin(), rows.end(),
                       [](const Algorithm& a) { return a.name == "tree_halving"; });
}

// The bits of an all-reduce of the same numbers that adds in the order of the tree.
Memory expected_sums(const Problem& scatter, int64_t count, const std::vector<Memory>& inputs,
                     const SimulatorOptions& options, std::mt19937& random) {
  std::vector<Memory> in = inputs, out = inputs;
  std::vector<SimulatedRank> ranks(in.size());
  for (size_t r = 0; r < ranks.size(); ++r)
    ranks[r] = {.problem = {.rank = static_cast<int>(r),
                            .host = scatter.host,
                            .count = count,
                            .order = SumOrder::kTree},
                .input = in[r].data(),
                .output = out[r].data()};
  simulate(algorithms(Collective::kAllReduce)[0], ranks, options, random);
  return out[0];
}

// Every number of ranks, blocks of equal and of different sizes, apart from each other or not, cut
// in units or not: the bits of each block are the same.
TEST(ReduceScatterTree, GivesTheBitsOfTheAllReduce) {
  const unsigned seed = 20261127;
  std::mt19937 random(seed);
  std::set<int> seen;
  for (int trial = 0; trial < 1600; ++trial) {
    const int n = 2 + trial % 16;
    const Arithmetic type = kArithmetic[random() % std::size(kArithmetic)];
    Problem problem{.kind = Collective::kReduceScatter,
                    .host = random_placement_of(n, random),
                    .count = static_cast<int64_t>(random() % 3 == 0 ? 1 : random() % 40),
                    .exact = is_exact(type.dtype, type.op),
                    .order = SumOrder::kTree,
                    .unit = random() % 2 ? 0 : 1 + static_cast<int64_t>(random() % 200),
                    .align = random() % 2 ? 1 : 4};
    std::vector<int64_t> counts(n, problem.count), begins(n);
    if (random() % 2) {
      for (int64_t& c : counts) c = static_cast<int64_t>(random() % 5 == 0 ? 0 : random() % 30);
      problem.counts = counts;
    }
    std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), int64_t{0});
    const int64_t all = begins[n - 1] + counts[n - 1];
    if (!problem.counts.empty() && random() % 2) {  // the last block first
      for (int r = 0; r < n; ++r) begins[r] = all - begins[r] - counts[r];
      problem.displacements = begins;
    }
    if (!tree_row().unfit(problem).empty()) continue;
    seen.insert(n);
    const SimulatorOptions options{.dtype = type.dtype, .op = type.op};
    std::vector<Memory> inputs;
    for (int r = 0; r < n; ++r) inputs.push_back(random_memory(type.dtype, all, random));
    const Memory expected = expected_sums(problem, all, inputs, options, random);
    const auto element = static_cast<int64_t>(dtype_bytes(type.dtype));
    const bool in_place = random() % 2;
    std::vector<Memory> outputs(n);
    std::vector<SimulatedRank> ranks(n);
    for (int r = 0; r < n; ++r) {
      outputs[r].resize(static_cast<size_t>(counts[r] * element));
      ranks[r] = {.problem = problem,
                  .input = inputs[r].data(),
                  .output = in_place ? inputs[r].data() + begins[r] * element : outputs[r].data()};
      ranks[r].problem.rank = r;
    }
    simulate(tree_row(), ranks, options, random);
    for (int r = 0; r < n; ++r)
      ASSERT_TRUE(counts[r] == 0 ||
                  std::memcmp(ranks[r].output, expected.data() + begins[r] * element,
                              static_cast<size_t>(counts[r] * element)) == 0)
          << "seed " << seed << ", trial " << trial << ", rank " << r << " of " << n << ", "
          << problem.host.hosts().count() << " hosts, " << dtype_name(type.dtype) << " "
          << reduce_op_name(type.op) << ", unit " << problem.unit;
  }
  EXPECT_EQ(seen.size(), 16);
}

// Messages of a rank: at most two ranges per level, and one to each neighbour. Bytes: those of the
// bound, (m - 1) / m of the input for m hosts, when they are a power of two. For other m a host
// whose leaf is deep receives up to a third more.
TEST(ReduceScatterTree, SendsFewMessagesAndLittleMoreThanTheBound) {
  for (const int per_host : {1, 2})
    for (const int m : {2, 3, 5, 7, 8, 11, 13, 33, 64, 65, 100, 257, 512}) {
      Problem problem{.kind = Collective::kReduceScatter,
                      .host = hosts_of(m * per_host, per_host),
                      .count = 1 << 8,
                      .order = SumOrder::kTree};
      const Algorithm& algorithm = find_algorithm(problem, "tree_halving");
      const int depth = problem.host.hosts().tree[0].depth;
      int most = 0;
      std::vector<double> sent(m), received(m);
      for (int r = 0; r < problem.ranks(); ++r) {
        problem.rank = r;
        int messages = 0;
        for (const Step& step : algorithm.schedule(problem, 0).steps) {
          messages += step.action == Action::kSend;
          if (step.peer < 0 || step.peer / per_host == r / per_host) continue;
          (step.action == Action::kSend ? sent : received)[r / per_host] +=
              static_cast<double>(step.count);
        }
        most = std::max(most, messages);
      }
      const Cost cost = algorithm.cost(problem);
      EXPECT_LE(most, 2 * depth + per_host - 1) << m;
      EXPECT_LE(per_host * (most - per_host + 1), cost.wire_messages) << m;
      const double bytes = std::max(*std::max_element(sent.begin(), sent.end()),
                                    *std::max_element(received.begin(), received.end()));
      EXPECT_DOUBLE_EQ(bytes, cost.wire_elements) << m;
      const double bound = static_cast<double>(problem.count) * problem.ranks() * (m - 1.0) / m;
      if (1 << depth == m) {
        EXPECT_EQ(bytes, bound) << m;
      } else {
        EXPECT_LE(bytes, 4.0 / 3 * bound) << m;
      }
    }
}

// What is gained at hundreds of hosts must cost nothing where all reach each other in one round.
TEST(ReduceScatterTree, IsChosenForManyHostsOnly) {
  const auto chosen = [](const Placement& placement, int64_t block, bool exact) {
    const Problem problem{.kind = Collective::kReduceScatter,
                          .host = placement,
                          .count = block,
                          .exact = exact,
                          .unit = 1 << 18};
    return choose_algorithm(problem, {}, {}).name;
  };
  for (int n = 2; n <= 16; ++n)
    for (const int per_host : {1, 2, 4, 8})
      for (const int racks : {1, 2, 4})
        for (const int64_t block : {1, 64, 4096, 1 << 20})
          for (const bool exact : {false, true}) {
            const std::vector<int> host = hosts_of(n, per_host);
            std::vector<int> rack;
            for (const int h : host) rack.push_back(h * racks / (host.back() + 1));
            EXPECT_NE(chosen(Placement(host, rack), block, exact), "tree_halving")
                << n << " ranks, " << per_host << " per host, " << racks << " racks, " << block;
          }
  for (const int n : {512, 4096})
    for (const int64_t block : {32, 2048, 1 << 17}) {
      EXPECT_EQ(chosen(hosts_of(n, 1), block, false), "tree_halving") << n << " " << block;
      EXPECT_EQ(chosen(hosts_of(n, 8), block, false), "tree_halving") << n << " " << block;
    }
}

// A host may hold 2^depth ranges where racks differ much.
TEST(ReduceScatterTree, RefusesRacksThatDifferTooMuch) {
  std::vector<int> host(40), rack(40);
  std::iota(host.begin(), host.end(), 0);
  for (int r = 0; r < 20; ++r) rack[r] = r;
  for (int r = 20; r < 40; ++r) rack[r] = 20;
  const Problem problem{
      .kind = Collective::kReduceScatter, .host = Placement(host, rack), .count = 10};
  EXPECT_THROW(find_algorithm(problem, "tree_halving"), Unsupported);
}

}  // namespace
}  // namespace stretto::comm
