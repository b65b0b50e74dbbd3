#include "stretto/comm/gradient/gradients.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <future>
#include <limits>
#include <random>

#include "stretto/base/error.h"
#include "stretto/comm/codec/codec.h"
#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/tuning/tuning.h"
#include "stretto/tune/cache_file.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::run_ranks;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kSize = 3;

// Codecs that are still exact enough to be compared, and ranks that count as two hosts.
Options setting(int rank) {
  Options options = testing::two_hosts(rank);
  options.chunk_bytes = 8 << 10;
  options.topk_density = 0.1;
  options.topk_warmup_steps = 0;
  options.mixed_error = 0.02;
  options.mixed_every = 5;
  return options;
}

std::vector<int> everyone() { return {0, 1, 2}; }

// A model of two matrices and two vectors; every rank has the same gradients in every step.
const std::vector<GradientSlice> kModel{
    {.parameter = "a.weight", .count = 60 * 80, .rows = 60, .columns = 80},
    {.parameter = "a.bias", .count = 80},
    {.parameter = "b.weight", .count = 50 * 40, .rows = 50, .columns = 40},
    {.parameter = "b.bias", .count = 40}};

using Model = std::vector<std::vector<float>>;

Model gradients_of(int rank) {
  std::mt19937 random(rank + 1);
  std::normal_distribution<float> normal;
  Model model;
  for (const GradientSlice& slice : kModel) {
    model.emplace_back(static_cast<size_t>(slice.count));
    for (float& x : model.back()) x = normal(random);
  }
  return model;
}

Model average_of_all() {
  Model average = gradients_of(0);
  for (int rank = 1; rank < kSize; ++rank) {
    const Model other = gradients_of(rank);
    for (size_t p = 0; p < average.size(); ++p)
      for (size_t i = 0; i < average[p].size(); ++i) average[p][i] += other[p][i];
  }
  for (auto& values : average)
    for (float& x : values) x /= kSize;
  return average;
}

// Averages the model in buckets that hold the parameters named; returns their averages.
Model step(Gradients& gradients, const Model& model, const std::vector<std::vector<int>>& buckets,
           int64_t number, float scale = 1) {
  std::vector<std::vector<float>> values;
  std::vector<Handle> handles;
  for (const auto& members : buckets) {
    values.emplace_back();
    std::vector<GradientSlice> slices;
    for (const int p : members) {
      slices.push_back(kModel[p]);
      for (const float x : model[p]) values.back().push_back(x * scale);
    }
    handles.push_back(gradients.submit(
        {.slices = slices, .values = values.back().data(), .step = number, .loss_scale = scale}));
  }
  Model result(model.size());
  for (size_t b = 0; b < buckets.size(); ++b) {
    gradients.wait(handles[b]);
    const float* from = values[b].data();
    for (const int p : buckets[b]) {
      result[p].assign(from, from + model[p].size());
      for (float& x : result[p]) x /= scale;
      from += model[p].size();
    }
  }
  return result;
}

double relative_error(const Model& got, const Model& want, double steps) {
  double error = 0, norm = 0;
  for (size_t p = 0; p < want.size(); ++p)
    for (size_t i = 0; i < want[p].size(); ++i) {
      const double difference = got[p][i] - steps * want[p][i];
      error += difference * difference;
      norm += steps * want[p][i] * steps * want[p][i];
    }
  return std::sqrt(error / norm);
}

void add(Model* sum, const Model& other) {
  if (sum->empty()) {
    *sum = other;
    return;
  }
  for (size_t p = 0; p < other.size(); ++p)
    for (size_t i = 0; i < other[p].size(); ++i) (*sum)[p][i] += other[p][i];
}

// DDP's way: one bucket at first, then others; the loss scale changes too.
TEST(Gradients, EveryCodecIsTheSameOnEveryRankAndRightOverSteps) {
  const Model want = average_of_all();
  for (const GradientCodec& codec : gradient_codecs()) {
    constexpr int kSteps = 60;
    std::vector<Model> results(kSize), totals(kSize);
    expect_no_errors(run_ranks(kSize, setting, [&](Engine& engine) {
      const int rank = engine.membership().rank;
      Gradients gradients(engine, "model", everyone(), codec.name, engine.options());
      for (int number = 1; number <= kSteps; ++number) {
        const bool rebuilt = number > 1;
        results[rank] = step(gradients, gradients_of(rank),
                             rebuilt ? std::vector<std::vector<int>>{{3, 2, 1}, {0}}
                                     : std::vector<std::vector<int>>{{0, 1, 2, 3}},
                             number, number % 20 < 10 ? 1.0f : 1024.0f);
        add(&totals[rank], results[rank]);
      }
    }));
    for (int rank = 1; rank < kSize; ++rank)
      EXPECT_TRUE(results[rank] == results[0] && totals[rank] == totals[0])
          << codec.name << ", rank " << rank;
    // Gradients stay the same, so that what is still owed counts for less and less: topk sends a
    // value every tenth step at most, rank 2 of 40 directions takes turns for most of the 60 steps.
    const double tolerance = codec.name == "topk" ? 0.15 : codec.name == "powersgd" ? 0.5 : 1e-2;
    EXPECT_LT(relative_error(totals[0], want, kSteps), tolerance) << codec.name;
  }
}

// A thousandth of a small bucket is 5 values, so most would wait for a thousand steps.
TEST(Gradients, TopKSendsAnEighthOfASmallBucket) {
  const auto sparse = [](int rank) {
    Options options = setting(rank);
    options.topk_density = 0.001;
    return options;
  };
  Model result;
  expect_no_errors(run_ranks(kSize, sparse, [&](Engine& engine) {
    const int rank = engine.membership().rank;
    Gradients gradients(engine, "model", everyone(), "topk", engine.options());
    const Model mine = step(gradients, gradients_of(rank), {{0}, {1}, {2}, {3}}, 1);
    if (rank == 0) result = mine;
  }));
  EXPECT_GE(std::ranges::count_if(result[0], [](float x) { return x != 0; }), kModel[0].count / 8);
}

// What is too small beside its neighbours arrives only if residuals follow their parameters, in a
// new order of parameters in every step, and are converted to every new loss scale.
TEST(Gradients, EveryCodecOfOneBufferIsOneForGradients) {
  for (const Codec& codec : codecs()) EXPECT_NO_THROW(find_gradient_codec(codec.name));
}

TEST(Gradients, ResidualsFollowParametersAndLossScales) {
  expect_no_errors(run_ranks(kSize, setting, [](Engine& engine) {
    Gradients gradients(engine, "model", everyone(), "int8", engine.options());
    Model model(kModel.size());
    for (size_t p = 0; p < model.size(); ++p) {
      model[p].assign(static_cast<size_t>(kModel[p].count), 0.01f);
      for (size_t i = 0; i < model[p].size(); i += 20) model[p][i] = 100;
    }
    double total = 0;
    constexpr int kSteps = 400;
    for (int number = 1; number <= kSteps; ++number) {
      std::vector<int> order{0, 1, 2, 3};
      std::mt19937 random(number);  // the same on every rank
      std::shuffle(order.begin(), order.end(), random);
      total += step(gradients, model, {order}, number, number % 2 ? 1.0f : 0.125f)[2][555];
    }
    EXPECT_NEAR(total, kSteps * 0.01, 2 * 0.8);  // an int8 step is 0.8; owed twice at most
    EXPECT_GT(total, 0.5 * kSteps * 0.01);
  }));
}

// A rank that comes late, in another place every time, changes nothing.
// Rank 0 submits a bucket alone, after steps of all ranks.
TEST(Gradients, ABucketHasATimeLimit) {
  for (const GradientCodec& codec : gradient_codecs()) {
    SCOPED_TRACE(codec.name);
    std::promise<void> end;
    const std::shared_future<void> over = end.get_future().share();
    const auto errors = run_ranks(kSize, setting, [&](Engine& engine) {
      const int rank = engine.membership().rank;
      Gradients gradients(engine, "model", everyone(), codec.name, engine.options());
      const Model model = gradients_of(rank);
      for (int i = 1; i <= 2; ++i) step(gradients, model, {{0, 1, 2, 3}}, i);
      if (rank != 0) {
        over.wait_for(std::chrono::minutes(1));
        return;
      }
      std::vector<float> x = model[0];
      const Handle handle = gradients.submit(
          {.slices = {kModel[0]}, .values = x.data(), .step = 3, .timeout_s = 0.2});
      try {
        gradients.wait(handle);
      } catch (const CommError&) {
        end.set_value();
        throw;
      }
    });
    EXPECT_NE(errors[0].find("is not done after 0.2 s (the timeout of group 'model, stage "),
              errors[0].npos)
        << errors[0];
    EXPECT_NE(errors[0].find("); rank 0 waits for rank"), errors[0].npos) << errors[0];
  }
}

TEST(Gradients, RanksAgreeWhateverTheirTiming) {
  for (const char* codec : {"powersgd", "mixed", "topk"}) {
    std::vector<Model> results(kSize);
    expect_no_errors(run_ranks(kSize, setting, [&](Engine& engine) {
      const int rank = engine.membership().rank;
      std::mt19937 random(rank);
      Gradients gradients(engine, "model", everyone(), codec, engine.options());
      constexpr int kBuckets = 12;
      std::vector<std::vector<float>> values(kBuckets);
      for (int number = 1; number <= 3; ++number) {
        std::vector<Handle> handles;
        for (int b = 0; b < kBuckets; ++b) {
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
          GradientSlice slice = kModel[b % 3];
          slice.parameter += fmt::format(" {}", b);
          values[b] = gradients_of(rank)[b % 3];
          handles.push_back(
              gradients.submit({.slices = {slice}, .values = values[b].data(), .step = number}));
        }
        for (const Handle handle : handles) gradients.wait(handle);
      }
      results[rank] = values;
    }));
    EXPECT_EQ(results[0], results[1]) << codec;
    EXPECT_EQ(results[0], results[2]) << codec;
  }
}

TEST(Gradients, WhatIsNotFiniteIsNamedAndArrivesAndIsGoneTheNextStep) {
  for (const GradientCodec& codec : gradient_codecs()) {
    expect_no_errors(run_ranks(kSize, setting, [&](Engine& engine) {
      const int rank = engine.membership().rank;
      Gradients gradients(engine, "model", everyone(), codec.name, engine.options());
      const Model fine = gradients_of(rank);
      Model broken = fine;
      if (rank == 1) broken[2][7] = broken[2][100] = kInf;
      step(gradients, fine, {{3, 2, 1, 0}}, 1);
      const Model poisoned = step(gradients, broken, {{3, 2, 1, 0}}, 2);
      EXPECT_FALSE(std::isfinite(poisoned[2][7])) << codec.name;
      const auto reports = engine.take_non_finite();
      ASSERT_EQ(reports.size(), rank == 1 ? 1u : 0u) << codec.name;
      if (rank == 1) {
        EXPECT_EQ(reports[0].name, "b.weight at step 2");
        EXPECT_EQ(reports[0].rank, 1);
        EXPECT_EQ(reports[0].first_offset, 7);
        EXPECT_EQ(reports[0].count, 2);
      }
      for (int number = 3; number < 5; ++number)
        for (const auto& values : step(gradients, fine, {{3, 2, 1, 0}}, number))
          for (const float x : values) ASSERT_TRUE(std::isfinite(x)) << codec.name;
    }));
  }
}

TEST(Gradients, PowerSgdSendsLittleAndVectorsAsTheyAre) {
  const Model want = average_of_all();
  expect_no_errors(run_ranks(kSize, setting, [&](Engine& engine) {
    const int rank = engine.membership().rank;
    Gradients gradients(engine, "model", everyone(), "powersgd", engine.options());
    const int64_t before = engine.statistics().payload_bytes;
    const Model got = step(gradients, gradients_of(rank), {{0, 1, 2, 3}}, 1);
    for (const int p : {1, 3})
      for (size_t i = 0; i < want[p].size(); ++i) ASSERT_NEAR(got[p][i], want[p][i], 1e-6);
    // (60 + 80 + 50 + 40) columns of two, and 120 values; each crosses at most twice to each of
    // two ranks.
    EXPECT_LT(engine.statistics().payload_bytes - before, 4 * 2 * 2 * (2 * 230 + 120));
  }));
}

// A tuning cache that knows what a byte costs on the wire of three hosts with a rank each.
std::filesystem::path cache_with_wire(double byte_s) {
  auto cache =
      std::filesystem::temp_directory_path() / ("stretto_mixed_test_" + std::to_string(getpid()));
  std::filesystem::remove(cache);
  tune::TuningCache known;
  known.put(setting_key("links", "8 streams, 1 interfaces, ranks 1 1 1"),
            {link_costs_text({byte_s, 60e-6, 0, 0}), 0});
  EXPECT_TRUE(tune::add_to_tuning_cache(cache, known));
  return cache;
}

TEST(Gradients, MixedKeepsItsBound) {
  const Model want = average_of_all();
  for (const double bound : {1e-7, 0.02}) {
    expect_no_errors(run_ranks(
        kSize,
        [&](int rank) {
          Options options = setting(rank);
          options.mixed_error = bound;
          options.host = fmt::format("host {}", rank);  // inside a host nothing is encoded
          return options;
        },
        [&](Engine& engine) {
          const Model model = gradients_of(engine.membership().rank);
          Gradients plain(engine, "plain", everyone(), "none", engine.options());
          Gradients mixed(engine, "mixed", everyone(), "mixed", engine.options());
          step(mixed, model, {{0, 1, 2, 3}}, 1);  // measures
          engine.wait(engine.submit(kWorld, {.kind = Kind::kBarrier}));
          const int64_t start = engine.statistics().payload_bytes;
          step(plain, model, {{0, 1, 2, 3}}, 1);
          engine.wait(engine.submit(kWorld, {.kind = Kind::kBarrier}));
          const int64_t whole = engine.statistics().payload_bytes - start;
          const Model got = step(mixed, model, {{0, 1, 2, 3}}, 2);
          const int64_t coded = engine.statistics().payload_bytes - start - whole;
          // Contributions and their sum are encoded, each within the bound.
          EXPECT_LT(relative_error(got, want, 1), 2 * kSize * bound + 1e-6);
          // What is fastest is the machine's affair (under a sanitizer, fp32); never more bytes.
          EXPECT_LT(coded, 1.01 * static_cast<double>(whole));
        }));
  }
}

// The first choice rests on what the engine knows, here from the tuning cache of one rank: on a
// wire that costs nothing the codec that the processor runs fastest wins, on a very slow one int8.
TEST(Gradients, MixedBeginsWithWhatTheEngineKnowsOfTheWire) {
  for (const double byte_s : {1e-15, 1e-3}) {
    const auto cache = cache_with_wire(byte_s);
    std::vector<Model> results(kSize);
    expect_no_errors(run_ranks(
        kSize,
        [&](int rank) {
          Options options = setting(rank);
          options.tuning = Tuning::kQuick;
          options.tuning_cache = rank == 1 ? cache.string() : "none";
          options.host = fmt::format("host {}", rank);
          return options;
        },
        [&](Engine& engine) {
          const Model model = gradients_of(engine.membership().rank);
          Gradients mixed(engine, "mixed", everyone(), "mixed", engine.options());
          results[engine.membership().rank] = step(mixed, model, {{0, 1, 2, 3}}, 1);
        }));
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
    const double error = relative_error(results[0], average_of_all(), 1);
    // An encoding by int8 loses 0.7 % of such values, one by bf16 0.2 %.
    EXPECT_EQ(error > 0.005, byte_s > 1e-9) << error;
    std::filesystem::remove(cache);
  }
}

// On a slow wire the first step goes by int8. In the second a few values are so large that int8
// would lose the others; the codec that is taken then also brings what int8 had left.
TEST(Gradients, MixedSendsWhatInt8HasLeftWhenItChangesTheCodec) {
  const auto cache = cache_with_wire(1e-3);
  const auto is_large = [](size_t i) { return i % 64 == 7; };
  const auto second_step = [&](Model model) {
    for (auto& values : model)
      for (size_t i = 0; i < values.size(); ++i) values[i] = is_large(i) ? 20 : 0.3f * values[i];
    return model;
  };
  std::vector<Model> first(kSize), both(kSize);
  expect_no_errors(run_ranks(
      kSize,
      [&](int rank) {
        Options options = setting(rank);
        options.mixed_error = 0.01;
        options.mixed_every = 1;
        options.tuning = Tuning::kQuick;
        options.tuning_cache = cache.string();
        options.host = fmt::format("host {}", rank);
        return options;
      },
      [&](Engine& engine) {
        const int rank = engine.membership().rank;
        const Model model = gradients_of(rank);
        Gradients mixed(engine, "mixed", everyone(), "mixed", engine.options());
        both[rank] = first[rank] = step(mixed, model, {{0, 1, 2, 3}}, 1);
        add(&both[rank], step(mixed, second_step(model), {{0, 1, 2, 3}}, 2));
      }));
  const Model want = average_of_all();
  double once = 0, over_both = 0;  // squared errors of values that are never large
  for (size_t p = 0; p < want.size(); ++p) {
    for (size_t i = 0; i < want[p].size(); ++i) {
      if (is_large(i)) continue;
      once += std::pow(first[0][p][i] - want[p][i], 2);
      over_both += std::pow(both[0][p][i] - 1.3 * want[p][i], 2);
    }
  }
  EXPECT_LT(over_both, once / 9) << "what int8 had left was not sent";
  EXPECT_EQ(both[0], both[1]);
  EXPECT_EQ(both[0], both[2]);
  std::filesystem::remove(cache);
}

TEST(Gradients, RefusesASliceThatIsUnderWay) {
  expect_no_errors(run_ranks(2, setting, [](Engine& engine) {
    Gradients gradients(engine, "model", {0, 1}, "none", engine.options());
    std::vector<float> x(80, 1.0f);
    if (engine.membership().rank == 0) {
      const Handle first = gradients.submit({.slices = {kModel[1]}, .values = x.data()});
      EXPECT_THROW(gradients.submit({.slices = {kModel[1]}, .values = x.data()}), InvalidArgument);
      engine.wait(engine.submit(kWorld, {.kind = Kind::kBarrier}));
      gradients.wait(first);
    } else {
      engine.wait(engine.submit(kWorld, {.kind = Kind::kBarrier}));
      gradients.wait(gradients.submit({.slices = {kModel[1]}, .values = x.data()}));
    }
    EXPECT_EQ(x[79], 1.0f);
  }));
}

TEST(Gradients, BucketsThatDifferFailOnEveryRank) {
  const auto errors = run_ranks(2, setting, [](Engine& engine) {
    Gradients gradients(engine, "model", {0, 1}, "none", engine.options());
    std::vector<float> x(80);
    const int p = engine.membership().rank == 0 ? 1 : 3;
    gradients.wait(gradients.submit({.slices = {kModel[p]}, .values = x.data()}));
  });
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("'a.bias'"), error.npos) << error;
    EXPECT_NE(error.find("'b.bias'"), error.npos) << error;
  }
}

TEST(Gradients, LeavingWithABucketUnderWayEndsTheJob) {
  const auto errors = run_ranks(2, setting, [](Engine& engine) {
    std::vector<float> x(80);
    if (engine.membership().rank == 0) {
      Gradients gradients(engine, "model", {0, 1}, "powersgd", engine.options());
      gradients.submit({.slices = {kModel[1]}, .values = x.data()});
    } else {
      engine.wait(engine.submit(
          kWorld,
          {.reduction = ReduceOp::kSum, .count = 1, .input = x.data(), .output = x.data()}));
    }
  });
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "rank 0 has left while gradients were under way");
}

TEST(Gradients, CompletionsComeThroughTheQueue) {
  expect_no_errors(run_ranks(2, setting, [](Engine& engine) {
    Gradients gradients(engine, "model", {0, 1}, "fp16", engine.options());
    std::vector<std::vector<float>> values(20, std::vector<float>(2000, 0.5f));
    std::set<Handle> open;
    for (size_t i = 0; i < values.size(); ++i)
      open.insert(gradients.submit({.slices = {{.parameter = fmt::format("p{}", i), .count = 2000}},
                                    .values = values[i].data()},
                                   Delivery::kQueue));
    std::vector<Completion> batch(7);
    while (!open.empty()) {
      const size_t got = gradients.next_completions(batch, 60);
      ASSERT_GT(got, 0u);
      for (size_t i = 0; i < got; ++i) {
        EXPECT_FALSE(batch[i].error);
        EXPECT_EQ(open.erase(batch[i].handle), 1u);
      }
    }
    for (const auto& v : values) EXPECT_EQ(v[1999], 0.5f);
  }));
}

}  // namespace
}  // namespace stretto::comm
