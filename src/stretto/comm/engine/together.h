// Operations that all ranks submit together. Small all-reduces among them become pieces of one
// operation: many messages and many bookkeepings less, and nobody has to find out what the others
// have submitted (fusion.h).
#pragma once

#include <cstddef>
#include <vector>

#include "stretto/comm/engine/operation.h"
#include "stretto/comm/engine/state.h"
#include "stretto/comm/options.h"

namespace stretto::comm {

struct Together {
  Operation operation;
  std::vector<Piece> pieces;   // empty: it is one operation
  std::vector<size_t> places;  // in the list that was submitted
};

// Adds an operation to the first that it fits, which all ranks find in the same way. At most `most`
// fit together. `ranks`: of the group.
void gather(std::vector<Together>& gathered, Operation&& operation, size_t place, size_t most,
            size_t ranks, const Options& options);

}  // namespace stretto::comm
