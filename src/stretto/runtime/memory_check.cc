#include "stretto/runtime/memory_check.h"

#include <fmt/format.h>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"

namespace stretto::runtime {
namespace {

std::string gib(int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (int64_t{1} << 30));
}

// At most 2^40 elements of 8 bytes: no overflow.
int64_t tensor_bytes(DType dtype, const Shape& shape) {
  return element_count(shape) * static_cast<int64_t>(dtype_bytes(dtype));
}

}  // namespace

void check_memory(const ir::Graph& graph, int64_t limit) {
  const auto check = [&](const std::string& maker, ir::ValueId id) {
    const ir::Value& value = graph.value(id);
    const int64_t bytes = tensor_bytes(value.dtype, *value.shape);
    if (bytes <= limit) return;
    throw_unsupported("{} {} would be {} {}: {}, and this machine has {}", maker, value.name,
                      dtype_name(value.dtype), shape_text(*value.shape), gib(bytes), gib(limit));
  };
  for (ir::ValueId id : graph.inputs) check("input", id);
  for (const ir::Node& node : graph.nodes) {
    for (ir::ValueId id : node.outputs) {
      if (id != ir::kNone) check(fmt::format("{} \"{}\": output", node.op->name, node.name), id);
    }
  }
}

void check_memory(const Program& program, int64_t limit) {
  // Doubles, because many tensors that fit one by one may not add up in 64 bits.
  double faces = 0;
  for (const auto* list : {&program.inputs, &program.outputs}) {
    for (const TensorSpec& spec : *list) {
      faces += static_cast<double>(tensor_bytes(spec.dtype, spec.shape));
    }
  }
  const double sum = static_cast<double>(program.arena_bytes) +
                     static_cast<double>(program.weight_bytes()) + faces;
  if (sum <= static_cast<double>(limit)) return;
  throw_unsupported(
      "a session needs {} for activations, {} for weights and {} for inputs and outputs, and this "
      "machine has {}",
      gib(program.arena_bytes), gib(program.weight_bytes()), gib(static_cast<int64_t>(faces)),
      gib(limit));
}

}  // namespace stretto::runtime
