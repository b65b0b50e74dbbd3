// Operators that copy elements through other strides: DepthToSpace, Expand, Slice, SpaceToDepth,
// Tile, Transpose.
#include <algorithm>
#include <numeric>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/strided.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kInt64 = type_bit(DType::kInt64);
constexpr Port kData[] = {{"data", kStoredTypes, Arity::kRequired, 'T'}};
constexpr Port kOutputs[] = {{"output", kStoredTypes, Arity::kRequired, 'T'}};

void copy(Evaluation& c, int64_t offset, Shape shape, Strides strides) {
  Tensor& out = make_output_like(c, 0, c.inputs[0]);
  copy_strided(c.inputs[0], offset, std::move(shape), std::move(strides), out, c.team);
}

// Output axis i is axis perm[i] of `shape`.
void copy_permuted(Evaluation& c, const Shape& shape, const std::vector<int64_t>& perm) {
  const Strides dense = row_major_strides(shape);
  Shape to;
  Strides strides;
  for (int64_t axis : perm) {
    to.push_back(shape[axis]);
    strides.push_back(dense[axis]);
  }
  copy(c, 0, std::move(to), std::move(strides));
}

constexpr AttributeSpec kTransposeAttributes[] = {{"perm", AttributeKind::kInts}};

// Absent: all axes reversed.
std::vector<int64_t> permutation(const Attributes& attributes, int64_t rank) {
  std::vector<int64_t> reversed(static_cast<size_t>(rank));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  std::vector<int64_t> perm = attributes.integers("perm", reversed);
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  if (sorted != reversed) {
    throw_invalid("perm: expected each of the {} axes once, got {}", rank, shape_text(perm));
  }
  return perm;
}

void infer_transpose(Inference& c) {
  Shape to;
  for (int64_t axis : permutation(c.attributes(), c.rank(0))) to.push_back(c.shape(0)[axis]);
  c.set_output(0, c.dtype(0), std::move(to));
}

void evaluate_transpose(Evaluation& c) {
  copy_permuted(c, c.inputs[0].shape(), permutation(c.attributes, c.inputs[0].rank()));
}

constexpr Port kExpandInputs[] = {kData[0], {"shape", kInt64}};

void infer_expand(Inference& c) {
  c.set_output(0, c.dtype(0), broadcast(c.shape(0), c.constant_integers(1, "shape")));
}

void evaluate_expand(Evaluation& c) {
  copy(c, 0, c.output_shapes[0], broadcast_strides(c.inputs[0].shape(), c.output_shapes[0]));
}

constexpr Port kTileInputs[] = {kData[0], {"repeats", kInt64}};

void infer_tile(Inference& c) {
  const std::vector<int64_t> repeats = c.constant_integers(1, "repeats");
  Shape to = c.shape(0);
  if (repeats.size() != to.size()) {
    throw_invalid("repeats: expected {} values, one per axis, got {}", to.size(), repeats.size());
  }
  for (size_t i = 0; i < to.size(); ++i) {
    if (repeats[i] < 0 || repeats[i] > kMaxElements / std::max<int64_t>(to[i], 1)) {
      throw_invalid("repeats: {} copies of {} elements are not possible", repeats[i], to[i]);
    }
    to[i] *= repeats[i];
  }
  c.set_output(0, c.dtype(0), std::move(to));
}

void evaluate_tile(Evaluation& c) {
  const Shape& from = c.inputs[0].shape();
  const Strides dense = row_major_strides(from);
  Shape shape;
  Strides strides;
  for (size_t i = 0; i < from.size(); ++i) {
    shape.push_back(from[i] == 0 ? 0 : c.output_shapes[0][i] / from[i]);
    strides.push_back(0);
    shape.push_back(from[i]);
    strides.push_back(dense[i]);
  }
  copy(c, 0, std::move(shape), std::move(strides));
}

constexpr Port kSliceInputs[] = {kData[0],
                                 {"starts", kIndexTypes, Arity::kRequired, 'I'},
                                 {"ends", kIndexTypes, Arity::kRequired, 'I'},
                                 {"axes", kIndexTypes, Arity::kOptional, 'I'},
                                 {"steps", kIndexTypes, Arity::kOptional, 'I'}};

// Where a slice begins, how it steps and how many elements it takes, for every axis of the data.
struct SlicePlan {
  std::vector<int64_t> start, step;
  Shape shape;
};

SlicePlan plan_slice(const Shape& data, const std::vector<int64_t>& starts,
                     const std::vector<int64_t>& ends, std::vector<int64_t> axes,
                     std::vector<int64_t> steps) {
  const auto rank = static_cast<int64_t>(data.size());
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    throw_invalid("starts, ends, axes, steps: expected equal lengths, got {}, {}, {}, {}",
                  starts.size(), ends.size(), axes.size(), steps.size());
  }
  axes = normalized_axes(std::move(axes), rank);
  SlicePlan plan{std::vector<int64_t>(data.size(), 0), std::vector<int64_t>(data.size(), 1), data};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i], dim = data[axis], step = steps[i];
    if (step == 0) throw_invalid("steps: expected a non-zero step for axis {}, got 0", axis);
    // A backward slice may end before element 0, which is position -1.
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
    const auto place = [&](int64_t at) {
      return std::clamp(at < 0 ? at + dim : at, low, std::max(high, low));
    };
    const int64_t begin = std::max<int64_t>(starts[i], -kMaxElements - dim);
    const int64_t first = std::max<int64_t>(place(begin), 0);
    const int64_t last = place(std::max<int64_t>(ends[i], -kMaxElements - dim));
    const int64_t span = step > 0 ? last - first : first - last;
    const int64_t stride = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
    plan.start[axis] = first;
    plan.step[axis] = step;
    plan.shape[axis] = dim == 0 || span <= 0 ? 0 : (span - 1) / stride + 1;
  }
  return plan;
}

void infer_slice(Inference& c) {
  const auto optional = [&](int i, std::string_view what) {
    return c.has_input(i) ? c.constant_integers(i, what) : std::vector<int64_t>();
  };
  c.set_output(0, c.dtype(0),
               plan_slice(c.shape(0), c.constant_integers(1, "starts"),
                          c.constant_integers(2, "ends"), optional(3, "axes"), optional(4, "steps"))
                   .shape);
}

void evaluate_slice(Evaluation& c) {
  const auto optional = [&](int i) {
    return c.has_input(i) ? c.inputs[i].as_int64s() : std::vector<int64_t>();
  };
  const Shape& data = c.inputs[0].shape();
  const SlicePlan plan =
      plan_slice(data, c.inputs[1].as_int64s(), c.inputs[2].as_int64s(), optional(3), optional(4));
  Strides strides = row_major_strides(data);
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    offset += plan.start[i] * strides[i];
    // An axis of one element needs no step, and a huge one could overflow.
    strides[i] = plan.shape[i] <= 1 ? 0 : strides[i] * plan.step[i];
  }
  if (element_count(plan.shape) == 0) offset = 0;
  copy(c, offset, plan.shape, std::move(strides));
}

constexpr AttributeSpec kBlockAttributes[] = {{"blocksize", AttributeKind::kInt, true},
                                              {"mode", AttributeKind::kString}};

int64_t block_of(const Inference& c) {
  const int64_t block = c.attributes().integer("blocksize", 0);
  if (block < 1 || block > (1 << 20)) {
    throw_invalid("blocksize: expected a positive number, got {}", block);
  }
  if (c.rank(0) != 4) {
    throw_invalid("input: expected shape [n, c, h, w], got {}", shape_text(c.shape(0)));
  }
  const std::string mode = c.attributes().text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") throw_invalid("mode: expected DCR or CRD, got {}", mode);
  return block;
}

// Whether the block's position comes before the depth in the channel axis.
bool depth_last(const Attributes& attributes) { return attributes.text("mode", "DCR") == "DCR"; }

void infer_depth_to_space(Inference& c) {
  const int64_t block = block_of(c);
  const Shape& x = c.shape(0);
  if (x[1] % (block * block) != 0) {
    throw_invalid("blocksize: {} channels cannot be divided into blocks of {}x{}", x[1], block,
                  block);
  }
  c.set_output(0, c.dtype(0), {x[0], x[1] / (block * block), x[2] * block, x[3] * block});
}

void evaluate_depth_to_space(Evaluation& c) {
  const Shape& x = c.inputs[0].shape();
  const int64_t block = c.attributes.integer("blocksize", 1), depth = c.output_shapes[0][1];
  if (depth_last(c.attributes)) {
    copy_permuted(c, {x[0], block, block, depth, x[2], x[3]}, {0, 3, 4, 1, 5, 2});
  } else {
    copy_permuted(c, {x[0], depth, block, block, x[2], x[3]}, {0, 1, 4, 2, 5, 3});
  }
}

void infer_space_to_depth(Inference& c) {
  const int64_t block = block_of(c);
  const Shape& x = c.shape(0);
  if (x[2] % block != 0 || x[3] % block != 0) {
    throw_invalid("blocksize: image {}x{} cannot be divided into blocks of {}", x[2], x[3], block);
  }
  if (x[1] > kMaxElements / (block * block)) {
    throw_invalid("blocksize: {} channels cannot take blocks of {}x{}", x[1], block, block);
  }
  c.set_output(0, c.dtype(0), {x[0], x[1] * block * block, x[2] / block, x[3] / block});
}

void evaluate_space_to_depth(Evaluation& c) {
  const Shape& x = c.inputs[0].shape();
  const int64_t block = c.attributes.integer("blocksize", 1);
  const std::vector<int64_t> dcr{0, 3, 5, 1, 2, 4}, crd{0, 1, 3, 5, 2, 4};
  copy_permuted(c, {x[0], x[1], x[2] / block, block, x[3] / block, block},
                depth_last(c.attributes) ? dcr : crd);
}

constexpr Operator row(std::string_view name, std::span<const Port> inputs,
                       std::span<const AttributeSpec> attributes, void (*infer)(Inference&),
                       void (*evaluate)(Evaluation&)) {
  return {.name = name,
          .inputs = inputs,
          .outputs = kOutputs,
          .attributes = attributes,
          .infer = infer,
          .evaluate = evaluate};
}

constexpr Operator kRows[] = {
    row("DepthToSpace", kData, kBlockAttributes, infer_depth_to_space, evaluate_depth_to_space),
    row("Expand", kExpandInputs, {}, infer_expand, evaluate_expand),
    row("Slice", kSliceInputs, {}, infer_slice, evaluate_slice),
    row("SpaceToDepth", kData, kBlockAttributes, infer_space_to_depth, evaluate_space_to_depth),
    row("Tile", kTileInputs, {}, infer_tile, evaluate_tile),
    row("Transpose", kData, kTransposeAttributes, infer_transpose, evaluate_transpose),
};

}  // namespace

std::span<const Operator> rearrangements() { return kRows; }

}  // namespace stretto::ir::ops
