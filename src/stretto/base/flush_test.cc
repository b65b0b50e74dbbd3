#include "stretto/base/flush.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "stretto/base/clock.h"

namespace stretto {
namespace {

// Each load waits for the one before, one per line.
void chase(const std::vector<uint32_t>& lines) {
  uint32_t at = 0;
  do {
    at = lines[at];
    asm volatile("" : "+r"(at));
  } while (at != 0);
}

// Seconds of a chase. The least of several passes, because other work on the machine only makes
// them longer.
double chase_s(const std::vector<uint32_t>& lines, bool flushed) {
  double best = 1e9;
  for (int pass = 0; pass < 20; ++pass) {
    chase(lines);
    if (flushed) flush(lines.data(), lines.size() * sizeof(uint32_t));
    const double start = now_s();
    chase(lines);
    best = std::min(best, now_s() - start);
  }
  return best;
}

TEST(Flush, TakesMemoryOutOfTheCaches) {
  if (!can_flush()) GTEST_SKIP() << "this processor has no CLFLUSHOPT";
  // 16 KiB fit the innermost cache: a load takes some 5 cycles there, and hundreds from memory. The
  // order of lines is one that prefetchers do not guess.
  constexpr uint32_t kLines = 256, kStep = 16;
  std::vector<uint32_t> lines(kLines * kStep);
  for (uint32_t i = 0; i < kLines; ++i) lines[i * kStep] = (i + 97) % kLines * kStep;
  EXPECT_GT(chase_s(lines, true), 4 * chase_s(lines, false));
}

TEST(Flush, KeepsWhatTheMemoryHolds) {
  std::vector<int> values(1001);
  std::iota(values.begin(), values.end(), 0);
  flush(values.data() + 1, 999 * sizeof(int));
  flush(values.data(), 0);
  for (int i = 0; i < 1001; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace stretto
