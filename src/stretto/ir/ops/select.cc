// Operators that look for elements along one axis: ArgMax, ArgMin, TopK.
#include <algorithm>
#include <numeric>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kInt64 = type_bit(DType::kInt64);
constexpr Port kArgInputs[] = {{"data", kRealOrInteger}};
constexpr Port kArgOutputs[] = {{"reduced", kInt64}};
constexpr AttributeSpec kArgAttributes[] = {{"axis", AttributeKind::kInt},
                                            {"keepdims", AttributeKind::kInt},
                                            {"select_last_index", AttributeKind::kInt}};

void infer_arg(Inference& c) {
  const int64_t axis = normalize_axis(c.attributes().integer("axis", 0), c.rank(0), "axis");
  Shape shape = c.shape(0);
  if (shape[axis] == 0) throw_invalid("axis: axis {} of {} is empty", axis, shape_text(shape));
  shape[axis] = 1;
  if (c.attributes().integer("keepdims", 1) == 0) shape.erase(shape.begin() + axis);
  c.set_output(0, DType::kInt64, std::move(shape));
}

// A total order with NaN above every number.
template <typename T>
bool below(T a, T b) {
  return a < b || (b != b && a == a);
}

template <bool kLargest>
void evaluate_arg(Evaluation& c) {
  const Tensor& data = c.inputs[0];
  const AxisView view(data.shape(),
                      normalize_axis(c.attributes.integer("axis", 0), data.rank(), "axis"));
  const bool last = c.attributes.integer("select_last_index", 0) != 0;
  int64_t* y = data_of<int64_t>(c.make_output(0));
  with_type<kRealOrInteger>(data.dtype(), [&]<typename T>() {
    // NaN is what both look for first.
    const auto better = [](T a, T b) {
      return kLargest ? below(b, a) : a < b || (a != a && b == b);
    };
    const int64_t grain = 1 + kElementwiseGrain / (view.size + 1);
    parallel(c.team, view.outer * view.inner, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* x =
            data_of<T>(data) + row / view.inner * view.size * view.inner + row % view.inner;
        int64_t best = 0;
        for (int64_t i = 1; i < view.size; ++i) {
          const T candidate = x[i * view.inner], champion = x[best * view.inner];
          if (better(candidate, champion) || (last && !better(champion, candidate))) best = i;
        }
        y[row] = best;
      }
    });
  });
}

constexpr Port kTopInputs[] = {{"X", kRealOrInteger, Arity::kRequired, 'T'}, {"K", kInt64}};
constexpr Port kTopOutputs[] = {{"Values", kRealOrInteger, Arity::kOptional, 'T'},
                                {"Indices", kInt64, Arity::kOptional}};
constexpr AttributeSpec kTopAttributes[] = {{"axis", AttributeKind::kInt},
                                            {"largest", AttributeKind::kInt},
                                            {"sorted", AttributeKind::kInt}};

void infer_top(Inference& c) {
  const int64_t axis = normalize_axis(c.attributes().integer("axis", -1), c.rank(0), "axis");
  const std::vector<int64_t> k = c.constant_integers(1, "K");
  Shape shape = c.shape(0);
  if (k.size() != 1 || k[0] < 0 || k[0] > shape[axis]) {
    throw_invalid("K: expected one value in [0, {}], got {}", shape[axis],
                  k.empty() ? std::string("none") : fmt::format("{}", k[0]));
  }
  shape[axis] = k[0];
  c.set_output(0, c.dtype(0), shape);
  c.set_output(1, DType::kInt64, std::move(shape));
}

// Always sorted, the better first; among equals the lower index.
void evaluate_top(Evaluation& c) {
  const Tensor& data = c.inputs[0];
  const AxisView view(data.shape(),
                      normalize_axis(c.attributes.integer("axis", -1), data.rank(), "axis"));
  const int64_t k = c.inputs[1].as_int64s()[0];
  const bool largest = c.attributes.integer("largest", 1) != 0;
  Tensor* values = c.has_output(0) ? &make_output_like(c, 0, data) : nullptr;
  int64_t* indices = c.has_output(1) ? data_of<int64_t>(c.make_output(1)) : nullptr;
  const int64_t rows = view.outer * view.inner;
  // Each lane sorts in its own part of `order`, for what the team runs may not throw, nor allocate.
  const int64_t most = std::clamp<int64_t>(rows, 1, 64);
  const int64_t lanes = std::clamp<int64_t>(rows * view.size / kElementwiseGrain, 1, most);
  std::vector<int64_t> order(static_cast<size_t>(lanes * view.size));
  with_type<kRealOrInteger>(data.dtype(), [&]<typename T>() {
    const auto select = [&](int64_t row, int64_t* from) {
      const T* x = data_of<T>(data) + row / view.inner * view.size * view.inner + row % view.inner;
      std::iota(from, from + view.size, 0);
      std::partial_sort(from, from + k, from + view.size, [&](int64_t i, int64_t j) {
        const T a = x[i * view.inner], b = x[j * view.inner];
        if (largest ? below(b, a) : below(a, b)) return true;
        if (largest ? below(a, b) : below(b, a)) return false;
        return i < j;
      });
      const int64_t first = row / view.inner * k * view.inner + row % view.inner;
      for (int64_t i = 0; i < k; ++i) {
        if (values != nullptr) {
          data_of<T>(*values)[first + i * view.inner] = x[from[i] * view.inner];
        }
        if (indices != nullptr) indices[first + i * view.inner] = from[i];
      }
    };
    parallel(c.team, lanes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t lane = begin; lane < end; ++lane) {
        for (int64_t row = rows * lane / lanes; row < rows * (lane + 1) / lanes; ++row) {
          select(row, order.data() + lane * view.size);
        }
      }
    });
  });
}

}  // namespace

const Operator kArgMax{.name = "ArgMax",
                       .inputs = kArgInputs,
                       .outputs = kArgOutputs,
                       .attributes = kArgAttributes,
                       .infer = infer_arg,
                       .evaluate = evaluate_arg<true>};

const Operator kArgMin{.name = "ArgMin",
                       .inputs = kArgInputs,
                       .outputs = kArgOutputs,
                       .attributes = kArgAttributes,
                       .infer = infer_arg,
                       .evaluate = evaluate_arg<false>};

const Operator kTopK{.name = "TopK",
                     .inputs = kTopInputs,
                     .outputs = kTopOutputs,
                     .attributes = kTopAttributes,
                     .infer = infer_top,
                     .evaluate = evaluate_top};

}  // namespace stretto::ir::ops
