#include "stretto/passes/view.h"

#include <algorithm>
#include <optional>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"

namespace stretto::passes {
namespace {

// Strides of the same elements under another shape; nothing when they would have to be copied.
std::optional<std::vector<int64_t>> reshaped_strides(const View& view, const Shape& shape) {
  Shape old;
  std::vector<int64_t> old_strides;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 1) continue;
    old.push_back(view.shape[i]);
    old_strides.push_back(view.strides[i]);
  }
  std::vector<int64_t> strides(shape.size(), 1);
  size_t from = 0, to = 0;
  // Runs of old axes and of new axes with equal products; each run of old ones must be dense.
  while (from < old.size() && to < shape.size()) {
    size_t from_end = from + 1, to_end = to + 1;
    int64_t a = old[from], b = shape[to];
    while (a != b) {
      if (b < a) {
        if (to_end == shape.size()) return std::nullopt;
        b *= shape[to_end++];
      } else {
        if (from_end == old.size()) return std::nullopt;
        a *= old[from_end++];
      }
    }
    for (size_t i = from; i + 1 < from_end; ++i) {
      if (old_strides[i] != old[i + 1] * old_strides[i + 1]) return std::nullopt;
    }
    int64_t stride = old_strides[from_end - 1];
    for (size_t i = to_end; i-- > to; stride *= shape[i]) strides[i] = stride;
    from = from_end;
    to = to_end;
  }
  return strides;
}

bool slice(const Rewriter& graph, int n, View& view) {
  const Node& node = graph.node(n);
  const auto starts = integers(graph, n, 1, "");
  const bool has_axes = node.inputs.size() > 3 && node.inputs[3] != kNone;
  const bool has_steps = node.inputs.size() > 4 && node.inputs[4] != kNone;
  const auto axes = integers(graph, n, 3, ""), steps = integers(graph, n, 4, "");
  if (!starts || (has_axes && !axes) || (has_steps && !steps)) return false;
  const auto rank = static_cast<int64_t>(view.shape.size());
  for (size_t i = 0; i < starts->size(); ++i) {
    const auto axis = static_cast<size_t>(
        normalize_axis(has_axes ? (*axes)[i] : static_cast<int64_t>(i), rank, "axes"));
    const int64_t step = has_steps ? (*steps)[i] : 1, length = view.shape[axis];
    if (step < 1) return false;
    const int64_t start = (*starts)[i] < 0 ? (*starts)[i] + length : (*starts)[i];
    view.offset += std::clamp<int64_t>(start, 0, length) * view.strides[axis];
    view.strides[axis] *= step;
  }
  view.shape = graph.shape(node.outputs[0]);
  return true;
}

bool split(const Rewriter& graph, const Node& node, ValueId id, View& view) {
  const auto rank = static_cast<int64_t>(view.shape.size());
  const auto axis =
      static_cast<size_t>(normalize_axis(node.attributes.integer("axis", 0), rank, "axis"));
  for (ValueId out : node.outputs) {
    if (out == id) break;
    // The length of an absent part is not known.
    if (out == kNone) return false;
    view.offset += graph.shape(out)[axis] * view.strides[axis];
  }
  view.shape = graph.shape(id);
  return true;
}

bool gather(const Rewriter& graph, const Node& node, View& view) {
  const Tensor* index = graph.constant(node.inputs[1]);
  if (index == nullptr || index->count() != 1) return false;
  const auto rank = static_cast<int64_t>(view.shape.size());
  const int64_t axis = normalize_axis(node.attributes.integer("axis", 0), rank, "axis");
  int64_t i = index->as_int64s()[0];
  const int64_t size = view.shape[static_cast<size_t>(axis)];
  if (i < 0) i += size;
  if (i < 0 || i >= size) return false;  // zeros come out, or an error: no view of the data
  view.offset += i * view.strides[static_cast<size_t>(axis)];
  view.shape.erase(view.shape.begin() + axis);
  view.strides.erase(view.strides.begin() + axis);
  view.shape.insert(view.shape.begin() + axis, static_cast<size_t>(index->rank()), 1);
  view.strides.insert(view.strides.begin() + axis, static_cast<size_t>(index->rank()), 1);
  return true;
}

// Applies the node that makes `id` to the view of its input.
bool apply(const Rewriter& graph, int n, ValueId id, View& view) {
  const Node& node = graph.node(n);
  const std::string_view op = node.op->name;
  if (op == "Transpose") {
    const View before = view;
    const auto perm = permutation(graph, n);
    for (size_t i = 0; i < perm.size(); ++i) {
      view.shape[i] = before.shape[static_cast<size_t>(perm[i])];
      view.strides[i] = before.strides[static_cast<size_t>(perm[i])];
    }
    return true;
  }
  if (op == "Reshape" || op == "Squeeze" || op == "Unsqueeze" || op == "Flatten") {
    auto strides = reshaped_strides(view, graph.shape(id));
    if (!strides) return false;
    view.shape = graph.shape(id);
    view.strides = std::move(*strides);
    return true;
  }
  if (op == "Identity") return true;
  if (op == "Slice") return slice(graph, n, view);
  if (op == "Split") return split(graph, node, id, view);
  if (op == "Gather") return gather(graph, node, view);
  const auto factor = with_scalar(graph, n);
  if (!factor) return false;
  view.scale = op == "Mul" ? view.scale * factor->c : view.scale / factor->c;
  return true;
}

// The input that a view passes through; kNone for other operators.
ValueId input_of(const Rewriter& graph, int n) {
  const Node& node = graph.node(n);
  const std::string_view op = node.op->name;
  for (std::string_view move : {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten",
                                "Identity", "Slice", "Split", "Gather"}) {
    if (op == move) return node.inputs[0];
  }
  if (op != "Mul" && op != "Div") return kNone;
  const auto factor = with_scalar(graph, n);
  return factor ? factor->x : kNone;
}

}  // namespace

View trace_view(const Rewriter& graph, ValueId id) {
  // Back to the first value that is no view, then forward again; where a step cannot be followed
  // the view starts over from there.
  std::vector<ValueId> chain{id};
  while (graph.constant(chain.back()) == nullptr && graph.producer(chain.back()) >= 0) {
    const ValueId before = input_of(graph, graph.producer(chain.back()));
    if (before == kNone) break;
    chain.push_back(before);
  }
  const auto dense = [&](ValueId source) {
    const Shape& shape = graph.shape(source);
    return View{.source = source, .shape = shape, .strides = row_major_strides(shape)};
  };
  View view = dense(chain.back());
  for (size_t i = chain.size() - 1; i-- > 0;) {
    if (!apply(graph, graph.producer(chain[i]), chain[i], view)) view = dense(chain[i]);
  }
  return view;
}

}  // namespace stretto::passes
