#include "stretto/base/spelling.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

TEST(Spelling, FindsTheWordThatWasMeant) {
  const std::string known[] = {"optimize", "infer", "bench", "STRETTO_STREAMS"};
  EXPECT_EQ(nearest_word("optimise", known), "optimize");
  EXPECT_EQ(nearest_word("benhc", known), "bench");
  EXPECT_EQ(nearest_word("STRETTO_STREAM", known), "STRETTO_STREAMS");
}

TEST(Spelling, GuessesNothingForAWordOfItsOwn) {
  const std::string known[] = {"optimize", "infer", "bench"};
  EXPECT_EQ(nearest_word("frobnicate", known), "");
  EXPECT_EQ(nearest_word("x", {}), "");
}

}  // namespace
}  // namespace stretto
