// Splits the work of a reference over the team, when there is one.
#pragma once

#include <cstdint>

#include "stretto/base/team.h"

namespace stretto::ir::ops {

// Calls f(begin, end) on parts that cover [0, total), one part per thread; below `grain` items, or
// without a team, on the caller alone. f must not throw.
template <typename F>
void parallel(ThreadTeam* team, int64_t total, int64_t grain, F&& f) {
  if (team == nullptr || total < 2 * grain) {
    if (total > 0) f(int64_t{0}, total);
    return;
  }
  team->run([&](const Worker& worker) {
    const Range range = split(total, worker);
    if (range.begin < range.end) f(range.begin, range.end);
  });
}

}  // namespace stretto::ir::ops
