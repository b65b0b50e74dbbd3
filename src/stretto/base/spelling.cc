#include "stretto/base/spelling.h"

#include <algorithm>
#include <vector>

namespace stretto {
namespace {

// Optimal string alignment distance (Damerau 1964, adjacent swaps only).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest_word(std::string_view word, std::span<const std::string> known) {
  std::string best;
  size_t fewest = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const std::string& candidate : known) {
    if (const size_t d = distance(word, candidate); d < fewest) {
      fewest = d;
      best = candidate;
    }
  }
  return best;
}

}  // namespace stretto
