// Which codec an operation has: its own, or that of the options where it may have one.
#pragma once

#include "stretto/comm/engine/named_residuals.h"
#include "stretto/comm/engine/operation.h"
#include "stretto/comm/engine/state.h"
#include "stretto/comm/options.h"

namespace stretto::comm {

// Whether the operation travels encoded.
bool is_coded(const Operation& operation, const Options& options);

// Sets the codec of an operation, and a residual from `residuals` where the codec needs one and the
// operation has a name and no residual of its own.
void choose_codec(OpenOperation& open, const Options& options, NamedResiduals* residuals);

}  // namespace stretto::comm
