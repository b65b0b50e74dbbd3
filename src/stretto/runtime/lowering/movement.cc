// Operators that move data without computing: transpose, concat, slice, pad, expand, gather.
#include <algorithm>

#include "stretto/kernels/concat_channels/problem.h"
#include "stretto/kernels/copy_region/problem.h"
#include "stretto/kernels/gather/problem.h"
#include "stretto/kernels/row_index/problem.h"
#include "stretto/kernels/transpose/problem.h"
#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {
namespace {

using kernels::ConcatChannelsProblem;
using kernels::CopyRegionProblem;

DType dtype_of(Lowering& l, ir::ValueId id) { return l.graph().value(id).dtype; }

// A copy_region step, plain. The builders throw Unsupported beyond their limits: then the reference
// runs.
template <typename Build>
bool add_copy(Lowering& l, const ir::Node& node, std::vector<ir::ValueId> inputs, ir::ValueId y,
              Build&& build) {
  try {
    const std::vector<Layout> plain(inputs.size(), Layout::kPlain);
    return l.add<CopyRegionProblem>(node, kernels::kCopyRegion, inputs, {y},
                                    {{build(), plain, {Layout::kPlain}}});
  } catch (const Unsupported&) {
    return false;
  }
}

// Ranges of channels of blocked images, one behind the other.
ConcatChannelsProblem channels_problem(Lowering& l, const Shape& y) {
  ConcatChannelsProblem p{};
  p.target = l.target();
  p.n = y[0];
  p.h = y[2];
  p.w = y[3];
  return p;
}

// Constant integers of input i, or nothing when absent.
std::vector<int64_t> integers(Lowering& l, const ir::Node& node, size_t i) {
  if (i >= node.inputs.size() || node.inputs[i] == ir::kNone) return {};
  return l.constant(node.inputs[i])->as_int64s();
}

bool known_from(Lowering& l, const ir::Node& node, size_t first) {
  for (size_t i = first; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != ir::kNone && l.constant(node.inputs[i]) == nullptr) return false;
  }
  return true;
}

// A step that copies either plainly or, for ranges of channels, in the blocked layout: two
// families, so the choice between them is made here and not by cost. Blocked wins for images, whose
// neighbours are convolutions.
bool add_channels(Lowering& l, const ir::Node& node, const std::vector<ir::ValueId>& inputs,
                  ir::ValueId y, const ConcatChannelsProblem& p) {
  const std::vector<Layout> blocked(inputs.size(), Layout::kBlocked);
  return l.add<ConcatChannelsProblem>(node, kernels::kConcatChannels, inputs, {y},
                                      {{p, blocked, {Layout::kBlocked}}});
}

}  // namespace

bool lower_transpose(Lowering& l, const ir::Node& node) {
  const Shape& x = l.shape(node.inputs[0]);
  Shape reversed;
  for (size_t i = x.size(); i-- > 0;) reversed.push_back(static_cast<int64_t>(i));
  const auto perm = node.attributes.integers("perm", reversed);
  try {
    const auto p = kernels::transpose_problem(l.target(), x, perm, dtype_of(l, node.inputs[0]));
    if (p.rank <= 1) return lower_view(l, node);
    return l.add<kernels::TransposeProblem>(node, kernels::kTranspose, {node.inputs[0]},
                                            {node.outputs[0]},
                                            {{p, {Layout::kPlain}, {Layout::kPlain}}});
  } catch (const Unsupported&) {
    return false;
  }
}

bool lower_concat(Lowering& l, const ir::Node& node) {
  const ir::ValueId y = node.outputs[0];
  if (node.inputs.size() == 1) return lower_view(l, node);
  if (join_in_place(l, node)) return true;
  const Shape& out = l.shape(y);
  const int64_t axis = normalize_axis(node.attributes.integer("axis", 0),
                                      static_cast<int64_t>(out.size()), node.name);
  if (out.size() == 4 && axis == 1 && l.is_float32(y) && out[1] <= INT32_MAX &&
      node.inputs.size() <= ConcatChannelsProblem::kMaxInputs) {
    ConcatChannelsProblem p = channels_problem(l, out);
    for (ir::ValueId id : node.inputs) {
      p.channels[p.inputs] = p.count[p.inputs] = static_cast<int32_t>(l.shape(id)[1]);
      ++p.inputs;
    }
    if (add_channels(l, node, node.inputs, y, p)) return true;
  }
  std::vector<Shape> shapes;
  for (ir::ValueId id : node.inputs) shapes.push_back(l.shape(id));
  return add_copy(l, node, node.inputs, y, [&] {
    return kernels::concat_problem(l.target(), dtype_of(l, y), shapes, axis);
  });
}

bool lower_append(Lowering& l, const ir::Node& node) {
  const auto& inputs = l.graph().inputs;
  const ir::ValueId memory = node.inputs[0], added = node.inputs[1], y = node.outputs[0];
  const Shape& shape = l.shape(memory);
  if (!l.options().append_in_place ||
      std::find(inputs.begin(), inputs.end(), memory) == inputs.end()) {
    return false;
  }
  const size_t rank = shape.size();
  const int64_t axis =
      normalize_axis(node.attributes.integer("axis", 0), static_cast<int64_t>(rank), node.name);
  Shape before(rank, 0);
  before[static_cast<size_t>(axis)] = node.attributes.integer("length", 0);
  const auto write = [&] {
    return kernels::write_problem(l.target(), dtype_of(l, memory), l.shape(added), before, shape);
  };
  if (!add_copy(l, node, {added}, memory, write)) return false;
  if (rank == 4 && axis == 2) l.set_memory(y, memory);
  // Attention reads the memory; everybody else gets a copy of what is used of it.
  const auto& nodes = l.graph().nodes;
  const bool needed =
      std::find(l.graph().outputs.begin(), l.graph().outputs.end(), y) != l.graph().outputs.end() ||
      std::any_of(nodes.begin(), nodes.end(), [&](const ir::Node& user) {
        const auto& in = user.inputs;
        const bool reads = std::find(in.begin(), in.end(), y) != in.end();
        const bool attends = user.op->name == "stretto.Attention" && l.is_float32(y) && rank == 4 &&
                             axis == 2 && in[0] != y && (in.size() < 4 || in[3] != y);
        return reads && !attends;
      });
  if (!needed) return true;
  return add_copy(l, node, {memory}, y, [&] {
    return kernels::slice_problem(l.target(), dtype_of(l, y), shape, Shape(rank, 0), Shape(rank, 1),
                                  l.shape(y));
  });
}

bool lower_slice(Lowering& l, const ir::Node& node) {
  if (!known_from(l, node, 1)) return false;
  // Memory that is appended to begins at any place, so views of it would not be aligned.
  const auto& inputs = l.graph().inputs;
  const bool memory = l.options().append_in_place &&
                      std::find(inputs.begin(), inputs.end(), node.inputs[0]) != inputs.end();
  if (!memory && slice_in_place(l, node)) return true;
  const Shape& x = l.shape(node.inputs[0]);
  const ir::ValueId y = node.outputs[0];
  const auto starts = integers(l, node, 1);
  auto axes = integers(l, node, 3);
  const auto steps = integers(l, node, 4);
  for (size_t i = axes.size(); i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  Shape start(x.size(), 0), step(x.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = normalize_axis(axes[i], static_cast<int64_t>(x.size()), node.name);
    const int64_t size = x[axis];
    step[axis] = steps.empty() ? 1 : steps[i];
    const int64_t from = starts[i] < 0 ? starts[i] + size : starts[i];
    start[axis] = std::clamp<int64_t>(from, 0, step[axis] < 0 ? size - 1 : size);
  }
  return add_copy(l, node, {node.inputs[0]}, y, [&] {
    return kernels::slice_problem(l.target(), dtype_of(l, y), x, start, step, l.shape(y));
  });
}

bool lower_split(Lowering& l, const ir::Node& node) {
  if (!known_from(l, node, 1)) return false;
  if (split_in_place(l, node)) return true;
  const Shape& x = l.shape(node.inputs[0]);
  const int64_t axis =
      normalize_axis(node.attributes.integer("axis", 0), static_cast<int64_t>(x.size()), node.name);
  Shape start(x.size(), 0);
  const Shape step(x.size(), 1);
  for (ir::ValueId y : node.outputs) {
    if (y == ir::kNone) return false;
  }
  for (ir::ValueId y : node.outputs) {
    const auto build = [&] {
      return kernels::slice_problem(l.target(), dtype_of(l, y), x, start, step, l.shape(y));
    };
    if (!add_copy(l, node, {node.inputs[0]}, y, build)) {
      // The first output decides: all slices have the same form.
      return false;
    }
    start[axis] += l.shape(y)[axis];
  }
  return true;
}

bool lower_pad(Lowering& l, const ir::Node& node) {
  if (!known_from(l, node, 1)) return false;
  const Shape& x = l.shape(node.inputs[0]);
  const ir::ValueId y = node.outputs[0];
  const auto pads = integers(l, node, 1);
  auto axes = integers(l, node, 3);
  // An empty list is no axis; an absent one is every axis.
  if (node.inputs.size() < 4 || node.inputs[3] == ir::kNone) {
    for (size_t i = 0; i < x.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  double value = 0;
  if (node.inputs.size() > 2 && node.inputs[2] != ir::kNone) {
    value = l.constant(node.inputs[2])->as_doubles()[0];
  }
  Shape before(x.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    before[normalize_axis(axes[i], static_cast<int64_t>(x.size()), node.name)] = pads[i];
  }
  return add_copy(l, node, {node.inputs[0]}, y, [&] {
    const std::string mode = node.attributes.text("mode", "constant");
    if (mode != "constant") {
      const auto extension = mode == "reflect" ? kernels::Extension::kReflect
                             : mode == "edge"  ? kernels::Extension::kEdge
                                               : kernels::Extension::kWrap;
      return kernels::extend_problem(l.target(), dtype_of(l, y), x, before, l.shape(y), extension);
    }
    return kernels::pad_problem(l.target(), dtype_of(l, y), x, before, l.shape(y), value);
  });
}

bool lower_expand(Lowering& l, const ir::Node& node) {
  const ir::ValueId y = node.outputs[0];
  if (l.shape(node.inputs[0]) == l.shape(y)) return lower_view(l, node);
  return add_copy(l, node, {node.inputs[0]}, y, [&] {
    return kernels::expand_problem(l.target(), dtype_of(l, y), l.shape(node.inputs[0]), l.shape(y));
  });
}

bool lower_gather(Lowering& l, const ir::Node& node) {
  const Shape& x = l.shape(node.inputs[0]);
  const int64_t axis =
      normalize_axis(node.attributes.integer("axis", 0), static_cast<int64_t>(x.size()), node.name);
  kernels::GatherProblem p{};
  p.target = l.target();
  p.axis = x[axis];
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    if (i < axis) p.outer *= x[i];
    if (i > axis) p.inner *= x[i];
  }
  p.indices = element_count(l.shape(node.inputs[1]));
  p.dtype = dtype_of(l, node.inputs[0]);
  p.index_dtype = dtype_of(l, node.inputs[1]);
  return l.add<kernels::GatherProblem>(node, kernels::kGather, {node.inputs[0], node.inputs[1]},
                                       {node.outputs[0]},
                                       {{p, {Layout::kPlain, Layout::kPlain}, {Layout::kPlain}}});
}

bool lower_row_index(Lowering& l, const ir::Node& node) {
  const Shape& mask = l.shape(node.inputs[0]);
  kernels::RowIndexProblem p{};
  p.target = l.target();
  p.batch = mask[0];
  p.length = mask[1];
  p.rows = node.attributes.integer("rows", 0);
  return l.add<kernels::RowIndexProblem>(node, kernels::kRowIndex, node.inputs, node.outputs,
                                         {{p, {Layout::kPlain}, std::vector(5, Layout::kPlain)}});
}

}  // namespace stretto::runtime
