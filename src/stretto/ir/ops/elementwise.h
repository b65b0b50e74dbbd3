// The shape rule and the loops that all elementwise operators share.
#pragma once

#include <type_traits>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/strided.h"
#include "stretto/tensor/element_formulas.h"

namespace stretto::ir::ops {

// Below this many elements a second thread costs more than it brings.
constexpr int64_t kElementwiseGrain = 8192;

// What a formula sees of an element: floats in double precision, everything else as it is.
template <typename T>
using Computed = std::conditional_t<std::is_floating_point_v<T>, double, T>;

// Integer arithmetic wraps around, so formulas that may overflow work on the unsigned value.
inline double wrapping(double x) { return x; }
template <typename T>
requires std::is_integral_v<T> uint64_t wrapping(T x) { return static_cast<uint64_t>(x); }

// The formula of a row of tensor/elementwise.inc, as a function of its operands.
template <typename Element>
constexpr auto kFormulaOf = [](auto... operands) -> double {
  const double x[3] = {static_cast<double>(operands)...};
  return Element::apply(x[0], x[1], x[2], Element::kAlpha, Element::kBeta);
};

// The same for floats, and `kOnIntegers` for integers.
template <typename Element, auto kOnIntegers>
constexpr auto kEither = []<typename... T>(T... operands) {
  if constexpr ((std::is_floating_point_v<T> && ...)) {
    return kFormulaOf<Element>(operands...);
  } else {
    return kOnIntegers(operands...);
  }
};

// Output 0 has the NumPy-broadcast shape of all inputs.
void infer_broadcast(Inference& c, DType dtype);

// y = formula(x) for every element; T is the input's type, R the output's.
template <typename T, typename R, typename F>
void map_unary(Evaluation& c, F formula) {
  const T* x = data_of<T>(c.inputs[0]);
  R* y = data_of<R>(c.make_output(0));
  parallel(c.team, c.inputs[0].count(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      y[i] = static_cast<R>(formula(static_cast<Computed<T>>(x[i])));
    }
  });
}

// y = formula(a, b) with broadcasting; T and U are the inputs' types, R the output's.
template <typename T, typename U, typename R, typename F>
void map_binary(Evaluation& c, F formula) {
  const T* a = data_of<T>(c.inputs[0]);
  const U* b = data_of<U>(c.inputs[1]);
  R* y = data_of<R>(c.make_output(0));
  const Shape shapes[] = {c.inputs[0].shape(), c.inputs[1].shape()};
  const StridedLoop loop = StridedLoop::broadcast(c.output_shapes[0], shapes);
  parallel(c.team, loop.count(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    loop.rows(
        begin, end, [&](int64_t at, int64_t length, const int64_t* offsets, const int64_t* steps) {
          const T* p = a + offsets[0];
          const U* q = b + offsets[1];
          const int64_t dp = steps[0], dq = steps[1];
          for (int64_t i = 0; i < length; ++i) {
            y[at + i] = static_cast<R>(
                formula(static_cast<Computed<T>>(p[i * dp]), static_cast<Computed<U>>(q[i * dq])));
          }
        });
  });
}

}  // namespace stretto::ir::ops
