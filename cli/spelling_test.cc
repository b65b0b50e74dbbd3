#include "spelling.h"

#include <gtest/gtest.h>

namespace stretto::cli {
namespace {

TEST(Spelling, FindsTheWordThatWasMeant) {
  const std::string known[] = {"optimize", "infer", "bench", "STRETTO_STREAMS"};
  EXPECT_EQ(nearest("optimise", known), "optimize");
  EXPECT_EQ(nearest("benhc", known), "bench");
  EXPECT_EQ(nearest("STRETTO_STREAM", known), "STRETTO_STREAMS");
}

TEST(Spelling, GuessesNothingForAWordOfItsOwn) {
  const std::string known[] = {"optimize", "infer", "bench"};
  EXPECT_EQ(nearest("frobnicate", known), "");
  EXPECT_EQ(nearest("x", {}), "");
}

}  // namespace
}  // namespace stretto::cli
