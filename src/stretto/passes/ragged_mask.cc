// What the mask of an attention does, found by evaluating it.
#include <algorithm>
#include <optional>

#include "stretto/ir/interpreter.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/ragged.h"

namespace stretto::passes {
namespace {

// Next to any unmasked score, exp() of a mask value this low is zero.
constexpr double kHidden = -1e4;

// Masks of all kinds. Samples of one mask differ, so that one that sees another's is found.
enum class Probe : uint8_t { kAll, kPrefix, kOtherPrefix, kOne, kAllButOne, kSuffix, kHoles };
constexpr Probe kProbes[] = {Probe::kAll,       Probe::kPrefix, Probe::kOtherPrefix, Probe::kOne,
                             Probe::kAllButOne, Probe::kSuffix, Probe::kHoles};

bool is_token(Probe probe, int64_t b, int64_t s, int64_t length) {
  const int64_t some = 1 + (b * 37 + length / 2) % length;
  switch (probe) {
    case Probe::kAll:
      return true;
    case Probe::kPrefix:
      return s < some;
    case Probe::kOtherPrefix:
      return s < 1 + (some + length / 3) % length;
    case Probe::kOne:
      return s == 0;
    case Probe::kAllButOne:
      return s + 1 < length;
    case Probe::kSuffix:
      return s >= length - some;
    case Probe::kHoles:
      return (s * 2654435761 + b * 40503) % 7 < 4;
  }
  return true;
}

// The nodes from `mask` and constants to `operand`; nothing when other inputs reach it.
std::optional<ir::Graph> graph_between(const ir::Graph& graph, ir::ValueId operand,
                                       ir::ValueId mask) {
  const ir::Links links(graph);
  std::vector<bool> needed(graph.nodes.size());
  std::vector<ir::ValueId> open{operand};
  bool reached = false;
  while (!open.empty()) {
    const ir::ValueId id = open.back();
    open.pop_back();
    if (id == mask) {
      reached = true;
      continue;
    }
    if (graph.value(id).is_constant()) continue;
    const int n = links.producer[static_cast<size_t>(id)];
    if (n < 0) return std::nullopt;
    if (needed[static_cast<size_t>(n)]) continue;
    needed[static_cast<size_t>(n)] = true;
    for (ir::ValueId input : graph.nodes[static_cast<size_t>(n)].inputs) {
      if (input != ir::kNone) open.push_back(input);
    }
  }
  if (!reached) return std::nullopt;
  ir::Graph between;
  between.name = graph.name;
  between.values = graph.values;
  for (size_t n = 0; n < needed.size(); ++n) {
    if (needed[n]) between.nodes.push_back(graph.nodes[n]);
  }
  between.inputs = {mask};
  between.outputs = {operand};
  ir::sort(between);  // inserted nodes stand at the end
  ir::remove_dead(between);
  return between;
}

Tensor probe_tensor(Probe probe, DType dtype, const Shape& shape) {
  Tensor tensor(DType::kInt64, shape);
  const auto values = tensor.mutable_values<int64_t>();
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t s = 0; s < shape[1]; ++s) {
      values[static_cast<size_t>(b * shape[1] + s)] = is_token(probe, b, s, shape[1]) ? 1 : 0;
    }
  }
  return tensor.converted(dtype);
}

// `shape` is that of `values`, with four dimensions, each of which may be broadcast.
bool hides(Probe probe, const Shape& mask, const Shape& shape, std::span<const float> values) {
  const int64_t batch = mask[0], length = mask[1];
  const auto strides = row_major_strides(shape);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < shape[1]; ++h) {
      for (int64_t i = 0; i < shape[2]; ++i) {
        if (shape[2] > 1 && !is_token(probe, b, i, length)) continue;
        const int64_t row = (shape[0] > 1 ? b * strides[0] : 0) + h * strides[1] + i * strides[2];
        for (int64_t j = 0; j < length; ++j) {
          const float value = values[static_cast<size_t>(row + (shape[3] > 1 ? j : 0))];
          const bool right = is_token(probe, b, j, length) ? value == 0 : value <= kHidden;
          if (!right) return false;
        }
      }
    }
  }
  return true;
}

}  // namespace

bool hides_padding(const ir::Graph& graph, ir::ValueId operand, ir::ValueId mask) {
  const ir::Links links(graph);
  // What is repeated before it is added is the same before.
  for (int n = links.producer[static_cast<size_t>(operand)];
       n >= 0 && graph.nodes[static_cast<size_t>(n)].op->name == "Expand";
       n = links.producer[static_cast<size_t>(operand)]) {
    operand = graph.nodes[static_cast<size_t>(n)].inputs[0];
  }
  const Shape& given = *graph.value(operand).shape;
  const ir::Value& input = graph.value(mask);
  if (given.size() > 4 || graph.value(operand).dtype != DType::kFloat32) return false;
  Shape shape(4, 1);
  std::copy(given.begin(), given.end(), shape.end() - static_cast<int64_t>(given.size()));
  const auto between = graph_between(graph, operand, mask);
  if (!between) return false;
  return std::all_of(std::begin(kProbes), std::end(kProbes), [&](Probe probe) {
    const Tensor fed = probe_tensor(probe, input.dtype, *input.shape);
    const Tensor made = ir::interpret(*between, {&fed, 1})[0];
    return hides(probe, *input.shape, shape, made.values<float>());
  });
}

}  // namespace stretto::passes
