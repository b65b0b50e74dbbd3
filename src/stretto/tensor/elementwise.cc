#include "stretto/tensor/elementwise.h"

#include <type_traits>

#include "stretto/tensor/element_formulas.h"

namespace stretto {
namespace {

template <typename Element>
constexpr ElementRow row(ElementOp op, int operands, ElementRow::Use use) {
  constexpr bool kTruth = std::is_same_v<decltype(Element::value(0, 0, 0, 0, 0)), bool>;
  return {.op = op,
          .name = Element::kName,
          .operands = operands,
          .numbers = Element::kNumbers,
          .alpha = Element::kAlpha,
          .beta = Element::kBeta,
          .use = use,
          .truth = kTruth,
          .apply = Element::apply};
}

constexpr ElementRow kRows[] = {
#define STRETTO_ELEMENT(name, operands, use, formula) \
  row<elements::name>(ElementOp::k##name, operands, ElementRow::Use::use),
#include "stretto/tensor/elementwise.inc"
};

struct ActivationRow {
  Activation activation;
  std::string_view text;
  ElementOp op;  // kCopy for none
};

constexpr ActivationRow kActivationRows[] = {
    {Activation::kNone, "none", ElementOp::kCopy},
#define STRETTO_ELEMENT(name, operands, use, formula)
#define STRETTO_ACTIVATION(name, text, numbers, alpha, beta, use, formula) \
  {Activation::k##name, text, ElementOp::k##name},
#include "stretto/tensor/elementwise.inc"
};

constexpr Activation kActivations[] = {
    Activation::kNone,
#define STRETTO_ELEMENT(name, operands, use, formula)
#define STRETTO_ACTIVATION(name, text, numbers, alpha, beta, use, formula) Activation::k##name,
#include "stretto/tensor/elementwise.inc"
};

const ActivationRow& row_of(Activation activation) {
  return kActivationRows[static_cast<size_t>(activation)];
}

}  // namespace

double ElementRow::apply_to(const double* arguments) const {
  const auto operand = [&](int i) { return i < operands ? arguments[i] : 0; };
  const auto number = [&](int i) { return i < numbers ? arguments[operands + i] : 0; };
  return apply(operand(0), operand(1), operand(2), number(0), number(1));
}

std::span<const ElementRow> element_rows() { return kRows; }

const ElementRow& element_row(ElementOp op) { return kRows[static_cast<size_t>(op)]; }

const ElementRow* find_element(std::string_view name) {
  for (const ElementRow& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

std::span<const Activation, kActivationCount> activations() { return kActivations; }

std::string_view activation_name(Activation activation) { return row_of(activation).text; }

std::optional<Activation> parse_activation(std::string_view name) {
  for (const ActivationRow& row : kActivationRows) {
    if (row.text == name) return row.activation;
  }
  return std::nullopt;
}

std::optional<Activation> activation_of(ElementOp op) {
  for (const ActivationRow& row : kActivationRows) {
    if (row.op == op && row.activation != Activation::kNone) return row.activation;
  }
  return std::nullopt;
}

double apply_activation(Activation activation, double alpha, double beta, double x) {
  return element_row(row_of(activation).op).apply(x, 0, 0, alpha, beta);
}

}  // namespace stretto
