// Operators whose shape depends on values, so that these must be constants: NonZero, Unique.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "stretto/ir/not_straight.h"
#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kInt64 = type_bit(DType::kInt64);
constexpr TypeSet kComparable = kRealOrInteger | kBoolType;
constexpr Port kNonZeroInputs[] = {{"X", kComparable}};
constexpr Port kNonZeroOutputs[] = {{"Y", kInt64}};

const Tensor& known(const Inference& c, std::string_view what) {
  const Tensor* tensor = c.constant(0);
  if (tensor == nullptr) {
    throw_not_straight(
        "{} must be known when the model is optimised, but it depends on the model's input values",
        what);
  }
  return *tensor;
}

std::vector<int64_t> nonzero_places(const Tensor& x) {
  std::vector<int64_t> places;
  with_type<kComparable>(x.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < x.count(); ++i) {
      if (data_of<T>(x)[i] != T{}) places.push_back(i);
    }
  });
  return places;
}

void infer_nonzero(Inference& c) {
  c.set_output(0, DType::kInt64,
               {c.rank(0), static_cast<int64_t>(nonzero_places(known(c, "X")).size())});
}

void evaluate_nonzero(Evaluation& c) {
  const Tensor& x = c.inputs[0];
  const std::vector<int64_t> places = nonzero_places(x);
  const std::vector<int64_t> strides = row_major_strides(x.shape());
  int64_t* y = data_of<int64_t>(c.make_output(0));
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    for (int64_t place : places) *y++ = place / strides[axis] % x.dim(axis);
  }
}

constexpr Port kUniqueInputs[] = {{"X", kComparable, Arity::kRequired, 'T'}};
constexpr Port kUniqueOutputs[] = {{"Y", kComparable, Arity::kOptional, 'T'},
                                   {"indices", kInt64, Arity::kOptional},
                                   {"inverse_indices", kInt64, Arity::kOptional},
                                   {"counts", kInt64, Arity::kOptional}};
constexpr AttributeSpec kUniqueAttributes[] = {{"axis", AttributeKind::kInt},
                                               {"sorted", AttributeKind::kInt}};

// The slices that are compared: along the axis, or single elements.
AxisView slices_of(const Attributes& attributes, const Shape& x) {
  if (!attributes.has("axis")) return AxisView(Shape{element_count(x)}, 0);
  const auto rank = static_cast<int64_t>(x.size());
  return AxisView(x, normalize_axis(attributes.integer("axis", 0), rank, "axis"));
}

struct Found {
  std::vector<int64_t> first, inverse, counts;  // of each distinct slice; of each slice
};

Found distinct(const Attributes& attributes, const Tensor& x) {
  const AxisView view = slices_of(attributes, x.shape());
  Found found;
  with_type<kComparable>(x.dtype(), [&]<typename T>() {
    const T* data = data_of<T>(x);
    // -1, 0, 1; NaN after all numbers, and equal to itself.
    const auto compare = [&](int64_t i, int64_t j) {
      for (int64_t k = 0; k < view.outer * view.inner; ++k) {
        const int64_t base = k / view.inner * view.size * view.inner + k % view.inner;
        const T a = data[base + i * view.inner], b = data[base + j * view.inner];
        const bool a_nan = a != a, b_nan = b != b;
        if (a_nan || b_nan) {
          if (a_nan != b_nan) return a_nan ? 1 : -1;
        } else if (a != b) {
          return a < b ? -1 : 1;
        }
      }
      return 0;
    };
    std::vector<int64_t> order(static_cast<size_t>(view.size));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t i, int64_t j) { return compare(i, j) < 0; });
    found.inverse.resize(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || compare(order[i - 1], order[i]) != 0) {
        found.first.push_back(order[i]);
        found.counts.push_back(0);
      }
      found.inverse[order[i]] = static_cast<int64_t>(found.first.size()) - 1;
      ++found.counts.back();
    }
  });
  if (attributes.integer("sorted", 1) != 0) return found;
  // In the order in which they occur.
  std::vector<int64_t> by_place(found.first.size()), rank(found.first.size());
  std::iota(by_place.begin(), by_place.end(), 0);
  std::sort(by_place.begin(), by_place.end(),
            [&](int64_t i, int64_t j) { return found.first[i] < found.first[j]; });
  Found ordered;
  for (size_t i = 0; i < by_place.size(); ++i) {
    rank[by_place[i]] = static_cast<int64_t>(i);
    ordered.first.push_back(found.first[by_place[i]]);
    ordered.counts.push_back(found.counts[by_place[i]]);
  }
  for (int64_t group : found.inverse) ordered.inverse.push_back(rank[group]);
  return ordered;
}

void infer_unique(Inference& c) {
  const Found found = distinct(c.attributes(), known(c, "X"));
  const auto count = static_cast<int64_t>(found.first.size());
  Shape y{count};
  if (c.attributes().has("axis")) {
    y = c.shape(0);
    y[normalize_axis(c.attributes().integer("axis", 0), c.rank(0), "axis")] = count;
  }
  c.set_output(0, c.dtype(0), std::move(y));
  c.set_output(1, DType::kInt64, {count});
  c.set_output(2, DType::kInt64, {static_cast<int64_t>(found.inverse.size())});
  c.set_output(3, DType::kInt64, {count});
}

void evaluate_unique(Evaluation& c) {
  const Tensor& x = c.inputs[0];
  const Found found = distinct(c.attributes, x);
  if (c.has_output(0)) {
    const AxisView view = slices_of(c.attributes, x.shape());
    Tensor& out = make_output_like(c, 0, x);
    const size_t run = static_cast<size_t>(view.inner) * dtype_bytes(x.dtype());
    auto* to = data_of<std::byte>(out);
    for (int64_t outer = 0; outer < view.outer; ++outer) {
      for (int64_t place : found.first) {
        std::memcpy(
            to, data_of<std::byte>(x) + static_cast<size_t>(outer * view.size + place) * run, run);
        to += run;
      }
    }
  }
  if (c.has_output(1)) c.outputs[1] = Tensor::int64s(found.first);
  if (c.has_output(2)) c.outputs[2] = Tensor::int64s(found.inverse);
  if (c.has_output(3)) c.outputs[3] = Tensor::int64s(found.counts);
}

}  // namespace

const Operator kNonZero{.name = "NonZero",
                        .inputs = kNonZeroInputs,
                        .outputs = kNonZeroOutputs,
                        .attributes = {},
                        .infer = infer_nonzero,
                        .evaluate = evaluate_nonzero};

const Operator kUnique{.name = "Unique",
                       .inputs = kUniqueInputs,
                       .outputs = kUniqueOutputs,
                       .attributes = kUniqueAttributes,
                       .infer = infer_unique,
                       .evaluate = evaluate_unique};

}  // namespace stretto::ir::ops
