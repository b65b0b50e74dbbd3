// Runs the nodes of a program that have no kernel.
#pragma once

#include <span>

#include "stretto/base/team.h"
#include "stretto/runtime/program.h"

namespace stretto::runtime {

// By the operator's reference on dense memory, which splits its work over the team itself.
// Allocates and may throw.
void run_interpreted(const InterpretedNode& node, ThreadTeam& team,
                     std::span<const void* const> inputs, std::span<const void* const> outputs);

}  // namespace stretto::runtime
