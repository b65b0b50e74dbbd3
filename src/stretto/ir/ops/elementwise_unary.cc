// Operators of one input and no parameter, applied to every element.
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

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

// A row of tensor/elementwise.inc.
template <typename Element>
constexpr Operator row() {
  return row<kRealTypes, kFormulaOf<Element>>(Element::kName);
}
template <typename Element, auto kOnIntegers>
constexpr Operator row() {
  return row<kRealOrInteger, kEither<Element, kOnIntegers>>(Element::kName);
}

template <TypeSet kTypes, auto kFormula>
constexpr Operator predicate(std::string_view name) {
  Operator op = row<kTypes, kFormula>(name);
  op.outputs = kBoolY;
  return op;
}

constexpr auto kSign = []<typename T>(T x) -> T {
  if (x > 0) return 1;
  return x < 0 ? T(0) - T(1) : x;
};

constexpr Operator kRows[] = {
    row<elements::Abs, [](auto x) { return x < 0 ? 0 - wrapping(x) : wrapping(x); }>(),
    row<kRealTypes, [](double x) { return std::acos(x); }>("Acos"),
    row<kRealTypes, [](double x) { return std::acosh(x); }>("Acosh"),
    row<kRealTypes, [](double x) { return std::asin(x); }>("Asin"),
    row<kRealTypes, [](double x) { return std::asinh(x); }>("Asinh"),
    row<kRealTypes, [](double x) { return std::atan(x); }>("Atan"),
    row<kRealTypes, [](double x) { return std::atanh(x); }>("Atanh"),
    row<kIntegerTypes, [](auto x) { return ~wrapping(x); }>("BitwiseNot"),
    row<elements::Ceil>(),
    row<elements::Cos>(),
    row<kRealTypes, [](double x) { return std::cosh(x); }>("Cosh"),
    row<elements::Erf>(),
    row<elements::Exp>(),
    row<elements::Floor>(),
    row<elements::HardSwish>(),
    predicate<kRealTypes, [](double x) { return std::isnan(x); }>("IsNaN"),
    row<elements::Log>(),
    row<elements::Mish>(),
    row<elements::Neg, [](auto x) { return 0 - wrapping(x); }>(),
    predicate<kBoolType, [](bool x) { return !x; }>("Not"),
    row<elements::Reciprocal>(),
    row<elements::Relu, [](auto x) { return x < 0 ? decltype(x){} : x; }>(),
    row<elements::Round>(),
    row<elements::Sigmoid>(),
    row<elements::Sign, kSign>(),
    row<elements::Sin>(),
    row<kRealTypes, [](double x) { return std::sinh(x); }>("Sinh"),
    row<elements::Softplus>(),
    row<kRealTypes, [](double x) { return x / (1 + std::fabs(x)); }>("Softsign"),
    row<elements::Sqrt>(),
    row<kRealTypes, [](double x) { return std::tan(x); }>("Tan"),
    row<elements::Tanh>(),
};

}  // namespace

std::span<const Operator> elementwise_unary() { return kRows; }

}  // namespace stretto::ir::ops
