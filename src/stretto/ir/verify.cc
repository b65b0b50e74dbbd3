#include <set>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/operator.h"

namespace stretto::ir {

void verify(const Graph& graph) {
  const auto count = static_cast<ValueId>(graph.values.size());
  std::vector<bool> ready(graph.values.size(), false);
  std::set<std::string_view> names;
  for (ValueId id = 0; id < count; ++id) {
    check_interrupt();
    const Value& value = graph.value(id);
    STRETTO_CHECK(!value.name.empty() && names.insert(value.name).second,
                  "{}: value name '{}' is empty or used twice", graph.name, value.name);
    if (value.is_constant()) {
      ready[id] = true;
      STRETTO_CHECK(value.shape && *value.shape == value.constant.shape() &&
                        value.dtype == value.constant.dtype(),
                    "{}: constant {} does not match its declared type and shape", graph.name,
                    value.name);
    }
  }
  const auto in_range = [&](ValueId id) { return id >= 0 && id < count; };
  for (ValueId id : graph.inputs) {
    STRETTO_CHECK(in_range(id), "{}: input id {} out of range", graph.name, id);
    STRETTO_CHECK(!ready[id], "{}: input {} is given twice or is a constant", graph.name,
                  graph.value(id).name);
    ready[id] = true;
  }
  // Nodes may not make inputs either: those are the caller's memory.
  std::vector<bool> made(graph.values.size(), false);
  for (ValueId id : graph.inputs) made[id] = true;
  for (const Node& node : graph.nodes) {
    check_interrupt();
    STRETTO_CHECK(node.op != nullptr && !node.name.empty(), "{}: node without operator or name",
                  graph.name);
    for (ValueId id : node.inputs) {
      if (id == kNone) continue;
      STRETTO_CHECK(in_range(id), "{}: input id {} out of range", node.name, id);
      STRETTO_CHECK(ready[id], "{} \"{}\": uses {} before it is made", node.op->name, node.name,
                    graph.value(id).name);
    }
    for (ValueId id : node.outputs) {
      if (id == kNone) continue;
      STRETTO_CHECK(in_range(id), "{}: output id {} out of range", node.name, id);
      STRETTO_CHECK(!made[id], "{}: {} is made twice", node.name, graph.value(id).name);
      made[id] = ready[id] = true;
    }
    try {
      check_schema(graph, node);
    } catch (const InvalidArgument& error) {
      throw InternalError(error.what());
    }
  }
  for (ValueId id : graph.outputs) {
    STRETTO_CHECK(in_range(id) && ready[id], "{}: graph output {} is never made", graph.name, id);
  }
}

}  // namespace stretto::ir
