// For prompts, of which a decoder's caller wants the logits of the last place only.
#pragma once

#include "stretto/ir/graph.h"

namespace stretto::runtime {

// Makes the output with this index [batch, 1, ...] instead of [batch, places, ...]: where a product
// with a matrix makes it, and elementwise operators after that, only the last row of each sample is
// multiplied. The other outputs stay as they are. Shapes must be known. False when the output is
// made otherwise: the graph is as before.
bool keep_last_place(ir::Graph& graph, size_t output);

}  // namespace stretto::runtime
