// Loop and Scan, turn by turn. Shapes are fixed, so the turns of a Scan are known; those of a Loop
// are where its trip count and its condition depend on constants only.
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/import/onnx/compose.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

Id element(Parts& parts, Id x, int64_t axis, int64_t at) {
  const Id place = parts.constant(Tensor::scalar<int64_t>(at));
  return parts.op("Gather", {x, place}, attribute("axis", axis));
}

Id stacked(Parts& parts, const std::vector<Id>& turns, int64_t axis) {
  std::vector<Id> rows;
  for (Id turn : turns) rows.push_back(parts.op("Unsqueeze", {turn, parts.integers({axis})}));
  return parts.concat(rows, axis);
}

// What stacks hold of a body that is never run: no rows of what it would make.
Id no_rows(Parts& parts, Id row, int64_t axis) {
  Shape shape = parts.shape(row);
  shape.insert(shape.begin() + axis, 0);
  return parts.constant(Tensor(parts.dtype(row), std::move(shape)));
}

struct ScanForm {
  size_t states = 0, inputs = 0, outputs = 0;  // outputs: those that are stacked
  std::vector<int64_t> input_axes, input_directions, output_axes, output_directions;
};

// The states after the last turn, then the stacked outputs.
std::vector<Id> scan(PendingNode& node, Parts& parts, const ScanForm& form, std::vector<Id> states,
                     const std::vector<Id>& inputs) {
  int64_t turns = -1;
  for (size_t i = 0; i < form.inputs; ++i) {
    const Shape& shape = parts.shape(inputs[i]);
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t length =
        shape.at(normalize_axis(form.input_axes[i], rank, node.op + ": scan_input_axes"));
    check(node, turns < 0 || turns == length, "its inputs have different lengths");
    turns = length;
  }
  std::vector<std::vector<Id>> stacks(form.outputs);
  for (int64_t turn = 0; turn < turns; ++turn) {
    check_interrupt();
    std::vector<Id> given = states;
    for (size_t i = 0; i < form.inputs; ++i) {
      const int64_t at = form.input_directions[i] == 0 ? turn : turns - 1 - turn;
      given.push_back(element(parts, inputs[i], form.input_axes[i], at));
    }
    const std::vector<Id> made = node.inline_graph("body", given);
    check(node, made.size() == form.states + form.outputs,
          "its body has another number of outputs");
    states.assign(made.begin(), made.begin() + static_cast<int64_t>(form.states));
    for (size_t i = 0; i < form.outputs; ++i) {
      const Id output = made[form.states + i];
      const bool front = form.output_directions[i] != 0;
      stacks[i].insert(front ? stacks[i].begin() : stacks[i].end(), output);
    }
  }
  std::vector<Id> unused;
  if (turns == 0 && form.outputs > 0) {
    std::vector<Id> given = states;
    for (size_t i = 0; i < form.inputs; ++i) {
      Shape shape = parts.shape(inputs[i]);
      shape.erase(shape.begin() +
                  normalize_axis(form.input_axes[i], static_cast<int64_t>(shape.size()), node.op));
      Tensor zeros(parts.dtype(inputs[i]), std::move(shape));
      std::memset(zeros.mutable_data(), 0, zeros.bytes());
      given.push_back(parts.constant(std::move(zeros)));
    }
    unused = node.inline_graph("body", given);
    check(node, unused.size() == form.states + form.outputs,
          "its body has another number of outputs");
  }
  for (size_t i = 0; i < form.outputs; ++i) {
    if (turns == 0) {
      const Id row = unused[form.states + i];
      const auto rank = static_cast<int64_t>(parts.shape(row).size()) + 1;
      states.push_back(no_rows(
          parts, row, normalize_axis(form.output_axes[i], rank, node.op + ": scan_output_axes")));
      continue;
    }
    const auto rank = static_cast<int64_t>(parts.shape(stacks[i][0]).size()) + 1;
    const int64_t axis = normalize_axis(form.output_axes[i], rank, node.op + ": scan_output_axes");
    states.push_back(stacked(parts, stacks[i], axis));
  }
  return states;
}

}  // namespace

void unroll_scan(PendingNode& node) {
  Parts parts(node);
  check(node, node.graphs.contains("body"), "attribute body is missing");
  const bool batched =
      node.opset < 9;  // then a first input holds lengths, and a batch is outermost
  if (batched && node.has_input(0)) node.unsupported("sequences of different lengths");
  const size_t first = batched ? 1 : 0;
  check(node, node.inputs.size() >= first, "expected inputs");
  const auto inputs = static_cast<int64_t>(node.inputs.size() - first);
  const int64_t scanned = node.attributes.integer("num_scan_inputs", 0);
  check(node, scanned >= 1 && scanned <= inputs, "num_scan_inputs: expected 1 to all inputs");
  for (size_t i = first; i < node.inputs.size(); ++i) {
    check(node, node.has_input(i), "an input is missing");
  }
  const auto states = static_cast<size_t>(inputs - scanned);
  check(node, node.output_count >= states, "expected an output per state");
  ScanForm form{.states = states,
                .inputs = static_cast<size_t>(scanned),
                .outputs = node.output_count - states};
  const auto list = [&](const char* name, size_t count) {
    std::vector<int64_t> values = node.attributes.integers(name, std::vector<int64_t>(count, 0));
    check(node, values.size() == count, std::string(name) + " has another number of values");
    return values;
  };
  form.input_axes = list("scan_input_axes", form.inputs);
  form.input_directions = list(batched ? "directions" : "scan_input_directions", form.inputs);
  form.output_axes = list("scan_output_axes", form.outputs);
  form.output_directions = list("scan_output_directions", form.outputs);
  const std::vector<Id> all(node.inputs.begin() + static_cast<int64_t>(first), node.inputs.end());
  const auto part = [&](const std::vector<Id>& ids, size_t begin, size_t count) {
    return std::vector<Id>(ids.begin() + static_cast<int64_t>(begin),
                           ids.begin() + static_cast<int64_t>(begin + count));
  };
  if (!batched) {
    node.results = scan(node, parts, form, part(all, 0, states), part(all, states, form.inputs));
    return;
  }
  check(node, !parts.shape(all[0]).empty(), "expected a batch");
  const int64_t batch = parts.shape(all[0])[0];
  if (batch == 0) node.unsupported("a batch of nothing");
  std::vector<std::vector<Id>> results;
  for (int64_t i = 0; i < batch; ++i) {
    std::vector<Id> one;
    for (Id id : all) one.push_back(element(parts, id, 0, i));
    results.push_back(
        scan(node, parts, form, part(one, 0, states), part(one, states, form.inputs)));
  }
  for (size_t i = 0; i < node.output_count; ++i) {
    std::vector<Id> column;
    for (const std::vector<Id>& row : results) column.push_back(row[i]);
    node.results.push_back(stacked(parts, column, 0));
  }
}

void unroll_loop(PendingNode& node) {
  Parts parts(node);
  check(node, node.graphs.contains("body"), "attribute body is missing");
  const auto known = [&](Id id, std::string_view what) {
    const ir::Value& value = node.emitter.value(id);
    if (!value.is_constant()) {
      node.not_straight(
          fmt::format("{} must be known when the model is optimised, but it depends "
                      "on the model's input values; export the model with the loop "
                      "unrolled",
                      what));
    }
    check(node, value.constant.count() == 1, std::string(what) + ": expected one value");
    return value.constant.as_int64s()[0];
  };
  const int64_t most = node.has_input(0) ? known(node.inputs[0], "the trip count") : INT64_MAX;
  bool goes_on = !node.has_input(1) || known(node.inputs[1], "the condition") != 0;
  std::vector<Id> carried;
  for (size_t i = 2; i < node.inputs.size(); ++i) {
    check(node, node.has_input(i), "an input is missing");
    carried.push_back(node.inputs[i]);
  }
  check(node, node.output_count >= carried.size(), "expected an output per carried value");
  std::vector<std::vector<Id>> stacks(node.output_count - carried.size());
  for (int64_t turn = 0; turn < most && goes_on; ++turn) {
    check_interrupt();
    std::vector<Id> given{parts.constant(Tensor::scalar<int64_t>(turn)),
                          parts.constant(Tensor::scalar<bool>(true))};
    given.insert(given.end(), carried.begin(), carried.end());
    const std::vector<Id> made = node.inline_graph("body", given);
    check(node, made.size() >= 1 + carried.size() + stacks.size(), "its body has too few outputs");
    goes_on = turn + 1 < most && known(made[0], "the condition") != 0;
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = made[1 + i];
    for (size_t i = 0; i < stacks.size(); ++i) stacks[i].push_back(made[1 + carried.size() + i]);
  }
  node.results = carried;
  if (stacks.empty()) return;
  if (stacks[0].empty()) {
    std::vector<Id> given{parts.constant(Tensor::scalar<int64_t>(0)),
                          parts.constant(Tensor::scalar<bool>(true))};
    given.insert(given.end(), carried.begin(), carried.end());
    const std::vector<Id> made = node.inline_graph("body", given);
    check(node, made.size() >= 1 + carried.size() + stacks.size(), "its body has too few outputs");
    for (size_t i = 0; i < stacks.size(); ++i) {
      node.results.push_back(no_rows(parts, made[1 + carried.size() + i], 0));
    }
    return;
  }
  for (const std::vector<Id>& stack : stacks) node.results.push_back(stacked(parts, stack, 0));
}

}  // namespace stretto::onnx
