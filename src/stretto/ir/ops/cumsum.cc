// CumSum and CumProd along one axis, and Trilu.
#include <algorithm>
#include <cstring>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"x", kRealOrInteger, Arity::kRequired, 'T'}, {"axis", kIndexTypes}};
constexpr Port kOutputs[] = {{"y", kRealOrInteger, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"exclusive", AttributeKind::kInt},
                                         {"reverse", AttributeKind::kInt}};

void infer(Inference& c) {
  if (element_count(c.shape(1)) != 1) {
    throw_invalid("axis: expected one value, got shape {}", shape_text(c.shape(1)));
  }
  if (const Tensor* axis = c.constant(1)) {
    normalize_axis(axis->as_int64s()[0], c.rank(0), "axis");
  }
  c.set_output(0, c.dtype(0), c.shape(0));
}

template <bool kProduct>
void evaluate(Evaluation& c) {
  const Tensor& data = c.inputs[0];
  const AxisView view(data.shape(),
                      normalize_axis(c.inputs[1].as_int64s()[0], data.rank(), "axis"));
  const bool exclusive = c.attributes.integer("exclusive", 0) != 0;
  const bool reverse = c.attributes.integer("reverse", 0) != 0;
  with_type<kRealOrInteger>(data.dtype(), [&]<typename T>() {
    T* y = data_of<T>(c.make_output(0));
    const int64_t grain = 1 + kElementwiseGrain / (view.size + 1);
    parallel(c.team, view.outer * view.inner, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t first = row / view.inner * view.size * view.inner + row % view.inner;
        decltype(wrapping(Computed<T>{})) sum = kProduct ? 1 : 0;
        for (int64_t i = 0; i < view.size; ++i) {
          const int64_t at = first + (reverse ? view.size - 1 - i : i) * view.inner;
          const auto x = wrapping(static_cast<Computed<T>>(data_of<T>(data)[at]));
          const auto next = kProduct ? sum * x : sum + x;
          y[at] = static_cast<T>(exclusive ? sum : next);
          sum = next;
        }
      }
    });
  });
}

constexpr Port kTriluInputs[] = {{"input", kAllTypes, Arity::kRequired, 'T'},
                                 {"k", type_bit(DType::kInt64), Arity::kOptional}};
constexpr Port kTriluOutputs[] = {{"output", kAllTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kTriluAttributes[] = {{"upper", AttributeKind::kInt}};

void infer_trilu(Inference& c) {
  if (c.rank(0) < 2) throw_invalid("input: expected matrices, got {}", shape_text(c.shape(0)));
  if (c.has_input(1) && element_count(c.shape(1)) != 1) {
    throw_invalid("k: expected one value, got shape {}", shape_text(c.shape(1)));
  }
  c.set_output(0, c.dtype(0), c.shape(0));
}

void evaluate_trilu(Evaluation& c) {
  const Tensor& data = c.inputs[0];
  const int64_t rows = data.dim(data.rank() - 2), columns = data.dim(data.rank() - 1);
  const int64_t k = c.has_input(1) ? c.inputs[1].as_int64s()[0] : 0;
  const bool upper = c.attributes.integer("upper", 1) != 0;
  Tensor& out = make_output_like(c, 0, data);
  const auto bytes = static_cast<int64_t>(dtype_bytes(data.dtype()));
  const auto* from = data_of<std::byte>(data);
  auto* to = data_of<std::byte>(out);
  // The border's column lies within a row of its matrix, or before or behind all of it.
  const int64_t far = rows + columns, diagonal = std::clamp(k, -far, far);
  const int64_t grain = 1 + 4 * kElementwiseGrain / columns;
  parallel(c.team, data.count() / columns, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * columns * bytes;
      const int64_t border =
          bytes * std::clamp<int64_t>(row % rows + diagonal + (upper ? 0 : 1), 0, columns);
      const int64_t kept = upper ? border : 0, zeroed = upper ? 0 : border;
      const int64_t length = columns * bytes - border;
      std::memcpy(to + at + kept, from + at + kept, static_cast<size_t>(upper ? length : border));
      std::memset(to + at + zeroed, 0, static_cast<size_t>(upper ? border : length));
    }
  });
}

}  // namespace

const Operator kCumProd{.name = "CumProd",
                        .inputs = kInputs,
                        .outputs = kOutputs,
                        .attributes = kAttributes,
                        .infer = infer,
                        .evaluate = evaluate<true>};

const Operator kCumSum{.name = "CumSum",
                       .inputs = kInputs,
                       .outputs = kOutputs,
                       .attributes = kAttributes,
                       .infer = infer,
                       .evaluate = evaluate<false>};

const Operator kTrilu{.name = "Trilu",
                      .inputs = kTriluInputs,
                      .outputs = kTriluOutputs,
                      .attributes = kTriluAttributes,
                      .infer = infer_trilu,
                      .evaluate = evaluate_trilu};

}  // namespace stretto::ir::ops
