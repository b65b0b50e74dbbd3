// Operators of two inputs that broadcast, applied to every pair of elements.
#include <functional>

#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {

void infer_broadcast(Inference& c, DType dtype) {
  Shape shape;
  for (int i = 0; i < c.input_count(); ++i) {
    if (c.has_input(i)) shape = broadcast(shape, c.shape(i));
  }
  c.set_output(0, dtype, std::move(shape));
}

namespace {

template <TypeSet kTypes>
constexpr Port kInputs[] = {{"A", kTypes, Arity::kRequired, 'T'},
                            {"B", kTypes, Arity::kRequired, 'T'}};
template <TypeSet kTypes>
constexpr Port kOutputs[] = {{"C", kTypes, Arity::kRequired, 'T'}};
constexpr Port kBoolOutputs[] = {{"C", kBoolType}};

template <TypeSet kTypes, auto kFormula>
void evaluate(Evaluation& c) {
  with_type<kTypes>(c.inputs[0].dtype(), [&]<typename T>() { map_binary<T, T, T>(c, kFormula); });
}

template <TypeSet kTypes, auto kFormula>
void evaluate_predicate(Evaluation& c) {
  with_type<kTypes>(c.inputs[0].dtype(),
                    [&]<typename T>() { map_binary<T, T, bool>(c, kFormula); });
}

template <TypeSet kTypes, auto kFormula>
constexpr Operator row(std::string_view name) {
  return {.name = name,
          .inputs = kInputs<kTypes>,
          .outputs = kOutputs<kTypes>,
          .attributes = {},
          .infer = [](Inference& c) { infer_broadcast(c, c.dtype(0)); },
          .evaluate = evaluate<kTypes, kFormula>};
}

template <TypeSet kTypes, auto kFormula>
constexpr Operator predicate(std::string_view name) {
  return {.name = name,
          .inputs = kInputs<kTypes>,
          .outputs = kBoolOutputs,
          .attributes = {},
          .infer = [](Inference& c) { infer_broadcast(c, DType::kBool); },
          .evaluate = evaluate_predicate<kTypes, kFormula>};
}

// A row of tensor/elementwise.inc.
template <typename Element, auto kOnIntegers>
constexpr Operator row() {
  return row<kRealOrInteger, kEither<Element, kOnIntegers>>(Element::kName);
}

// Truncates. x / 0 has no meaning for integers and is 0 here; the most negative value / -1 wraps.
constexpr auto kDivide = []<typename T>(T a, T b) -> T {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - wrapping(a));
  }
  return static_cast<T>(a / b);
};

constexpr TypeSet kComparable = kRealOrInteger | kBoolType;

constexpr Operator kRows[] = {
    row<elements::Add, [](auto a, auto b) { return wrapping(a) + wrapping(b); }>(),
    row<kIntegerTypes, [](auto a, auto b) { return a & b; }>("BitwiseAnd"),
    row<kIntegerTypes, [](auto a, auto b) { return a | b; }>("BitwiseOr"),
    row<kIntegerTypes, [](auto a, auto b) { return a ^ b; }>("BitwiseXor"),
    row<elements::Div, kDivide>(),
    row<elements::Mul, [](auto a, auto b) { return wrapping(a) * wrapping(b); }>(),
    row<elements::Sub, [](auto a, auto b) { return wrapping(a) - wrapping(b); }>(),
    predicate<kBoolType, [](bool a, bool b) { return a && b; }>("And"),
    predicate<kComparable, std::equal_to<>{}>("Equal"),
    predicate<kRealOrInteger, std::greater<>{}>("Greater"),
    predicate<kRealOrInteger, std::greater_equal<>{}>("GreaterOrEqual"),
    predicate<kRealOrInteger, std::less<>{}>("Less"),
    predicate<kRealOrInteger, std::less_equal<>{}>("LessOrEqual"),
    predicate<kBoolType, [](bool a, bool b) { return a || b; }>("Or"),
    predicate<kBoolType, [](bool a, bool b) { return a != b; }>("Xor"),
};

}  // namespace

std::span<const Operator> elementwise_binary() { return kRows; }

}  // namespace stretto::ir::ops
