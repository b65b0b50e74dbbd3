// Concat and Split along the outermost axis that is not 1: no copies, only places in memory.
#include <algorithm>

#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {
namespace {

bool outermost(const Shape& shape, int64_t axis) {
  for (int64_t i = 0; i < axis; ++i) {
    if (shape[i] != 1) return false;
  }
  return true;
}

int64_t inner_count(const Shape& shape, int64_t axis) {
  int64_t count = 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < shape.size(); ++i) count *= shape[i];
  return count;
}

}  // namespace

bool join_in_place(Lowering& l, const ir::Node& node) {
  const ir::ValueId y = node.outputs[0];
  const int64_t rank = static_cast<int64_t>(l.shape(y).size());
  const int64_t axis = normalize_axis(node.attributes.integer("axis", 0), rank, node.name);
  if (!outermost(l.shape(y), axis)) return false;
  bool blocked = rank == 4 && axis == 1 && l.is_float32(y);
  for (size_t i = 0; i + 1 < node.inputs.size(); ++i) {
    blocked = blocked && l.shape(node.inputs[i])[1] % l.target().block() == 0;
  }
  l.add_join(node, node.inputs, y, blocked);
  return true;
}

bool split_in_place(Lowering& l, const ir::Node& node) {
  const ir::ValueId x = node.inputs[0];
  const int64_t rank = static_cast<int64_t>(l.shape(x).size());
  const int64_t axis = normalize_axis(node.attributes.integer("axis", 0), rank, node.name);
  if (!outermost(l.shape(x), axis)) return false;
  const int64_t inner = inner_count(l.shape(x), axis);
  const bool image = rank == 4 && axis == 1 && l.is_float32(x);
  int64_t start = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ir::ValueId y = node.outputs[i];
    if (y == ir::kNone) return false;
    std::vector<std::pair<Layout, Layout>> also;
    const int64_t size = l.shape(y)[axis];
    const bool whole = start % l.target().block() == 0 &&
                       (size % l.target().block() == 0 || i + 1 == node.outputs.size());
    if (image && whole) also.emplace_back(Layout::kBlocked, Layout::kBlocked);
    l.add_view(node, x, y, start * inner, std::move(also));
    start += size;
  }
  return true;
}

bool slice_in_place(Lowering& l, const ir::Node& node) {
  const ir::ValueId x = node.inputs[0], y = node.outputs[0];
  const Shape& from = l.shape(x);
  const Shape& to = l.shape(y);
  // One axis sliced with step 1, everything outside it of size 1.
  const auto integers = [&](size_t i) -> std::vector<int64_t> {
    if (i >= node.inputs.size() || node.inputs[i] == ir::kNone) return {};
    return l.constant(node.inputs[i])->as_int64s();
  };
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != ir::kNone && l.constant(node.inputs[i]) == nullptr) return false;
  }
  const auto starts = integers(1);
  auto axes = integers(3);
  const auto steps = integers(4);
  for (size_t i = axes.size(); i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  int64_t offset = 0;
  bool blocked = from.size() == 4 && l.is_float32(x);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = normalize_axis(axes[i], static_cast<int64_t>(from.size()), node.name);
    if (!steps.empty() && steps[i] != 1) return false;
    if (from[axis] == to[axis]) continue;
    if (!outermost(to, axis)) return false;
    const int64_t start =
        std::clamp<int64_t>(starts[i] < 0 ? starts[i] + from[axis] : starts[i], 0, from[axis]);
    offset += start * inner_count(from, axis);
    const bool whole = start % l.target().block() == 0 &&
                       (to[axis] % l.target().block() == 0 || start + to[axis] == from[axis]);
    blocked = blocked && axis == 1 && from[0] == 1 && whole;
  }
  std::vector<std::pair<Layout, Layout>> also;
  if (blocked) also.emplace_back(Layout::kBlocked, Layout::kBlocked);
  l.add_view(node, x, y, offset, std::move(also));
  return true;
}

}  // namespace stretto::runtime
