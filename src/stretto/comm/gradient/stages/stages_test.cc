#include "stretto/comm/gradient/stages/stages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// What an engine would do with the same wish of all ranks.
void carry_out(const std::vector<WantedCollective>& wanted) {
  const WantedCollective& first = wanted[0];
  const size_t block = static_cast<size_t>(first.count) * dtype_bytes(first.dtype);
  std::vector<std::byte> result;
  if (first.kind == Collective::kAllGather) {
    for (const WantedCollective& w : wanted) {
      const auto* from = static_cast<const std::byte*>(w.input);
      result.insert(result.end(), from, from + block);
    }
  } else {
    std::vector<ReduceSource> sources;
    for (const WantedCollective& w : wanted) sources.push_back({.data = w.input});
    result.resize(block);
    reduce(usable_isa(),
           {.dtype = first.dtype, .op = first.op, .ranks = static_cast<int>(wanted.size())},
           sources, first.count, result.data());
  }
  for (const WantedCollective& w : wanted) {
    EXPECT_EQ(w.count, first.count);
    std::memcpy(w.output, result.data(), result.size());
  }
}

using Vectors = std::vector<std::vector<float>>;

Vectors random_vectors(int n, int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Vectors vectors(n, std::vector<float>(static_cast<size_t>(count)));
  for (auto& v : vectors)
    for (float& x : v) x = normal(random);
  return vectors;
}

struct TopKJob {
  TopKJob(TopKOptions options, int n, int64_t count)
      : residuals(n, std::vector<float>(static_cast<size_t>(count))) {
    for (int r = 0; r < n; ++r) ranks.emplace_back(options, n, count);
  }
  void step(Vectors& gradients, int64_t number) {
    std::vector<WantedCollective> wanted;
    for (size_t r = 0; r < ranks.size(); ++r)
      wanted.push_back(ranks[r].begin(gradients[r].data(), residuals[r].data(), number));
    carry_out(wanted);
    for (size_t r = 0; r < ranks.size(); ++r) ranks[r].finish(gradients[r].data());
  }
  std::vector<TopK> ranks;
  Vectors residuals;
};

TEST(TopK, SendsTheGreatestAndKeepsTheRest) {
  const int n = 3;
  const int64_t count = 1000;
  std::mt19937 random(1);
  TopKJob job({.density = 0.05, .warmup_steps = 0}, n, count);
  Vectors gradients = random_vectors(n, count, random);
  const Vectors before = gradients;
  job.step(gradients, 0);
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_EQ(gradients[0], gradients[2]);
  for (int r = 0; r < n; ++r) {
    float least_sent = kInf, greatest_kept = 0;
    int sent = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (job.residuals[r][i] == 0) {
        ++sent;
        least_sent = std::min(least_sent, std::abs(before[r][i]));
      } else {
        greatest_kept = std::max(greatest_kept, std::abs(job.residuals[r][i]));
      }
    }
    EXPECT_EQ(sent, 50);
    EXPECT_GE(least_sent, greatest_kept);
  }
}

TEST(TopK, NothingIsLostOverSteps) {
  const int n = 4;
  const int64_t count = 300;
  std::mt19937 random(2);
  TopKJob job({.density = 0.02, .warmup_steps = 8}, n, count);
  std::vector<double> given(count), got(count);
  for (int step = 0; step < 60; ++step) {
    Vectors gradients = random_vectors(n, count, random);
    for (const auto& g : gradients)
      for (int64_t i = 0; i < count; ++i) given[i] += g[i] / n;
    job.step(gradients, step);
    for (int64_t i = 0; i < count; ++i) got[i] += gradients[0][i];
  }
  for (int64_t i = 0; i < count; ++i) {
    double owed = 0;
    for (const auto& residual : job.residuals) owed += residual[i] / n;
    EXPECT_NEAR(given[i], got[i] + owed, 1e-4) << i;  // 60 sums in fp32
  }
}

TEST(TopK, DensityOneIsTheAverage) {
  std::mt19937 random(3);
  TopKJob job({.density = 1, .warmup_steps = 0}, 2, 77);
  Vectors gradients = random_vectors(2, 77, random);
  const Vectors before = gradients;
  job.step(gradients, 0);
  for (int i = 0; i < 77; ++i) EXPECT_EQ(gradients[0][i], (before[0][i] + before[1][i]) / 2);
}

TEST(TopK, EqualValuesAreTakenFromTheFront) {
  TopKJob job({.density = 0.3, .warmup_steps = 0}, 1, 10);
  Vectors gradients = {std::vector<float>(10, 2.0f)};
  job.step(gradients, 0);
  EXPECT_EQ(gradients[0], (std::vector<float>{2, 2, 2, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(TopK, FewValuesOfASmallTensorAreNotTooFew) {
  const auto sent = [](TopKOptions options, int64_t count) {
    TopK topk(options, 1, count);
    std::mt19937 random(4);
    const Vectors gradients = random_vectors(1, count, random);
    std::vector<float> residual(static_cast<size_t>(count));
    return topk.begin(gradients[0].data(), residual.data(), 0).count / 2;
  };
  const TopKOptions options{.density = 0.001, .warmup_steps = 0, .least = 200};
  EXPECT_EQ(sent(options, 8), 1);
  EXPECT_EQ(sent(options, 800), 100) << "an eighth: indices take as much as values";
  EXPECT_EQ(sent(options, 20000), 200);
  EXPECT_EQ(sent(options, 300000), 300) << "the density";
}

TEST(TopK, WarmUpOfTheDensity) {
  const TopK topk({.density = 0.001, .warmup_steps = 400}, 2, 10);
  EXPECT_EQ(topk.density(0), 0.25);
  EXPECT_EQ(topk.density(99), 0.25);
  EXPECT_EQ(topk.density(100), 0.0625);
  EXPECT_EQ(topk.density(399), 0.00390625);
  EXPECT_EQ(topk.density(400), 0.001);
  EXPECT_THROW(TopK({.density = 0}, 2, 10), InvalidArgument);
}

// A value that is sent every third step must bring the momentum it would have had in between.
TEST(TopK, MomentumIsCorrected) {
  const float m = 0.5f;
  TopKJob job({.density = 0.5, .warmup_steps = 0, .momentum = m}, 1, 2);
  float sent = 0, dense = 0, velocity = 0;
  for (int step = 0; step < 3; ++step) {
    // The second value is sent at first; the first one only when it has grown enough.
    Vectors gradients = {{1.0f, step < 2 ? 10.0f : 0.0f}};
    job.step(gradients, step);
    sent += gradients[0][0];
    velocity = m * velocity + 1;
    dense += velocity;
    if (step < 2) {
      EXPECT_EQ(sent, 0);
    }
  }
  EXPECT_EQ(sent, dense);
}

TEST(TopK, InfinityAndNanGetThroughAndLeaveNoTrace) {
  const int n = 2;
  std::mt19937 random(4);
  TopKJob job({.density = 0.02, .warmup_steps = 0, .momentum = 0.9f}, n, 200);
  Vectors gradients = random_vectors(n, 200, random);
  gradients[1][17] = kNan;
  gradients[0][18] = -kInf;
  job.step(gradients, 0);
  for (int r = 0; r < n; ++r) {
    EXPECT_TRUE(std::isnan(gradients[r][17]));
    EXPECT_EQ(gradients[r][18], -kInf);
    for (const float x : job.residuals[r]) EXPECT_TRUE(std::isfinite(x));
  }
  gradients = random_vectors(n, 200, random);
  job.step(gradients, 1);
  for (const float x : gradients[0]) EXPECT_TRUE(std::isfinite(x));
}

struct PowerJob {
  PowerJob(PowerSgdOptions options, int n, int64_t rows, int64_t columns)
      : residuals(n, std::vector<float>(static_cast<size_t>(rows * columns))) {
    for (int r = 0; r < n; ++r) ranks.emplace_back(options, rows, columns);
  }
  void step(Vectors& gradients) {
    std::vector<WantedCollective> p, q;
    for (size_t r = 0; r < ranks.size(); ++r)
      p.push_back(ranks[r].begin(gradients[r].data(), residuals[r].data()));
    carry_out(p);
    for (PowerSgd& rank : ranks) q.push_back(rank.next());
    carry_out(q);
    for (size_t r = 0; r < ranks.size(); ++r) ranks[r].finish(gradients[r].data());
  }
  std::vector<PowerSgd> ranks;
  Vectors residuals;
};

TEST(PowerSgd, RecoversWhatHasItsRank) {
  const int64_t rows = 23, columns = 41;
  std::mt19937 random(5);
  const Vectors left = random_vectors(2, rows, random), right = random_vectors(2, columns, random);
  std::vector<float> matrix(rows * columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      matrix[i * columns + j] = left[0][i] * right[0][j] + left[1][i] * right[1][j];
  PowerJob job({.rank = 2}, 3, rows, columns);
  Vectors gradients(3, matrix);
  job.step(gradients);
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_EQ(gradients[0], gradients[2]);
  // The random start spans the row space, so one iteration is exact up to rounding.
  for (size_t i = 0; i < matrix.size(); ++i) EXPECT_NEAR(gradients[0][i], matrix[i], 1e-4) << i;
}

TEST(PowerSgd, ErrorFeedbackSendsTheRestLater) {
  const int64_t rows = 12, columns = 30;
  std::mt19937 random(6);
  const Vectors constant = random_vectors(2, rows * columns, random);
  PowerJob job({.rank = 1}, 2, rows, columns);
  std::vector<double> got(rows * columns);
  const int steps = 400;
  for (int step = 0; step < steps; ++step) {
    Vectors gradients = constant;
    job.step(gradients);
    for (size_t i = 0; i < got.size(); ++i) got[i] += gradients[0][i] / steps;
  }
  double error = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double mean = (constant[0][i] + constant[1][i]) / 2;
    error += (got[i] - mean) * (got[i] - mean);
    norm += mean * mean;
  }
  // Twelve directions take turns: what is owed stays bounded while the sum grows.
  EXPECT_LT(std::sqrt(error / norm), 0.1);
}

TEST(PowerSgd, NanPoisonsOneStepOnly) {
  std::mt19937 random(7);
  PowerJob job({.rank = 2}, 2, 10, 20);
  Vectors gradients = random_vectors(2, 200, random);
  job.step(gradients);
  const Vectors residuals = job.residuals;
  gradients = random_vectors(2, 200, random);
  gradients[1][33] = kInf;
  job.step(gradients);
  for (int r = 0; r < 2; ++r) {
    EXPECT_TRUE(std::isnan(gradients[r][0]));
    for (int i = 0; i < 200; ++i) EXPECT_NEAR(job.residuals[r][i], residuals[r][i], 1e-5) << i;
  }
  gradients = random_vectors(2, 200, random);
  job.step(gradients);
  for (const float x : gradients[0]) EXPECT_TRUE(std::isfinite(x));
}

TEST(PowerSgd, ZerosAndShapes) {
  PowerJob job({.rank = 4}, 1, 3, 5);  // more than the matrix has
  Vectors gradients = {std::vector<float>(15)};
  job.step(gradients);
  EXPECT_EQ(gradients[0], std::vector<float>(15));
  EXPECT_TRUE(PowerSgd::worthwhile(512, 4608, 4));
  EXPECT_FALSE(PowerSgd::worthwhile(1, 1000, 1));
  EXPECT_FALSE(PowerSgd::worthwhile(10, 10, 3));
}

constexpr double kWire = 8e-9;  // seconds per byte: 1 Gbit/s

TEST(Mixed, TakesTheFastestWithinTheBound) {
  std::mt19937 random(8);
  const Vectors gradients = random_vectors(2, 4096, random);
  const auto chosen = [&](double bound, std::vector<double> encode_s = {}) {
    Mixed a({.error_bound = bound}), b({.error_bound = bound});
    carry_out({a.begin(usable_isa(), gradients[0].data(), 4096, encode_s),
               b.begin(usable_isa(), gradients[1].data(), 4096)});
    EXPECT_EQ(a.finish(kWire).name, b.finish(kWire).name);
    EXPECT_EQ(a.errors()[0], 0);
    return std::string(a.choice().name);
  };
  // An int8 step of normal values is about 3 / 127, whose rounding has a deviation of 0.7 %; fp16
  // has 2^-13 or so, bf16 eight times that.
  EXPECT_EQ(chosen(0.02), "int8");
  EXPECT_EQ(chosen(0.0005), "fp16");
  EXPECT_EQ(chosen(1e-6), "none");
  std::vector<double> slow(codecs().size());
  slow.back() = 1;  // int8 would take a second on one rank
  EXPECT_NE(chosen(0.02, slow), "int8");
}

// A codec that gains 10 us on the wire may take 5 us more of a core, which has other work too.
TEST(Mixed, CountsTheProcessorTwice) {
  std::vector<float> gradient(4096);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 97) - 48;
  const auto bytes = [](const Codec& codec) { return codec.encoded_bytes(4096); };
  const Codec &fp16 = codecs()[1], &int8 = codecs().back();
  const double wire_s = 10e-6 / static_cast<double>(bytes(fp16) - bytes(int8));
  const auto chosen = [&](double int8_s) {
    std::vector<double> coding(codecs().size(), 1);
    coding[1] = 0;
    coding.back() = int8_s;
    Mixed mixed({.error_bound = 0.02});
    carry_out({mixed.begin(usable_isa(), gradient.data(), 4096, coding)});
    return mixed.finish(wire_s).name;
  };
  EXPECT_EQ(chosen(4e-6), "int8");
  EXPECT_EQ(chosen(6e-6), "fp16");
}

TEST(Mixed, PrefersACodecThatIsAllowedAndHardlySlower) {
  std::vector<float> gradient(4096);
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 97) - 48;
  const std::vector<double> coding(codecs().size());
  Mixed mixed({.error_bound = 0.003});  // int8 is not within it
  carry_out({mixed.begin(usable_isa(), gradient.data(), 4096, coding)});
  const Codec& choice = mixed.finish(1e-9);
  ASSERT_TRUE(choice.name == "fp16" || choice.name == "bf16");
  const Codec &none = codecs()[0], &int8 = codecs().back();
  mixed.prefer(int8, 1);
  EXPECT_EQ(mixed.choice().name, choice.name);
  mixed.prefer(none, 8e-6);  // 8192 bytes more
  EXPECT_EQ(mixed.choice().name, choice.name);
  mixed.prefer(none, 9e-6);
  EXPECT_EQ(mixed.choice().name, "none");
}

TEST(Mixed, LosesNothingThatIsNotFinite) {
  std::vector<float> gradient(300, 1.0f), fine = gradient;
  gradient[7] = kInf;
  Mixed a({.error_bound = 0.5}), b({.error_bound = 0.5});
  carry_out({a.begin(usable_isa(), gradient.data(), 300), b.begin(usable_isa(), fine.data(), 300)});
  EXPECT_EQ(a.finish(kWire).name, "none");
  EXPECT_EQ(b.finish(kWire).name, "none");
}

}  // namespace
}  // namespace stretto::comm
