// Whose input is searched for NaN and infinity, and when. There are three ways:
// - ahead: by submit(), without the engine's lock, in parts of any places;
// - before it begins: small ones, and all that their pieces have brought;
// - by units (units.h), so that sending begins at once and the data are still in the cache: before
//   each unit begins, or by the steps that read it.
#pragma once

#include <cstddef>

#include "stretto/base/cpu.h"
#include "stretto/comm/engine/operation.h"
#include "stretto/comm/engine/state.h"
#include "stretto/comm/options.h"
#include "stretto/comm/reduce/scan.h"

namespace stretto::comm {

bool is_searched(const Operation& operation, const Options& options);

// Whether its whole input is searched before it begins, and is so large that this must not keep the
// engine's lock. `ranks`: of its group.
bool is_searched_ahead(const Operation& operation, size_t ranks, const Options& options);

// Whether the steps of its units search it, if their schedule can (OpenOperation::searches). Its
// codec and residual have been chosen.
bool is_searched_by_steps(const OpenOperation& open, const Options& options);

// What the input holds. Places are counted as if its parts followed one another.
NonFinite search_input(const Operation& operation, size_t ranks, Isa isa);

// For an operation that is_searched() and has a plan: leaves it to its units
// (OpenOperation::scans), or takes what was found ahead, or searches it and its pieces now. True
// when something was found.
bool search_before_begin(OpenOperation& open, size_t ranks, Isa isa);

}  // namespace stretto::comm
