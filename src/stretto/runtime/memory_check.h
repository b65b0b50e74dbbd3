// Refuses models that do not fit into this machine's memory, before anything large is allocated.
#pragma once

#include <cstdint>

#include "stretto/base/memory.h"
#include "stretto/runtime/program.h"

namespace stretto::runtime {

// Throws Unsupported naming the node (or input) and its value when a single tensor of the graph
// takes more than `limit` bytes. Shapes must be known.
void check_memory(const ir::Graph& graph, int64_t limit = total_memory_bytes());

// The same for what a session of the program holds: activations, weights, inputs and outputs.
void check_memory(const Program& program, int64_t limit = total_memory_bytes());

}  // namespace stretto::runtime
