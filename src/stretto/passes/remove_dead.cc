// Drops what no output needs.
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

void run(ir::Graph& graph, PassContext&) { ir::remove_dead(graph); }

}  // namespace

const Pass kRemoveDead{.name = "remove-dead",
                       .summary = "drop nodes and values that no output needs",
                       .rules = {},
                       .run = run};

}  // namespace stretto::passes
