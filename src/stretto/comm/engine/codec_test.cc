// Operations whose data cross the wire through a codec.
#include <cmath>
#include <cstring>
#include <limits>

#include "stretto/comm/codec/codec.h"
#include "stretto/comm/engine/engine_testing.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::patient;
using testing::run_ranks;

constexpr int kSize = 4;
constexpr int64_t kCount = 70'001;

struct Setting {
  const char* algorithm;
  int64_t chunk_bytes;
};
constexpr Setting kSettings[] = {{"direct", 4 << 10},
                                 {"hierarchical", 8 << 10},
                                 {"hierarchical_exchange", 64 << 10},
                                 {"gather_sum", 64 << 10}};

Options two_hosts(int rank, const Setting& setting) {
  Options options = testing::two_hosts(rank);
  options.algorithm = setting.algorithm;
  options.chunk_bytes = setting.chunk_bytes;
  return options;
}

std::vector<float> values_of(int rank) { return testing::values_of(rank, kCount); }

TEST(EngineCodec, SumsAreCloseAndTheSameOnEveryRank) {
  std::vector<double> exact(kCount);
  for (int rank = 0; rank < kSize; ++rank) {
    const std::vector<float> x = values_of(rank);
    for (int64_t i = 0; i < kCount; ++i) exact[i] += x[i];
  }
  for (const Setting& setting : kSettings) {
    for (const Codec& codec : codecs()) {
      std::vector<std::vector<float>> results(kSize);
      expect_no_errors(run_ranks(
          kSize, [&](int rank) { return two_hosts(rank, setting); },
          [&](Engine& engine) {
            std::vector<float> x = values_of(engine.membership().rank);
            engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                               .count = kCount,
                                               .input = x.data(),
                                               .output = x.data(),
                                               .codec = std::string(codec.name)}));
            results[engine.membership().rank] = x;
          }));
      // Half an int8 step, 1/127, of every rank's values, and again of a sum up to four.
      const double tolerance = codec.name == "none" ? 1e-6 : kSize * (1 / 127.0 + 1e-4);
      for (int rank = 0; rank < kSize; ++rank) {
        ASSERT_EQ(results[rank].size(), results[0].size());
        EXPECT_EQ(std::memcmp(results[rank].data(), results[0].data(), kCount * sizeof(float)), 0)
            << codec.name << ", " << setting.algorithm << ", rank " << rank;
      }
      for (int64_t i = 0; i < kCount; ++i)
        ASSERT_NEAR(results[0][i], exact[i], tolerance)
            << codec.name << ", " << setting.algorithm << ", element " << i;
    }
  }
}

// What an operation loses comes with the next one, whose codec may be another.
TEST(EngineCodec, ResidualsMakeUpForWhatWasLost) {
  for (const Setting& setting : kSettings) {
    std::vector<std::vector<double>> owed(kSize, std::vector<double>(kCount));
    std::vector<double> total(kCount);
    constexpr int kSteps = 6;
    expect_no_errors(run_ranks(
        kSize, [&](int rank) { return two_hosts(rank, setting); },
        [&](Engine& engine) {
          const int rank = engine.membership().rank;
          const std::vector<float> input = values_of(rank);
          std::vector<float> output(kCount), residual(kCount);
          for (int step = 0; step < kSteps; ++step) {
            engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kAverage,
                                               .count = kCount,
                                               .input = input.data(),
                                               .output = output.data(),
                                               .codec = step == 3 ? "none" : "int8",
                                               .residual = residual.data()}));
            for (int64_t i = 0; i < kCount && rank == 0; ++i) total[i] += output[i];
            if (step != 3) continue;
            // Sent as it is, there is nothing left to send.
            for (const float r : residual) ASSERT_EQ(r, 0);
          }
          owed[rank].assign(residual.begin(), residual.end());
        }));
    for (int64_t i = 0; i < kCount; ++i) {
      double given = 0, left = 0;
      for (int rank = 0; rank < kSize; ++rank) left += owed[rank][i] / kSize;
      for (int rank = 0; rank < kSize; ++rank) {
        static const std::vector<std::vector<float>> inputs{values_of(0), values_of(1),
                                                            values_of(2), values_of(3)};
        given += static_cast<double>(inputs[rank][i]) * kSteps / kSize;
      }
      // A few roundings of fp32 per step.
      ASSERT_NEAR(total[i] + left, given, 1e-5) << setting.algorithm << ", element " << i;
    }
  }
}

TEST(EngineCodec, NamedOperationsHaveResidualsOfTheirOwn) {
  expect_no_errors(run_ranks(
      2,
      [](int) {
        Options options = patient();
        options.codec = "int8";
        return options;
      },
      [](Engine& engine) {
        // Far below the block's greatest: without feedback, nothing of it ever arrives.
        std::vector<float> input(1024, 0.01f), output(1024);
        input[0] = 100;
        const auto total = [&](const char* name) {
          double sum = 0;
          for (int step = 0; step < 300; ++step) {
            engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                               .count = 1024,
                                               .input = input.data(),
                                               .output = output.data(),
                                               .name = name}));
            sum += output[5];
          }
          return sum;
        };
        EXPECT_EQ(total(""), 0);
        // Up to an int8 step per rank, and one of the sum, is still owed.
        EXPECT_NEAR(total("w"), 300 * 0.02, 4 * 0.8);
        EXPECT_GT(total("w"), 0);
      }));
}

TEST(EngineCodec, WhatIsNotFiniteArrivesAndLeavesResidualsAlone) {
  expect_no_errors(run_ranks(
      2, [](int) { return patient(); },
      [](Engine& engine) {
        const int rank = engine.membership().rank;
        std::vector<float> x(4096, 0.3f), residual(4096, 0.001f);
        if (rank == 1) x[3000] = std::numeric_limits<float>::infinity();
        engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kAverage,
                                           .count = 4096,
                                           .input = x.data(),
                                           .output = x.data(),
                                           .codec = "int8",
                                           .name = "w",
                                           .residual = residual.data()}));
        EXPECT_EQ(x[3000], std::numeric_limits<float>::infinity());
        for (const float r : residual) ASSERT_TRUE(std::isfinite(r));
        // The block of 256 around it, on the rank that has it.
        if (rank == 1) {
          EXPECT_EQ(residual[2816], 0.001f);
        }
        EXPECT_EQ(engine.take_non_finite().size(), rank == 1 ? 1u : 0u);
      }));
}

}  // namespace
}  // namespace stretto::comm
