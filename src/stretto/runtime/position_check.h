// Whether a model knows where its tokens stand when it runs in a context, whose window has places
// that are not used.
#pragma once

#include <memory>

#include "stretto/runtime/state_layout.h"

namespace stretto::runtime {

// A model without position_ids has to count by attention_mask. Runs one with three made-up places
// and then a fourth, in a context and with a past of just three, and throws InvalidArgument where
// the results differ by more than rounding. Models that cannot be run so are let through.
void check_positions(const Model& model, const std::shared_ptr<const StateLayout>& layout);

}  // namespace stretto::runtime
