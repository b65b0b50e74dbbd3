// Recursive doubling for any number of members, keeping their order: before round k a member holds
// the combination of its block of 2^k neighbours (aligned, cut off at the end), and gets that of
// the sibling block from one of its members. No extra rounds for numbers that are no powers of two.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace stretto::comm {

struct Block {
  int begin = 0, end = 0;
  int count() const { return end - begin; }
};

struct Doubling {
  int n;

  int rounds() const {
    int rounds = 0;
    while ((1 << rounds) < n) ++rounds;
    return rounds;
  }
  // What `member` holds before `round`.
  Block held(int member, int round) const {
    const int begin = member >> round << round;
    return {begin, std::min(n, begin + (1 << round))};
  }
  // What it gets in `round`; may be empty.
  Block sibling(int member, int round) const {
    const int begin = (member >> round ^ 1) << round;
    return {std::min(n, begin), std::min(n, begin + (1 << round))};
  }
  // From whom; -1 when there is nothing to get.
  int source(int member, int round) const {
    const Block from = sibling(member, round);
    if (from.count() == 0) return -1;
    return from.begin + (member - held(member, round).begin) % from.count();
  }
  // To whom it sends in `round`.
  std::vector<int> targets(int member, int round) const {
    std::vector<int> result;
    const Block to = sibling(member, round);
    for (int other = to.begin; other < to.end; ++other)
      if (source(other, round) == member) result.push_back(other);
    return result;
  }
};

}  // namespace stretto::comm
