#include "stretto/tune/tuning_cache.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto::tune {
namespace {

TEST(TuningCache, TextRoundTrips) {
  TuningCache cache;
  cache.put("conv2d 1x64x56x56 k64 avx2/default/t1", {"winograd_f4x4", 1.5e-4});
  cache.put("gemm 1", {"packed", 0});
  const TuningCache copy = TuningCache::parse(cache.text(), "test");
  ASSERT_EQ(copy.size(), 2u);
  const auto choice = copy.find("conv2d 1x64x56x56 k64 avx2/default/t1");
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->candidate, "winograd_f4x4");
  EXPECT_NEAR(choice->seconds, 1.5e-4, 1e-9);
  EXPECT_FALSE(copy.find("gemm 2").has_value());
}

TEST(TuningCache, AnotherVersionIsForgotten) {
  EXPECT_EQ(TuningCache::parse("stretto-tuning-cache 0.0.0\nkey\trow\t1\n", "test").size(), 0u);
}

TEST(TuningCache, DamageNamesTheLine) {
  const std::string text = TuningCache().text() + "key only\n";
  try {
    TuningCache::parse(text, "my.tsv");
    FAIL() << "expected FormatError";
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find("my.tsv: line 2"), std::string::npos) << error.what();
  }
}

TEST(TuningCache, TimesThatNoMachineTakesAreRefused) {
  for (const char* time : {"nan", "inf", "-inf", "1e300", "-1e300", "1x", ""}) {
    EXPECT_THROW(TuningCache::parse(TuningCache().text() + "key\trow\t" + time + "\n", "my.tsv"),
                 FormatError)
        << time;
  }
}

TEST(TuningCache, ShipsOnlyWhatWasMeasuredOnTheCore) {
  const TuningCache cache = TuningCache::shipped("zen5");
  EXPECT_GT(cache.size(), 500u);
  for (const auto& [key, choice] : cache.choices()) EXPECT_FALSE(choice.candidate.empty()) << key;
  EXPECT_EQ(TuningCache::shipped("a core of next year").size(), 0u);
}

TEST(TuningCache, ForgetsWhatStillNamesTheSameCandidate) {
  TuningCache cache, choices;
  cache.put("lost", {"a", 1e-3});
  cache.put("chosen again", {"b", 1e-3});
  cache.put("other", {"c", 1e-3});
  choices.put("lost", {"a", 2e-3});
  choices.put("chosen again", {"a", 2e-3});
  choices.put("not there", {"a", 2e-3});
  cache.forget(choices);
  EXPECT_FALSE(cache.find("lost"));
  EXPECT_EQ(cache.find("chosen again")->candidate, "b") << "by another process, meanwhile";
  EXPECT_EQ(cache.size(), 2u);
}

}  // namespace
}  // namespace stretto::tune
