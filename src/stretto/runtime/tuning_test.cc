#include "stretto/runtime/tuning.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "stretto/runtime/testing.h"
#include "stretto/tune/cache_file.h"

namespace stretto::runtime {
namespace {

namespace fs = std::filesystem;

// Tunes a small model with a tuning cache of its own, as optimize() does.
class Tuning : public ::testing::Test {
 protected:
  Tuning() {
    std::string name = fs::temp_directory_path() / "stretto_tuning_test_XXXXXX";
    folder_ = mkdtemp(name.data());
    how_.cache = folder_ / "cache.tsv";
    how_.compare_s = 0.05;  // which of the two is kept does not matter, but where one is far slower
  }
  ~Tuning() override { fs::remove_all(folder_); }

  Tuned tune(double budget_s) {
    how_.budget_s = budget_s;
    Tuned tuned = choose_kernels(graph_, target_, how_);
    compared_ = tuned.open(how_);
    const Tensor input(DType::kFloat32, {1, 3, 33, 31});
    if (compared_) compare_with_default(tuned, graph_, how_, {input});
    return tuned;
  }
  // Lets references do all problems of a family, or all: by far the slowest kernels.
  void remember_wrong_choices(std::string_view family = "") {
    const tune::TuningCache there = tune::load_tuning_cache(how_.cache);
    tune::TuningCache wrong;
    for (const auto& [key, choice] : there.choices()) {
      if (key.starts_with("model ") || !key.starts_with(family)) continue;
      wrong.put(key, {"reference", 1e-6});
    }
    ASSERT_FALSE(wrong.empty());
    tune::add_to_tuning_cache(how_.cache, wrong);
  }
  static std::vector<std::pair<std::string, int>> kernels_of(const Tuned& tuned) {
    std::vector<std::pair<std::string, int>> kernels;
    for (size_t i = 0; i < tuned.compiled.explanations.size(); ++i) {
      kernels.emplace_back(tuned.compiled.explanations[i].problem,
                           tuned.compiled.program.instructions[i].row);
    }
    return kernels;
  }
  std::string cache_text() const { return tune::load_tuning_cache(how_.cache).text(); }

  std::shared_ptr<ir::Graph> graph_ = std::make_shared<ir::Graph>(ir::parse_text(kSmallNet));
  kernels::Target target_{.isa = usable_isa(), .threads = 1};
  TuningOptions how_;
  fs::path folder_;
  bool compared_ = false;  // by the last tune()
};

TEST_F(Tuning, ASecondRunTakesNoMeasurements) {
  const Tuned first = tune(0.5);
  EXPECT_TRUE(compared_);
  EXPECT_FALSE(first.remembered);
  const std::string before = cache_text();
  for (const double budget_s : {0.5, 0.1, 0.0}) {
    const Tuned again = tune(budget_s);
    EXPECT_TRUE(again.remembered);
    EXPECT_FALSE(compared_);
    EXPECT_EQ(again.selector->counts().measured, 0);
    EXPECT_TRUE(again.selector->found().empty());
    EXPECT_EQ(again.verdict->default_kept, first.verdict->default_kept);
    EXPECT_EQ(kernels_of(again), kernels_of(first));
    EXPECT_EQ(cache_text(), before);
  }
}

TEST_F(Tuning, ALossIsRememberedToo) {
  tune(0.5);
  remember_wrong_choices();
  const Tuned lost = tune(0.5);
  ASSERT_TRUE(compared_);
  EXPECT_TRUE(lost.verdict->default_kept);
  const Tuned again = tune(0.5);
  EXPECT_TRUE(again.remembered && again.verdict->default_kept);
  EXPECT_EQ(again.selector->counts().measured, 0);
  EXPECT_EQ(kernels_of(again), kernels_of(lost));
  EXPECT_GT(again.verdict->contest.ratio, 1);
}

TEST_F(Tuning, MoreSecondsMeasureAgain) {
  tune(0.2);
  const Tuned longer = tune(0.4);
  EXPECT_FALSE(longer.remembered);
  EXPECT_TRUE(compared_);
  EXPECT_TRUE(tune(0.4).remembered);
}

// As when another model or another process has measured a layer of this one since.
TEST_F(Tuning, OtherChoicesAreComparedAnew) {
  tune(0.5);
  ASSERT_TRUE(tune(0.5).remembered);
  remember_wrong_choices("conv2d ");
  EXPECT_FALSE(tune(0.5).remembered);
  EXPECT_TRUE(compared_);
  EXPECT_TRUE(tune(0.5).remembered);
}

TEST_F(Tuning, OtherThreadsAndForcedKernelsHaveVerdictsOfTheirOwn) {
  tune(0.5);
  target_.threads = 2;
  EXPECT_FALSE(tune(0.5).remembered);
  EXPECT_TRUE(tune(0.5).remembered);
  target_.threads = 1;
  EXPECT_TRUE(tune(0.5).remembered);
  // Without measuring: what it found of other families would change the plan of the first one.
  how_.forced["conv2d"] = "direct";
  EXPECT_FALSE(tune(0).remembered);
  how_.forced.clear();
  EXPECT_TRUE(tune(0.5).remembered);
}

// The same problems in the same order, but the last layer adds another value.
TEST_F(Tuning, AnotherModelOfTheSameLayersHasAVerdictOfItsOwn) {
  const auto net = [](std::string_view added) {
    return std::make_shared<ir::Graph>(ir::parse_text(fmt::format(R"(
  graph chain
  input x: float32[1, 3, 33, 31]
  constant w0: float32[32, 3, 3, 3] = random(1)
  constant w1: float32[32, 32, 3, 3] = random(3)
  constant b1: float32[32] = random(4)
  a = stretto.Conv(x, w0) {{pads = [1, 1, 1, 1], activation = "relu"}}
  b = stretto.Conv(a, w1, b1, a) {{pads = [1, 1, 1, 1], activation = "relu"}}
  y = stretto.Conv(b, w1, b1, {}) {{pads = [1, 1, 1, 1], activation = "relu"}}
  output y
)",
                                                                  added)));
  };
  graph_ = net("a");
  tune(0.5);
  EXPECT_TRUE(tune(0.5).remembered);
  graph_ = net("b");
  EXPECT_FALSE(tune(0.5).remembered);
}

TEST_F(Tuning, ProcessesThatTuneAtOnceLeaveAUsableTuningCache) {
  std::vector<pid_t> children;
  for (int p = 0; p < 3; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      tune(0.2);
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  // Which of them saved last decides whether its verdict still fits what the others measured; then
  // one more run settles it.
  tune(0.2);
  EXPECT_TRUE(tune(0.2).remembered);
}

}  // namespace
}  // namespace stretto::runtime
