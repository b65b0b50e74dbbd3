// Every algorithm against a plain sum in the order of the problem, bit for bit, over random shapes
// of jobs, cuts and orders of events.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <span>

#include "stretto/comm/collective/hosts.h"
#include "stretto/comm/collective/simulator.h"

namespace stretto::comm {
namespace {

struct Type {
  DType dtype;
  ReduceOp op;
};
constexpr Type kTypes[] = {
    {DType::kFloat32, ReduceOp::kSum},     {DType::kFloat32, ReduceOp::kAverage},
    {DType::kFloat32, ReduceOp::kMax},     {DType::kFloat64, ReduceOp::kSum},
    {DType::kFloat16, ReduceOp::kSum},     {DType::kFloat16, ReduceOp::kAverage},
    {DType::kBFloat16, ReduceOp::kSum},    {DType::kBFloat16, ReduceOp::kProduct},
    {DType::kInt32, ReduceOp::kSum},       {DType::kInt64, ReduceOp::kAverage},
    {DType::kUInt8, ReduceOp::kProduct},   {DType::kBool, ReduceOp::kSum},
    {DType::kFloat32, ReduceOp::kProduct},
};

double get(DType dtype, const std::byte* data, int64_t i) {
  const auto as = [&]<typename T>(T value) {
    std::memcpy(&value, data + i * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::kFloat32:
      return as(0.0f);
    case DType::kFloat64:
      return as(0.0);
    case DType::kFloat16:
      return half_to_float(as(uint16_t{}));
    case DType::kBFloat16:
      return bfloat16_to_float(as(uint16_t{}));
    case DType::kInt32:
      return as(int32_t{});
    case DType::kInt64:
      return static_cast<double>(as(int64_t{}));
    default:
      return as(uint8_t{});
  }
}

void put(DType dtype, double value, std::byte* data, int64_t i) {
  const auto as = [&]<typename T>(T stored) {
    std::memcpy(data + i * static_cast<int64_t>(sizeof stored), &stored, sizeof stored);
  };
  switch (dtype) {
    case DType::kFloat32:
      return as(static_cast<float>(value));
    case DType::kFloat64:
      return as(value);
    case DType::kFloat16:
      return as(float_to_half(static_cast<float>(value)));
    case DType::kBFloat16:
      return as(float_to_bfloat16(static_cast<float>(value)));
    case DType::kInt32:
      return as(static_cast<int32_t>(value));
    case DType::kInt64:
      return as(static_cast<int64_t>(value));
    default:
      return as(static_cast<uint8_t>(static_cast<int64_t>(value)));
  }
}

bool narrow(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// In doubles, rounded to what the accumulator would hold after every operation. (A sum or product
// of two fp32 numbers that is rounded to fp64 first rounds to the same fp32 number.)
double combine(Type type, double a, double b) {
  double c = 0;
  switch (type.op) {
    case ReduceOp::kProduct:
      c = a * b;
      break;
    case ReduceOp::kMax:
      c = std::max(a, b);
      break;
    default:
      c = a + b;
  }
  if (type.dtype == DType::kFloat64) return c;
  if (is_float(type.dtype)) return static_cast<float>(c);
  if (type.dtype == DType::kUInt8) return static_cast<uint8_t>(static_cast<int64_t>(c));
  if (type.dtype == DType::kBool) return c != 0;
  return c;
}

double divide(Type type, double sum, int ranks) {
  if (is_integer(type.dtype)) return std::trunc(sum / ranks);
  return type.dtype == DType::kFloat64 ? sum / ranks : static_cast<float>(sum / ranks);
}

double round_to(DType dtype, double value) {
  std::byte stored[8];
  put(dtype, value, stored, 0);
  return get(dtype, stored, 0);
}

using Tensors = std::vector<std::vector<std::byte>>;

// What one element is on every host, and how hosts are added: a plain sum.
struct PlainSum {
  Type type;
  const Hosts& hosts;
  const Tensors& inputs;
  int64_t i;

  int ranks() const { return static_cast<int>(inputs.size()); }
  bool average() const { return type.op == ReduceOp::kAverage; }

  double host(int h) const {
    double sum = 0;
    for (int j = 0; j < hosts.size(h); ++j) {
      const double x = get(type.dtype, inputs[hosts.members[h][j]].data(), i);
      sum = j == 0 ? x : combine(type, sum, x);
    }
    if (average() && narrow(type.dtype)) sum = divide(type, sum, ranks());
    return narrow(type.dtype) && hosts.size(h) > 1 ? round_to(type.dtype, sum) : sum;
  }

  double line() const {
    double total = host(0);
    for (int h = 1; h < hosts.count(); ++h) total = combine(type, total, host(h));
    return total;
  }

  // Hosts [begin, end), by the definition in schedule.h and not by Hosts::tree.
  double tree(int begin, int end) const {
    if (end - begin == 1) return host(begin);
    std::vector<int> racks = {begin};
    for (int h = begin + 1; h < end; ++h)
      if (hosts.rack[h] != hosts.rack[h - 1]) racks.push_back(h);
    const int middle =
        racks.size() > 1 ? racks[(racks.size() + 1) / 2] : begin + (end - begin + 1) / 2;
    const double sum = combine(type, tree(begin, middle), tree(middle, end));
    return narrow(type.dtype) ? round_to(type.dtype, sum) : sum;
  }
};

std::vector<std::byte> expected_result(Type type, const Problem& problem, const Tensors& inputs) {
  std::vector<std::byte> result(inputs[0].size());
  const Hosts& hosts = problem.host.hosts();
  for (int64_t i = 0; i < problem.count; ++i) {
    const PlainSum sum{type, hosts, inputs, i};
    double total = sum_order(problem) == SumOrder::kTree && !problem.coded
                       ? sum.tree(0, hosts.count())
                       : sum.line();
    if (sum.average() && !narrow(type.dtype)) total = divide(type, total, sum.ranks());
    put(type.dtype, total, result.data(), i);
  }
  return result;
}

double random_value(DType dtype, std::mt19937& random) {
  if (dtype == DType::kBool) return random() % 4 == 0;
  if (dtype == DType::kUInt8) return random() % 256;
  const int magnitude = static_cast<int>(random() % 2001) - 1000;
  return is_float(dtype) ? magnitude / 7.0 : magnitude;
}

std::vector<int> random_hosts(int n, std::mt19937& random) {
  const int layout = static_cast<int>(random() % 4), m = 1 + static_cast<int>(random() % 4);
  std::vector<int> hosts;
  for (int r = 0; r < n; ++r)
    hosts.push_back(layout == 0   ? r              // all alone
                    : layout == 1 ? r * m / n      // side by side
                    : layout == 2 ? 100 - (r % m)  // interleaved
                                  : static_cast<int>(random() % static_cast<unsigned>(m)));
  return hosts;
}

// Runs the algorithm and returns what every rank has at the end.
Tensors run(const Algorithm& algorithm, const Problem& problem, const Tensors& inputs,
            bool in_place, const SimulatorOptions& options, std::mt19937& random) {
  Tensors memory = inputs, outputs(inputs.size(), std::vector<std::byte>(inputs[0].size()));
  std::vector<SimulatedRank> ranks(inputs.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].problem = problem;
    ranks[r].problem.rank = static_cast<int>(r);
    ranks[r].input = memory[r].data();
    ranks[r].output = in_place ? memory[r].data() : outputs[r].data();
  }
  simulate(algorithm, ranks, options, random);
  return in_place ? memory : outputs;
}

Tensors random_inputs(DType dtype, int n, int64_t count, std::mt19937& random) {
  Tensors inputs;
  for (int r = 0; r < n; ++r) {
    inputs.emplace_back(static_cast<size_t>(count) * dtype_bytes(dtype));
    for (int64_t i = 0; i < count; ++i)
      put(dtype, random_value(dtype, random), inputs.back().data(), i);
  }
  return inputs;
}

Placement random_placement(int n, std::mt19937& random) {
  const std::vector<int> hosts = random_hosts(n, random);
  if (random() % 3 != 0) return hosts;
  std::vector<int> racks;
  const int m = 1 + static_cast<int>(random() % 4);
  const bool mixed = random() % 2 == 0;
  for (int r = 0; r < n; ++r)
    racks.push_back(mixed ? static_cast<int>(random() % static_cast<unsigned>(m)) : r * m / n);
  return Placement(hosts, racks);
}

// Runs every algorithm that fits on random problems, and counts the runs by algorithm and order.
std::map<std::string, int> check_bits(const std::vector<int>& ranks, int trials, unsigned seed,
                                      std::span<const SumOrder> orders) {
  std::mt19937 random(seed);
  std::map<std::string, int> runs;
  for (int trial = 0; trial < trials && !testing::Test::HasFatalFailure(); ++trial) {
    const int n = ranks[random() % ranks.size()];
    const Type type = kTypes[random() % std::size(kTypes)];
    const int64_t counts[] = {0, 1, n - 1, n, 37, 200};
    Problem problem{.kind = Collective::kAllReduce, .host = random_placement(n, random)};
    problem.count = counts[random() % std::size(counts)];
    problem.exact = is_exact(type.dtype, type.op);
    problem.order = orders[random() % orders.size()];
    problem.unit = random() % 2 ? 0 : 1 + static_cast<int64_t>(random() % 64);
    problem.align = random() % 2 ? 1 : 4;
    const Tensors inputs = random_inputs(type.dtype, n, problem.count, random);
    const auto expected = expected_result(type, problem, inputs);
    const bool tree = sum_order(problem) == SumOrder::kTree;
    for (const Algorithm& algorithm : algorithms(problem.kind)) {
      if (!algorithm.unfit(problem).empty()) continue;
      ++runs[fmt::format("{} {}", algorithm.name, tree ? "tree" : "line")];
      const Tensors results =
          run(algorithm, problem, inputs, random() % 2 == 0,
              {.dtype = type.dtype, .op = type.op, .isa = usable_isa()}, random);
      for (int r = 0; r < n; ++r)
        EXPECT_TRUE(results[r] == expected)
            << algorithm.name << ", seed " << seed << ", trial " << trial << ", rank " << r
            << " of " << n << ", " << problem.host.hosts().count() << " hosts, " << problem.count
            << " " << dtype_name(type.dtype) << " " << reduce_op_name(type.op) << ", unit "
            << problem.unit << (tree ? ", tree" : ", line");
      if (testing::Test::HasFailure()) return runs;
    }
  }
  return runs;
}

TEST(AllReduce, EveryAlgorithmGivesTheBitsOfItsOrder) {
  std::vector<int> ranks(17);
  std::iota(ranks.begin(), ranks.end(), 1);
  const SumOrder orders[] = {SumOrder::kAuto, SumOrder::kLine, SumOrder::kTree};
  const auto runs = check_bits(ranks, 1000, 20261122, orders);
  EXPECT_EQ(runs.size(), 2 * algorithms(Collective::kAllReduce).size());
  for (const auto& [name, count] : runs) EXPECT_GT(count, 50) << name;
}

TEST(AllReduce, ManyRanksGiveTheBitsOfTheirOrder) {
  const SumOrder orders[] = {SumOrder::kAuto, SumOrder::kTree};
  const auto runs = check_bits({32, 33, 48, 63, 64, 65}, 40, 20261124, orders);
  EXPECT_GT(runs.at("tree_halving tree"), 5);
  EXPECT_GT(runs.at("tree_doubling tree"), 5);
}

// The order may depend on nothing that differs between fused, cut and tuned operations.
TEST(AllReduce, TheOrderDependsOnHostsAndRacksAlone) {
  const auto order = [](int hosts, int racks) {
    std::vector<int> host, rack;
    for (int r = 0; r < 2 * hosts; ++r) {
      host.push_back(r / 2);
      rack.push_back(r / 2 * racks / hosts);
    }
    return sum_order({.host = Placement(host, rack)});
  };
  EXPECT_EQ(order(1, 1), SumOrder::kLine);
  EXPECT_EQ(order(32, 1), SumOrder::kLine);
  EXPECT_EQ(order(33, 1), SumOrder::kTree);
  EXPECT_EQ(order(4, 2), SumOrder::kTree);
}

// With a codec the ranks must agree to the bit, and be as near to the sum as the codec allows.
TEST(AllReduce, CodedRanksAgree) {
  const unsigned seed = 7;
  std::mt19937 random(seed);
  for (int trial = 0; trial < 150; ++trial) {
    const int n = 2 + static_cast<int>(random() % 8);
    const Codec& codec = codecs()[random() % codecs().size()];
    Problem problem{.kind = Collective::kAllReduce, .host = random_hosts(n, random)};
    problem.count = 1 + static_cast<int64_t>(random() % 3000);
    problem.coded = true;
    problem.align = codec.block;
    problem.unit = random() % 2 ? 0 : 1024;
    const Type type{DType::kFloat32, random() % 2 ? ReduceOp::kSum : ReduceOp::kAverage};
    const Tensors inputs = random_inputs(type.dtype, n, problem.count, random);
    const auto exact = expected_result(type, problem, inputs);
    for (const Algorithm& algorithm : algorithms(problem.kind)) {
      if (!algorithm.unfit(problem).empty()) continue;
      const Tensors results =
          run(algorithm, problem, inputs, random() % 2 == 0,
              {.dtype = type.dtype, .op = type.op, .codec = &codec, .isa = usable_isa()}, random);
      // Inputs reach 143: an int8 step is 143/127, half of it is lost per rank, and again of the
      // sum, which is n times as large; the 16-bit codecs lose 2^-8 or less of everything.
      const double scale = type.op == ReduceOp::kSum ? n : 1;
      const double tolerance = codec.name == "none" ? 0 : scale * 143 * (1 / 127.0 + 1e-4);
      for (int r = 0; r < n; ++r) {
        ASSERT_TRUE(results[r] == results[0]) << algorithm.name << ", " << codec.name << ", seed "
                                              << seed << ", trial " << trial << ", rank " << r;
      }
      for (int64_t i = 0; i < problem.count; ++i)
        ASSERT_NEAR(get(type.dtype, results[0].data(), i), get(type.dtype, exact.data(), i),
                    tolerance)
            << algorithm.name << ", " << codec.name << ", trial " << trial;
    }
  }
}

// Without error feedback a value far below its block's greatest is lost for good; with it the sum
// over many steps is right, through both encodings, whatever the algorithm and cutting of a step.
TEST(AllReduce, ErrorFeedbackRepairsTheSumOverSteps) {
  const Codec& int8 = find_codec("int8");
  for (const auto& host : std::vector<std::vector<int>>{{0, 1, 2}, {0, 0, 1, 1}}) {
    const int n = static_cast<int>(host.size());
    const int64_t count = 512;
    for (const bool average : {false, true}) {
      Problem problem{.host = host, .count = count, .coded = true, .align = int8.block};
      std::vector<const Algorithm*> fitting;
      for (const Algorithm& algorithm : algorithms(Collective::kAllReduce))
        if (algorithm.unfit(problem).empty()) fitting.push_back(&algorithm);
      std::vector<std::vector<float>> inputs(n, std::vector<float>(count, 0.01f)), outputs = inputs;
      for (auto& input : inputs) input[0] = input[300] = 100;
      std::vector<std::vector<float>> residuals(n, std::vector<float>(count));
      std::vector<SimulatedRank> ranks(n);
      for (int r = 0; r < n; ++r) {
        problem.rank = r;
        ranks[r] = {problem, reinterpret_cast<std::byte*>(inputs[r].data()),
                    reinterpret_cast<std::byte*>(outputs[r].data()), residuals[r].data()};
      }
      std::mt19937 random(3);
      double total = 0, owed = 0;
      const int steps = 2000;
      for (int step = 0; step < steps; ++step) {
        for (SimulatedRank& rank : ranks) rank.problem.unit = step % 3 ? 0 : 256;
        simulate(*fitting[step / 10 % fitting.size()], ranks,
                 {.op = average ? ReduceOp::kAverage : ReduceOp::kSum, .codec = &int8}, random);
        total += outputs[n - 1][5];
      }
      for (const auto& residual : residuals) owed += residual[5];
      // Nothing is lost but roundings of fp32, of values up to 100 n, in every step.
      const double scale = average ? 1.0 / n : 1;
      EXPECT_NEAR(total + scale * owed, scale * steps * 0.01 * n, steps * 1e-5) << average;
      // What is owed is at most one int8 step: 0.8 per rank, or 0.8 n of the sum.
      EXPECT_LT(std::abs(owed), 2 * 0.8 * n) << average;
    }
  }
}

}  // namespace
}  // namespace stretto::comm
