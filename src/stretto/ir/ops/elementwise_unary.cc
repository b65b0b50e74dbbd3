// Operators of one input and no parameter, applied to every element.
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"
#include "stretto/tensor/formulas.h"

namespace stretto::ir::ops {
namespace {

using namespace formulas;  // NOLINT: what the rows call

template <TypeSet kTypes>
constexpr Port kX[] = {{"X", kTypes, Arity::kRequired, 'T'}};
constexpr Port kBoolY[] = {{"Y", kBoolType}};

// A formula that says yes or no makes a bool output, any other one an output of the input's type.
template <typename T, auto kFormula>
using Result = std::conditional_t<std::is_same_v<decltype(kFormula(Computed<T>{})), bool>, bool, T>;

template <TypeSet kTypes, auto kFormula>
void infer(Inference& c) {
  with_type<kTypes>(c.dtype(0), [&]<typename T>() {
    c.set_output(0, kDTypeOf<Result<T, kFormula>>, c.shape(0));
  });
}

template <TypeSet kTypes, auto kFormula>
void evaluate(Evaluation& c) {
  with_type<kTypes>(c.inputs[0].dtype(),
                    [&]<typename T>() { map_unary<T, Result<T, kFormula>>(c, kFormula); });
}

template <TypeSet kTypes, auto kFormula>
constexpr Operator row(std::string_view name) {
  return {.name = name,
          .inputs = kX<kTypes>,
          .outputs = kX<kTypes>,
          .attributes = {},
          .infer = infer<kTypes, kFormula>,
          .evaluate = evaluate<kTypes, kFormula>};
}

template <TypeSet kTypes, auto kFormula>
constexpr Operator predicate(std::string_view name) {
  Operator op = row<kTypes, kFormula>(name);
  op.outputs = kBoolY;
  return op;
}

constexpr auto kSign = []<typename T>(T x) -> T {
  if (x > 0) return 1;
  return x < 0 ? T(0) - T(1) : x;  // NaN and zeros stay
};

constexpr Operator kRows[] = {
    row<kRealOrInteger, [](auto x) { return x < 0 ? 0 - wrapping(x) : wrapping(x); }>("Abs"),
    row<kRealTypes, [](double x) { return std::acos(x); }>("Acos"),
    row<kRealTypes, [](double x) { return std::acosh(x); }>("Acosh"),
    row<kRealTypes, [](double x) { return std::asin(x); }>("Asin"),
    row<kRealTypes, [](double x) { return std::asinh(x); }>("Asinh"),
    row<kRealTypes, [](double x) { return std::atan(x); }>("Atan"),
    row<kRealTypes, [](double x) { return std::atanh(x); }>("Atanh"),
    row<kIntegerTypes, [](auto x) { return ~wrapping(x); }>("BitwiseNot"),
    row<kRealTypes, [](double x) { return std::ceil(x); }>("Ceil"),
    row<kRealTypes, [](double x) { return std::cos(x); }>("Cos"),
    row<kRealTypes, [](double x) { return std::cosh(x); }>("Cosh"),
    row<kRealTypes, [](double x) { return std::erf(x); }>("Erf"),
    row<kRealTypes, [](double x) { return std::exp(x); }>("Exp"),
    row<kRealTypes, [](double x) { return std::floor(x); }>("Floor"),
    row<kRealTypes, hard_swish>("HardSwish"),
    predicate<kRealTypes, [](double x) { return std::isnan(x); }>("IsNaN"),
    row<kRealTypes, [](double x) { return std::log(x); }>("Log"),
    row<kRealTypes, mish>("Mish"),
    row<kRealOrInteger, [](auto x) { return 0 - wrapping(x); }>("Neg"),
    predicate<kBoolType, [](bool x) { return !x; }>("Not"),
    row<kRealTypes, [](double x) { return 1 / x; }>("Reciprocal"),
    row<kRealOrInteger, [](auto x) { return x < 0 ? decltype(x){} : x; }>("Relu"),
    row<kRealTypes, round_even>("Round"),
    row<kRealTypes, sigmoid>("Sigmoid"),
    row<kRealOrInteger, kSign>("Sign"),
    row<kRealTypes, [](double x) { return std::sin(x); }>("Sin"),
    row<kRealTypes, [](double x) { return std::sinh(x); }>("Sinh"),
    row<kRealTypes, softplus>("Softplus"),
    row<kRealTypes, [](double x) { return x / (1 + std::fabs(x)); }>("Softsign"),
    row<kRealTypes, [](double x) { return std::sqrt(x); }>("Sqrt"),
    row<kRealTypes, [](double x) { return std::tan(x); }>("Tan"),
    row<kRealTypes, [](double x) { return std::tanh(x); }>("Tanh"),
};

}  // namespace

std::span<const Operator> elementwise_unary() { return kRows; }

}  // namespace stretto::ir::ops
