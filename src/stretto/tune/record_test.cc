#include "stretto/tune/record.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto::tune {
namespace {

TEST(Record, TextRoundTrips) {
  Record record;
  record.put("conv2d 1x64x56x56 k64 avx2/default/t1", {"winograd_f4x4", 1.5e-4});
  record.put("gemm 1", {"packed", 0});
  const Record copy = Record::parse(record.text(), "test");
  ASSERT_EQ(copy.size(), 2u);
  const auto choice = copy.find("conv2d 1x64x56x56 k64 avx2/default/t1");
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->candidate, "winograd_f4x4");
  EXPECT_NEAR(choice->seconds, 1.5e-4, 1e-9);
  EXPECT_FALSE(copy.find("gemm 2").has_value());
}

TEST(Record, AnotherVersionIsForgotten) {
  EXPECT_EQ(Record::parse("stretto-record 0.0.0\nkey\trow\t1\n", "test").size(), 0u);
}

TEST(Record, DamageNamesTheLine) {
  const std::string text = Record().text() + "key only\n";
  try {
    Record::parse(text, "my.tsv");
    FAIL() << "expected FormatError";
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find("my.tsv: line 2"), std::string::npos) << error.what();
  }
}

TEST(Record, TimesThatNoMachineTakesAreRefused) {
  for (const char* time : {"nan", "inf", "-inf", "1e300", "-1e300"}) {
    EXPECT_THROW(Record::parse(Record().text() + "key\trow\t" + time + "\n", "my.tsv"), FormatError)
        << time;
  }
}

TEST(Record, ShipsOnlyWhatWasMeasuredOnTheCore) {
  const Record record = Record::shipped("zen5");
  EXPECT_GT(record.size(), 500u);
  for (const auto& [key, choice] : record.choices()) EXPECT_FALSE(choice.candidate.empty()) << key;
  EXPECT_EQ(Record::shipped("a core of next year").size(), 0u);
}

}  // namespace
}  // namespace stretto::tune
