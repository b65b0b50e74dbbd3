#include "stretto/runtime/state_pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"

namespace stretto::runtime {
namespace {

// What an input's name holds, and what its output's name holds instead.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"past_key_values", "present_key_values"},
    {"past_key_values", "present"},
    {"past", "present"},
    {"cache", "new_cache"},
    {"cache", "cache_out"},
    {"_in", "_out"},
    {"state", "new_state"},
    {"state", "state_out"},
    {"h0", "hn"},
    {"c0", "cn"},
};

int find_name(const std::vector<ir::ValueId>& ids, const ir::Graph& graph,
              const std::string& name) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (graph.value(ids[i]).name == name) return static_cast<int>(i);
  }
  return -1;
}

std::vector<std::string> names_of(const ir::Graph& graph, const std::vector<ir::ValueId>& ids) {
  std::vector<std::string> names;
  for (ir::ValueId id : ids) names.push_back(graph.value(id).name);
  return names;
}

// The one of this name, else one that differs by dots in place of underscores: PyTorch programs
// have none in names of inputs.
const std::string* find_alike(const std::vector<std::string>& names, const std::string& name) {
  auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    const auto plain = [](char c) { return c == '.' ? '_' : c; };
    found = std::find_if(names.begin(), names.end(), [&](const std::string& other) {
      return std::ranges::equal(other, name, {}, plain, plain);
    });
  }
  return found == names.end() ? nullptr : &*found;
}

// The node that makes `id`, seen through Identity; -1: none.
int maker_of(const ir::Graph& graph, const ir::Links& links, ir::ValueId id) {
  int n = links.producer[static_cast<size_t>(id)];
  while (n >= 0 && graph.nodes[static_cast<size_t>(n)].op->name == "Identity") {
    n = links.producer[static_cast<size_t>(graph.nodes[static_cast<size_t>(n)].inputs[0])];
  }
  return n;
}

// The axis of Concat(past, new); nothing when `output` is made otherwise.
std::optional<int64_t> appended_axis(const ir::Graph& graph, const ir::Links& links,
                                     ir::ValueId past, ir::ValueId output) {
  const int n = maker_of(graph, links, output);
  if (n < 0) return std::nullopt;
  const ir::Node& node = graph.nodes[static_cast<size_t>(n)];
  if (node.op->name != "Concat" || node.inputs.size() != 2 || node.inputs[0] != past) {
    return std::nullopt;
  }
  const auto rank = static_cast<int64_t>(graph.value(past).shape->size());
  return normalize_axis(node.attributes.integer("axis", 0), rank, node.name);
}

}  // namespace

std::map<std::string, std::string> find_pairs(const std::vector<std::string>& inputs,
                                              const std::vector<std::string>& outputs) {
  std::map<std::string, std::string> pairs;
  for (const std::string& input : inputs) {
    for (const auto& [from, to] : kNames) {
      // In "conv_in.past_in" it is the last of two.
      for (size_t at = input.rfind(from); at != std::string::npos;
           at = at == 0 ? std::string::npos : input.rfind(from, at - 1)) {
        std::string output = input;
        output.replace(at, from.size(), to);
        const std::string* found = find_alike(outputs, output);
        if (found == nullptr) continue;
        pairs.emplace(input, *found);
        break;
      }
    }
  }
  return pairs;
}

std::vector<StatePair> describe_pairs(const ir::Graph& graph,
                                      const std::map<std::string, std::string>& pairs) {
  const ir::Links links(graph);
  std::vector<StatePair> result;
  for (const auto& [input, output] : pairs) {
    StatePair pair{.input = input,
                   .output = output,
                   .input_index = find_name(graph.inputs, graph, input),
                   .output_index = find_name(graph.outputs, graph, output)};
    if (pair.input_index < 0) {
      throw_invalid("state: {}: the model has no such input; it has {}", input,
                    fmt::join(names_of(graph, graph.inputs), ", "));
    }
    if (pair.output_index < 0) {
      throw_invalid("state: {}: the model has no such output; it has {}", output,
                    fmt::join(names_of(graph, graph.outputs), ", "));
    }
    for (const StatePair& other : result) {
      if (other.output != output) continue;
      throw_invalid("state: {} is named for {} and for {}; an output becomes one input", output,
                    other.input, input);
    }
    const ir::ValueId from = graph.inputs[static_cast<size_t>(pair.input_index)];
    const ir::ValueId to = graph.outputs[static_cast<size_t>(pair.output_index)];
    const auto axis = appended_axis(graph, links, from, to);
    const ir::Value &before = graph.value(from), &after = graph.value(to);
    if (axis && *axis > 0) {
      pair.axis = *axis;
    } else if (before.shape != after.shape || before.dtype != after.dtype) {
      throw_invalid(
          "state: {} is {} {} and {} is {} {}: expected the same, or an output that is "
          "Concat({}, new) along an axis behind the batch",
          input, dtype_name(before.dtype), shape_text(*before.shape), output,
          dtype_name(after.dtype), shape_text(*after.shape), input);
    }
    result.push_back(std::move(pair));
  }
  return result;
}

namespace {

// Exporters write what attention reads and what the model returns apart. All become what node `n`
// makes, unless they are outputs as well.
void merge_with(ir::Graph& graph, size_t n) {
  const ir::Node kept = graph.nodes[n];
  for (const ir::Node& other : graph.nodes) {
    const bool equal = other.op == kept.op && other.inputs == kept.inputs &&
                       other.attributes.integer("axis", 0) == kept.attributes.integer("axis", 0);
    if (!equal || &other == &graph.nodes[n]) continue;
    for (ir::Node& reader : graph.nodes) {
      std::replace(reader.inputs.begin(), reader.inputs.end(), other.outputs[0], kept.outputs[0]);
    }
  }
}

}  // namespace

void append_in_place(ir::Graph& graph, const std::vector<StatePair>& pairs, int64_t rows,
                     int64_t places) {
  std::vector<ir::ValueId> gone;
  const std::vector<ir::ValueId> outputs = graph.outputs;
  for (const StatePair& pair : pairs) {
    if (pair.axis < 0) continue;
    const ir::Links links(graph);
    const ir::ValueId past = graph.inputs[static_cast<size_t>(pair.input_index)];
    const ir::ValueId present = outputs[static_cast<size_t>(pair.output_index)];
    if (appended_axis(graph, links, past, present) != pair.axis) {
      throw_unsupported("state: {} is not Concat({}, new) with these shapes", pair.output,
                        pair.input);
    }
    const int n = maker_of(graph, links, present);
    const Shape used = *graph.value(past).shape;
    const auto axis = static_cast<size_t>(pair.axis);
    const ir::ValueId added = graph.nodes[static_cast<size_t>(n)].inputs[1];
    if (graph.value(added).shape->at(axis) != places) {
      throw_unsupported("state: {} gets {} places for {} new ones, and contexts count one for each",
                        pair.output, graph.value(added).shape->at(axis), places);
    }
    merge_with(graph, static_cast<size_t>(n));
    graph.value(past).shape->at(axis) = rows;
    // Other readers see the places that are used.
    ir::ValueId part = ir::kNone;
    const size_t count = graph.nodes.size();
    for (size_t i = 0; i < count; ++i) {
      if (static_cast<int>(i) == n) continue;
      for (size_t in = 0; in < graph.nodes[i].inputs.size(); ++in) {
        if (graph.nodes[i].inputs[in] != past) continue;
        if (part == ir::kNone) {
          const auto number = [&](int64_t value) {
            const int64_t values[] = {value};
            return graph.add_constant(pair.input + ".part", Tensor::int64s(values));
          };
          std::vector<ir::ValueId> inputs{past, number(0), number(used[axis]), number(pair.axis)};
          part = graph.add_value(pair.input + ".used", graph.value(past).dtype, used);
          graph.add_node("Slice", std::move(inputs), {part}, {}, pair.input + ".used");
        }
        graph.nodes[i].inputs[in] = part;
      }
    }
    ir::Node& node = graph.nodes[static_cast<size_t>(n)];
    node.op = ir::find_operator("stretto.Append");
    node.attributes = {};
    node.attributes.set("axis", pair.axis);
    node.attributes.set("length", used[axis]);
    gone.push_back(present);
  }
  std::erase_if(graph.outputs, [&](ir::ValueId id) {
    return std::find(gone.begin(), gone.end(), id) != gone.end();
  });
  ir::sort(graph);
  ir::infer(graph);
}

}  // namespace stretto::runtime
