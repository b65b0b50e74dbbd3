#include "stretto/runtime/verdict.h"

#include <gtest/gtest.h>

namespace stretto::runtime {
namespace {

const kernels::Target kTarget{.isa = kIsas.front(), .threads = 2};
constexpr std::string_view kDefaultPlan = "direct conv2d: 0 > 1\n";
constexpr std::string_view kPlan = "winograd4 conv2d: 0 > 1\n";

tune::TuningCache entry(bool default_kept = false) {
  return verdict_entry({.budget_s = 2.5,
                        .default_kept = default_kept,
                        .contest = {.first_ms = 11, .second_ms = 12, .ratio = 0.93, .rounds = 41}},
                       kDefaultPlan, kPlan, kTarget);
}

// A cache with the only entry of `cache` under another key or with another text.
tune::TuningCache changed(const tune::TuningCache& cache, std::string_view what,
                          std::string_view with) {
  const auto& [old_key, choice] = *cache.choices().begin();
  std::string key = old_key, text = choice.candidate;
  std::string& there = key.find(what) != std::string::npos ? key : text;
  EXPECT_NE(there.find(what), std::string::npos)
      << what << " is neither in " << key << " nor in " << text;
  there.replace(there.find(what), what.size(), with);
  tune::TuningCache result;
  result.put(key, {text, choice.seconds});
  return result;
}

TEST(Verdict, IsReadBackFromTheText) {
  for (const bool default_kept : {false, true}) {
    const tune::TuningCache read = tune::TuningCache::parse(entry(default_kept).text(), "file");
    const auto verdict = find_verdict(read, kDefaultPlan, kPlan, kTarget);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->budget_s, 2.5);
    EXPECT_EQ(verdict->default_kept, default_kept);
    EXPECT_EQ(verdict->contest.first_ms, 11);
    EXPECT_EQ(verdict->contest.second_ms, 12);
    EXPECT_EQ(verdict->contest.ratio, 0.93);
    EXPECT_EQ(verdict->contest.rounds, 41);
    // The time of what was kept.
    EXPECT_NEAR(read.choices().begin()->second.seconds, default_kept ? 12e-3 : 11e-3, 1e-9);
  }
}

TEST(Verdict, HoldsForTheSameTwoProgramsAndTargetOnly) {
  const tune::TuningCache cache = entry();
  EXPECT_TRUE(find_verdict(cache, kDefaultPlan, kPlan, kTarget));
  EXPECT_FALSE(find_verdict(cache, kDefaultPlan, "another", kTarget));  // other choices by now
  EXPECT_FALSE(find_verdict(cache, "another", kPlan, kTarget));         // another model
  kernels::Target other = kTarget;
  other.threads = 1;
  EXPECT_FALSE(find_verdict(cache, kDefaultPlan, kPlan, other));
  other = kTarget;
  other.isa = kTarget.isa == Isa::kNeon ? Isa::kAvx2 : Isa::kNeon;
  EXPECT_FALSE(find_verdict(cache, kDefaultPlan, kPlan, other));
  other = kTarget;
  other.accuracy = kernels::Accuracy::kStrict;
  EXPECT_FALSE(find_verdict(cache, kDefaultPlan, kPlan, other));
}

TEST(Verdict, OfAnotherMachineIsNotFound) {
  const std::string machine = cpu_info().model + " " + cpu_info().core;
  EXPECT_FALSE(
      find_verdict(changed(entry(), machine, "Another processor"), kDefaultPlan, kPlan, kTarget));
  const std::string cores = " x" + std::to_string(cpu_info().cores) + " ";
  EXPECT_FALSE(find_verdict(changed(entry(), cores, " x1000 "), kDefaultPlan, kPlan, kTarget));
}

TEST(Verdict, ThatCannotBeReadIsNone) {
  for (const auto& [what, with] :
       std::vector<std::pair<std::string, std::string>>{{"tuned 2.5", "reference 2.5"},
                                                        {"tuned 2.5", "tuned nan"},
                                                        {"tuned 2.5", "tuned -1"},
                                                        {"tuned 2.5", "2.5"},
                                                        {" 41", ""},
                                                        {" 41", " 41 1"},
                                                        {" 41", " 99999999999999999999"}}) {
    EXPECT_FALSE(find_verdict(changed(entry(), what, with), kDefaultPlan, kPlan, kTarget)) << with;
  }
}

TEST(Verdict, IsToldFromChoicesOfKernels) {
  tune::TuningCache cache;
  EXPECT_FALSE(has_verdicts(cache));
  cache.put("conv2d a", {"direct", 1e-3});
  cache.put("zeros", {"direct", 1e-3});
  EXPECT_FALSE(has_verdicts(cache));
  cache.merge(entry());
  EXPECT_TRUE(has_verdicts(cache));
}

}  // namespace
}  // namespace stretto::runtime
