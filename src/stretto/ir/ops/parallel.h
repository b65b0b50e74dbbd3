// Splits the work of a reference over the team, when there is one.
#pragma once

#include <cstdint>

#include "stretto/base/function_ref.h"
#include "stretto/base/team.h"

namespace stretto::ir::ops {

// Calls f(begin, end) on parts that cover [0, total), several per thread; below `grain` items, or
// without a team, on the caller alone. f must not throw. Throws what check_interrupt() throws; not
// all parts are done then.
void parallel(ThreadTeam* team, int64_t total, int64_t grain,
              FunctionRef<void(int64_t begin, int64_t end)> f);

}  // namespace stretto::ir::ops
