// Reductions over a set of axes, one table. Floats accumulate in double, integers modulo 2^64.
#include <cmath>
#include <limits>
#include <numeric>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

template <TypeSet kTypes>
constexpr Port kInputs[] = {{"data", kTypes, Arity::kRequired, 'T'},
                            {"axes", type_bit(DType::kInt64), Arity::kOptional}};
template <TypeSet kTypes>
constexpr Port kOutputs[] = {{"reduced", kTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"keepdims", AttributeKind::kInt},
                                         {"noop_with_empty_axes", AttributeKind::kInt}};

// Which axes go. No axes: all of them, or none with noop_with_empty_axes.
std::vector<bool> reduced_axes(const Attributes& attributes, const std::vector<int64_t>& axes,
                               int64_t rank) {
  const bool all = axes.empty() && attributes.integer("noop_with_empty_axes", 0) == 0;
  std::vector<bool> reduced(static_cast<size_t>(rank), all);
  for (int64_t axis : normalized_axes(axes, rank)) reduced[axis] = true;
  return reduced;
}

void infer(Inference& c) {
  std::vector<int64_t> axes;
  if (c.has_input(1)) axes = c.constant_integers(1, "axes");
  const std::vector<bool> reduced = reduced_axes(c.attributes(), axes, c.rank(0));
  const bool keep = c.attributes().integer("keepdims", 1) != 0;
  Shape shape;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) {
      shape.push_back(c.shape(0)[i]);
    } else if (keep) {
      shape.push_back(1);
    }
  }
  c.set_output(0, c.dtype(0), std::move(shape));
}

// kReduce(count, at): the result over at(0) .. at(count - 1).
template <TypeSet kTypes, auto kReduce>
void evaluate(Evaluation& c) {
  const Tensor& data = c.inputs[0];
  const std::vector<bool> reduced = reduced_axes(
      c.attributes, c.has_input(1) ? c.inputs[1].as_int64s() : std::vector<int64_t>(), data.rank());
  const Strides dense = row_major_strides(data.shape());
  Shape kept, gone;
  Strides kept_strides, gone_strides;
  for (size_t i = 0; i < reduced.size(); ++i) {
    (reduced[i] ? gone : kept).push_back(data.shape()[i]);
    (reduced[i] ? gone_strides : kept_strides).push_back(dense[i]);
  }
  std::vector<int64_t> inner;  // offsets of the elements that one result joins
  const StridedLoop joined(gone, {gone_strides});
  joined.rows(0, joined.count(),
              [&](int64_t, int64_t length, const int64_t* offsets, const int64_t* steps) {
                for (int64_t i = 0; i < length; ++i) inner.push_back(offsets[0] + i * steps[0]);
              });
  const StridedLoop results(kept, {kept_strides});
  with_type<kTypes>(data.dtype(), [&]<typename T>() {
    const T* x = data_of<T>(data);
    T* y = data_of<T>(c.make_output(0));
    const auto size = static_cast<int64_t>(inner.size());
    parallel(c.team, results.count(), 1 + kElementwiseGrain / (size + 1),
             [&](int64_t begin, int64_t end) {
               results.rows(
                   begin, end,
                   [&](int64_t at, int64_t length, const int64_t* offsets, const int64_t* steps) {
                     for (int64_t i = 0; i < length; ++i) {
                       const T* first = x + offsets[0] + i * steps[0];
                       y[at + i] = static_cast<T>(kReduce(size, [&](int64_t j) {
                         return static_cast<Computed<T>>(first[inner[j]]);
                       }));
                     }
                   });
             });
  });
}

template <typename At>
using Element = decltype(std::declval<At>()(0));

// Sums of f(element); unsigned for integers, so that overflow wraps.
template <typename At, typename F>
auto sum_of(int64_t count, At at, F f) {
  decltype(f(wrapping(at(0)))) sum{};
  for (int64_t i = 0; i < count; ++i) sum += f(wrapping(at(i)));
  return sum;
}

constexpr auto kSum = [](int64_t n, auto at) { return sum_of(n, at, [](auto x) { return x; }); };
constexpr auto kSumSquare = [](int64_t n, auto at) {
  return sum_of(n, at, [](auto x) { return x * x; });
};
constexpr auto kMean = [](int64_t n, auto at) {
  if constexpr (std::is_floating_point_v<Element<decltype(at)>>) {
    return kSum(n, at) / static_cast<double>(n);
  } else {
    return n == 0 ? 0 : static_cast<int64_t>(kSum(n, at)) / n;
  }
};
constexpr auto kL1 = [](int64_t n, auto at) {
  using T = Element<decltype(at)>;
  return sum_of(
      n, [&](int64_t i) { return at(i) < 0 ? static_cast<T>(0 - wrapping(at(i))) : at(i); },
      [](auto x) { return x; });
};
constexpr auto kL2 = [](int64_t n, auto at) {
  return std::sqrt(static_cast<double>(kSumSquare(n, at)));
};
constexpr auto kLogSum = [](int64_t n, auto at) { return std::log(kSum(n, at)); };
constexpr auto kProduct = [](int64_t n, auto at) {
  decltype(wrapping(at(0))) product = 1;
  for (int64_t i = 0; i < n; ++i) product *= wrapping(at(i));
  return product;
};

// The extreme of nothing is the other extreme; NaN wins over every number.
template <typename T>
constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}
template <typename T>
constexpr T highest() {
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::max();
}
constexpr auto kMaximum = [](int64_t n, auto at) {
  auto best = lowest<Element<decltype(at)>>();
  for (int64_t i = 0; i < n; ++i) {
    if (const auto x = at(i); best < x || x != x) best = x;
  }
  return best;
};
constexpr auto kMinimum = [](int64_t n, auto at) {
  auto best = highest<Element<decltype(at)>>();
  for (int64_t i = 0; i < n; ++i) {
    if (const auto x = at(i); x < best || x != x) best = x;
  }
  return best;
};
constexpr auto kLogSumExp = [](int64_t n, auto at) {
  const double top = kMaximum(n, at);
  if (!std::isfinite(top)) return top;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(at(i) - top);
  return top + std::log(sum);
};

template <TypeSet kTypes, auto kReduce>
constexpr Operator row(std::string_view name) {
  return {.name = name,
          .inputs = kInputs<kTypes>,
          .outputs = kOutputs<kTypes>,
          .attributes = kAttributes,
          .infer = infer,
          .evaluate = evaluate<kTypes, kReduce>};
}

constexpr TypeSet kSummable =
    kRealTypes | kIndexTypes | type_bit(DType::kUInt32) | type_bit(DType::kUInt64);
constexpr TypeSet kOrdered = kRealOrInteger | kBoolType;

constexpr Operator kRows[] = {
    row<kSummable, kL1>("ReduceL1"),          row<kSummable, kL2>("ReduceL2"),
    row<kRealTypes, kLogSum>("ReduceLogSum"), row<kRealTypes, kLogSumExp>("ReduceLogSumExp"),
    row<kOrdered, kMaximum>("ReduceMax"),     row<kSummable, kMean>("ReduceMean"),
    row<kOrdered, kMinimum>("ReduceMin"),     row<kSummable, kProduct>("ReduceProd"),
    row<kSummable, kSum>("ReduceSum"),        row<kSummable, kSumSquare>("ReduceSumSquare"),
};

}  // namespace

std::span<const Operator> reductions() { return kRows; }

}  // namespace stretto::ir::ops
