// The other collectives: every algorithm, every size of job, blocks of equal and of different
// sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "stretto/base/error.h"

#include "stretto/comm/collective/hosts.h"
#include "stretto/comm/collective/simulator.h"

namespace stretto::comm {
namespace {

using Tensor = std::vector<int32_t>;

std::byte* bytes(Tensor& t) { return reinterpret_cast<std::byte*>(t.data()); }

struct Case {
  Problem problem;
  std::vector<int64_t> counts;  // of block r; all_to_all: [from * n + to]
  bool in_place = false;

  int n() const { return problem.ranks(); }
  int64_t begin(int rank) const {
    if (!problem.displacements.empty()) return problem.displacements[rank];
    return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
  }
  int64_t extent() const {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0}) + 3 * n();
  }
};

std::vector<int> random_hosts(int n, std::mt19937& random) {
  const unsigned m = 1 + random() % 4;
  std::vector<int> hosts;
  const bool alone = random() % 4 == 0;
  for (int r = 0; r < n; ++r) hosts.push_back(alone ? r : static_cast<int>(random() % m));
  return hosts;
}

Case random_case(Collective kind, std::mt19937& random) {
  Case c;
  const int many[] = {24, 33};
  const int n = random() % 8 ? 1 + static_cast<int>(random() % 17) : many[random() % 2];
  c.problem = {.kind = kind, .host = random_hosts(n, random), .exact = true};
  // Some algorithms leave jobs of few ranks to others, unless they are asked for an order.
  if (random() % 2) c.problem.order = SumOrder::kTree;
  c.problem.root = static_cast<int>(random() % static_cast<unsigned>(n));
  c.problem.unit = random() % 2 ? 0 : 1 + static_cast<int64_t>(random() % 40);
  c.in_place = random() % 2 == 0;
  const int64_t counts[] = {0, 1, 5, 30};
  c.problem.count = counts[random() % 4];
  c.counts.assign(n, c.problem.count);
  if (random() % 2) {
    for (int64_t& count : c.counts) count = static_cast<int64_t>(random() % 20);
    c.problem.counts = c.counts;
    if (random() % 2) {  // apart from one another, last block first
      int64_t at = 0;
      c.problem.displacements.resize(n);
      for (int r = n - 1; r >= 0; --r) {
        c.problem.displacements[r] = at;
        at += c.counts[r] + 2;
      }
    }
  }
  return c;
}

// One tensor; some are cut into many segments, of which units have several.
Case random_tensor_case(Collective kind, std::mt19937& random) {
  Case c = random_case(kind, random);
  c.problem.counts.clear();
  c.problem.displacements.clear();
  if (random() % 2) return c;
  c.problem.count = 1 + static_cast<int64_t>(random() % 9000);
  if (c.problem.unit > 0) c.problem.unit = 200 + static_cast<int64_t>(random() % 3000);
  return c;
}

Tensor random_tensor(int64_t count, std::mt19937& random) {
  Tensor t(static_cast<size_t>(count));
  for (int32_t& x : t) x = static_cast<int32_t>(random() % 100000);
  return t;
}

// Runs with every algorithm that fits; `prepare` fills in and out of every rank for a fresh run,
// and `check` looks at the result of one rank.
void run_all(const Case& c, std::mt19937& random, const auto& prepare, const auto& check) {
  for (const Algorithm& algorithm : algorithms(c.problem.kind)) {
    if (!algorithm.unfit(c.problem).empty()) continue;
    std::vector<Tensor> in(c.n()), out(c.n());
    std::vector<SimulatedRank> ranks(c.n());
    for (int r = 0; r < c.n(); ++r) {
      ranks[r].problem = c.problem;
      ranks[r].problem.rank = r;
      prepare(r, in[r], out[r], ranks[r]);
    }
    simulate(algorithm, ranks, {.dtype = DType::kInt32}, random);
    for (int r = 0; r < c.n(); ++r) {
      SCOPED_TRACE(fmt::format("{} {}, rank {} of {}, root {}, count {}, unit {}, in place {}",
                               collective_name(c.problem.kind), algorithm.name, r, c.n(),
                               c.problem.root, c.problem.count, c.problem.unit, c.in_place));
      check(r, reinterpret_cast<const int32_t*>(ranks[r].output));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

bool same(const int32_t* a, const int32_t* b, int64_t count) { return std::equal(a, a + count, b); }

constexpr int kTrials = 150;

TEST(Collectives, Broadcast) {
  std::mt19937 random(11);
  for (int trial = 0; trial < kTrials; ++trial) {
    const Case c = random_tensor_case(Collective::kBroadcast, random);
    const Tensor source = random_tensor(c.problem.count, random);
    run_all(
        c, random,
        [&](int r, Tensor& in, Tensor& out, SimulatedRank& rank) {
          const bool root = r == c.problem.root;
          in = root ? source : Tensor();
          out.resize(source.size());
          rank.input = bytes(in);
          rank.output = root && c.in_place ? bytes(in) : bytes(out);
        },
        [&](int, const int32_t* out) { ASSERT_TRUE(same(out, source.data(), c.problem.count)); });
  }
}

TEST(Collectives, AllGatherAndGather) {
  std::mt19937 random(12);
  for (int trial = 0; trial < 2 * kTrials; ++trial) {
    const bool all = trial % 2 == 0;
    const Case c = random_case(all ? Collective::kAllGather : Collective::kGather, random);
    std::vector<Tensor> blocks;
    for (int r = 0; r < c.n(); ++r) blocks.push_back(random_tensor(c.counts[r], random));
    run_all(
        c, random,
        [&](int r, Tensor& in, Tensor& out, SimulatedRank& rank) {
          const bool has_output = all || r == c.problem.root;
          in = blocks[r];
          if (has_output) out.assign(static_cast<size_t>(c.extent()), -1);
          rank.output = bytes(out);
          rank.input = bytes(in);
          if (c.in_place && has_output) {
            std::copy(in.begin(), in.end(), out.begin() + c.begin(r));
            rank.input = bytes(out) + 4 * c.begin(r);
          }
        },
        [&](int r, const int32_t* out) {
          if (!all && r != c.problem.root) return;
          for (int other = 0; other < c.n(); ++other)
            ASSERT_TRUE(same(out + c.begin(other), blocks[other].data(), c.counts[other]));
        });
  }
}

TEST(Collectives, ReduceScatter) {
  std::mt19937 random(13);
  for (int trial = 0; trial < kTrials; ++trial) {
    Case c = random_case(Collective::kReduceScatter, random);
    c.problem.order = random() % 2 ? SumOrder::kTree : SumOrder::kAuto;
    std::vector<Tensor> inputs;
    for (int r = 0; r < c.n(); ++r) inputs.push_back(random_tensor(c.extent(), random));
    Tensor total(static_cast<size_t>(c.extent()));
    for (const Tensor& input : inputs)
      for (size_t i = 0; i < total.size(); ++i) total[i] += input[i];
    run_all(
        c, random,
        [&](int r, Tensor& in, Tensor& out, SimulatedRank& rank) {
          in = inputs[r];
          out.resize(static_cast<size_t>(c.counts[r]));
          rank.input = bytes(in);
          rank.output = c.in_place ? bytes(in) + 4 * c.begin(r) : bytes(out);
        },
        [&](int r, const int32_t* out) {
          ASSERT_TRUE(same(out, total.data() + c.begin(r), c.counts[r]));
        });
  }
}

TEST(Collectives, Reduce) {
  std::mt19937 random(14);
  for (int trial = 0; trial < kTrials; ++trial) {
    const Case c = random_tensor_case(Collective::kReduce, random);
    std::vector<Tensor> inputs;
    Tensor total(static_cast<size_t>(c.problem.count));
    for (int r = 0; r < c.n(); ++r) {
      inputs.push_back(random_tensor(c.problem.count, random));
      for (size_t i = 0; i < total.size(); ++i) total[i] += inputs[r][i];
    }
    run_all(
        c, random,
        [&](int r, Tensor& in, Tensor& out, SimulatedRank& rank) {
          in = inputs[r];
          rank.input = bytes(in);
          if (r != c.problem.root) return;
          out.resize(in.size());
          rank.output = c.in_place ? bytes(in) : bytes(out);
        },
        [&](int r, const int32_t* out) {
          if (r == c.problem.root) {
            ASSERT_TRUE(same(out, total.data(), c.problem.count));
          }
        });
  }
}

// The order of summation is one for all collectives: a reduction of floats to one rank, or of one
// block, has the bits of the all-reduce.
TEST(Collectives, ReduceAndReduceScatterGiveTheBitsOfAllReduce) {
  const unsigned seed = 18;
  std::mt19937 random(seed);
  for (int trial = 0; trial < 200; ++trial) {
    const int n = trial % 10 ? 1 + static_cast<int>(random() % 17) : 33,
              m = 1 + static_cast<int>(random() % 12);
    std::vector<int> host, rack;
    for (int r = 0; r < n; ++r) {
      host.push_back(static_cast<int>(random() % static_cast<unsigned>(m)));
      rack.push_back(r % 3);
    }
    const int64_t block = 1 + static_cast<int64_t>(random() % (random() % 4 ? 20 : 400));
    const int root = static_cast<int>(random() % static_cast<unsigned>(n));
    const bool tree = random() % 2 == 0;
    const DType dtype = random() % 2 ? DType::kFloat32 : DType::kBFloat16;
    const SimulatorOptions options{.dtype = dtype,
                                   .op = random() % 2 ? ReduceOp::kSum : ReduceOp::kAverage};
    const auto element = static_cast<int64_t>(dtype_bytes(dtype));
    std::vector<std::vector<uint16_t>> in(n);
    for (auto& values : in)
      for (int64_t i = 0; i < block * n * element / 2; ++i) {
        // The upper half of a float: so these are ordinary numbers in both types.
        const float x = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 7.0f;
        values.push_back(float_to_bfloat16(x));
      }
    const auto results = [&](Collective kind, const Algorithm& algorithm) {
      std::vector<std::vector<uint16_t>> inputs = in, out = in;
      std::vector<SimulatedRank> ranks(n);
      for (int r = 0; r < n; ++r) {
        ranks[r].problem = {.kind = kind,
                            .rank = r,
                            .host = Placement(host, rack),
                            .count = kind == Collective::kReduceScatter ? block : block * n,
                            .root = root,
                            .order = tree ? SumOrder::kTree : SumOrder::kLine};
        ranks[r].input = reinterpret_cast<std::byte*>(inputs[r].data());
        ranks[r].output = reinterpret_cast<std::byte*>(out[r].data());
      }
      simulate(algorithm, ranks, options, random);
      return out;
    };
    const auto expected = results(Collective::kAllReduce, algorithms(Collective::kAllReduce)[0])[0];
    Problem problem{.host = Placement(host, rack),
                    .count = block,
                    .order = tree ? SumOrder::kTree : SumOrder::kLine};
    for (const Collective kind : {Collective::kReduce, Collective::kReduceScatter}) {
      problem.kind = kind;
      for (const Algorithm& algorithm : algorithms(kind)) {
        if (!algorithm.unfit(problem).empty()) continue;
        const auto out = results(kind, algorithm);
        for (int r = 0; r < n; ++r) {
          const bool whole = kind == Collective::kReduce;
          if (whole && r != root) continue;
          const int64_t words = block * element / 2, begin = whole ? 0 : r * words;
          ASSERT_TRUE(std::equal(out[r].begin(), out[r].begin() + (whole ? n * words : words),
                                 expected.begin() + begin))
              << collective_name(kind) << " " << algorithm.name << ", seed " << seed << ", trial "
              << trial << ", rank " << r << " of " << n << (tree ? ", tree" : ", line");
        }
      }
    }
  }
}

TEST(Collectives, Scatter) {
  std::mt19937 random(15);
  for (int trial = 0; trial < kTrials; ++trial) {
    const Case c = random_case(Collective::kScatter, random);
    const Tensor source = random_tensor(c.extent(), random);
    run_all(
        c, random,
        [&](int r, Tensor& in, Tensor& out, SimulatedRank& rank) {
          const bool root = r == c.problem.root;
          in = root ? source : Tensor();
          out.resize(static_cast<size_t>(c.counts[r]));
          rank.input = bytes(in);
          rank.output = root && c.in_place ? bytes(in) + 4 * c.begin(r) : bytes(out);
        },
        [&](int r, const int32_t* out) {
          ASSERT_TRUE(same(out, source.data() + c.begin(r), c.counts[r]));
        });
  }
}

TEST(Collectives, AllToAll) {
  std::mt19937 random(16);
  for (int trial = 0; trial < kTrials; ++trial) {
    Case c = random_case(Collective::kAllToAll, random);
    const int n = c.n();
    const bool equal = c.problem.counts.empty();
    c.problem.displacements.clear();
    std::vector<std::vector<int64_t>> counts(n, std::vector<int64_t>(n, c.problem.count));
    if (!equal)
      for (auto& row : counts)
        for (int64_t& count : row) count = static_cast<int64_t>(random() % 30);
    std::vector<std::vector<Tensor>> blocks(n);
    for (int from = 0; from < n; ++from)
      for (int to = 0; to < n; ++to)
        blocks[from].push_back(random_tensor(counts[from][to], random));
    run_all(
        c, random,
        [&](int r, Tensor& in, Tensor& out, SimulatedRank& rank) {
          size_t received = 0;
          std::vector<int64_t> from_ranks;
          for (int other = 0; other < n; ++other) {
            in.insert(in.end(), blocks[r][other].begin(), blocks[r][other].end());
            from_ranks.push_back(counts[other][r]);
            received += blocks[other][r].size();
          }
          if (!equal) {
            rank.problem.counts = counts[r];
            rank.problem.receive_counts = from_ranks;
          }
          out.resize(received);
          rank.input = bytes(in);
          rank.output = bytes(out);
        },
        [&](int r, const int32_t* out) {
          for (int from = 0; from < n; ++from) {
            ASSERT_TRUE(same(out, blocks[from][r].data(), counts[from][r]));
            out += counts[from][r];
          }
        });
  }
}

// Nobody may leave before everybody came: the longest chain that ends at a rank has to begin at
// every other. With random orders of events it is enough that the schedule of each rank waits,
// directly or through others, for a message from all: counted here over the steps themselves.
TEST(Collectives, BarrierHearsFromEveryone) {
  for (int n = 1; n <= 17; ++n) {
    Problem problem{.kind = Collective::kBarrier};
    std::vector<int> host;
    for (int r = 0; r < n; ++r) host.push_back(r / 2);
    problem.host = host;
    for (const Algorithm& algorithm : algorithms(problem.kind)) {
      // heard[rank][round]: who is known to have come, after all receives with tags below `round`.
      std::vector<std::vector<bool>> heard(n, std::vector<bool>(n));
      int rounds = 0;
      std::vector<Schedule> schedules;
      for (int r = 0; r < n; ++r) {
        problem.rank = r;
        schedules.push_back(algorithm.schedule(problem, 0));
        heard[r][r] = true;
        for (const Step& step : schedules.back().steps) rounds = std::max(rounds, step.tag + 1);
      }
      for (int round = 0; round < rounds; ++round) {
        auto next = heard;
        for (int r = 0; r < n; ++r)
          for (const Step& step : schedules[r].steps) {
            if (step.action != Action::kReceive || step.tag != round) continue;
            for (int other = 0; other < n; ++other)
              if (heard[step.peer][other]) next[r][other] = true;
          }
        heard = next;
      }
      for (int r = 0; r < n; ++r)
        for (int other = 0; other < n; ++other)
          EXPECT_TRUE(heard[r][other]) << algorithm.name << ": " << r << " of " << n
                                       << " leaves before " << other << " came";
      std::vector<SimulatedRank> ranks(n);
      for (int r = 0; r < n; ++r) {
        ranks[r].problem = problem;
        ranks[r].problem.rank = r;
      }
      std::mt19937 random(17);
      const SimulatedTraffic traffic = simulate(algorithm, ranks, {}, random);
      EXPECT_GE(traffic.rounds, n > 1 ? 1 : 0);
    }
  }
}

TEST(Collectives, RefuseContradictions) {
  const Problem good{.host = {0, 1}, .count = 4};
  EXPECT_NO_THROW(validate(good));
  const auto broken = [&](auto change) {
    Problem p = good;
    change(p);
    return p;
  };
  EXPECT_THROW(validate(broken([](Problem& p) { p.host = {}; })), InvalidArgument);
  EXPECT_THROW(validate(broken([](Problem& p) { p.rank = 2; })), InvalidArgument);
  EXPECT_THROW(validate(broken([](Problem& p) { p.root = -1; })), InvalidArgument);
  EXPECT_THROW(validate(broken([](Problem& p) { p.count = -1; })), InvalidArgument);
  EXPECT_THROW(validate(broken([](Problem& p) { p.counts = {1, 2}; })), InvalidArgument);
  EXPECT_THROW(validate(broken([](Problem& p) {
                 p.kind = Collective::kAllGather;
                 p.counts = {1, 2, 3};
               })),
               InvalidArgument);
  EXPECT_THROW(find_algorithm(good, "fastest"), InvalidArgument);
  EXPECT_THROW(find_algorithm(good, "hierarchical"), Unsupported);
}

}  // namespace
}  // namespace stretto::comm
