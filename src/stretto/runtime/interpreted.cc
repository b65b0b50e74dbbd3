#include "stretto/runtime/interpreted.h"

#include <cstring>

#include "stretto/ir/interpreter.h"

namespace stretto::runtime {

void run_interpreted(const InterpretedNode& node, ThreadTeam& team,
                     std::span<const void* const> inputs, std::span<const void* const> outputs) {
  const ir::Graph& graph = node.graph;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::Value& value = graph.value(graph.inputs[i]);
    tensors.emplace_back(value.dtype, *value.shape, inputs[i], nullptr);
  }
  const std::vector<Tensor> results =
      ir::interpret(graph, tensors, {.float64 = false, .team = &team});
  for (size_t i = 0; i < results.size(); ++i) {
    std::memcpy(const_cast<void*>(outputs[i]), results[i].data(), results[i].bytes());
  }
}

}  // namespace stretto::runtime
