// Elementwise operations and activations by name, from the one table in elementwise.inc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace stretto {

enum class ElementOp : uint8_t {
#define STRETTO_ELEMENT(name, operands, use, formula) k##name,
#include "stretto/tensor/elementwise.inc"
};

struct ElementRow {
  enum class Use : uint8_t { kOnnx, kProgram, kKernel };

  ElementOp op;
  std::string_view name;  // "LeakyRelu"
  int operands;           // a, b, c
  int numbers;            // alpha, beta
  double alpha, beta;     // their defaults
  Use use;
  bool truth;  // whether the result is truth, 1 or 0, whatever the operands are
  double (*apply)(double a, double b, double c, double alpha, double beta);

  // Arguments in a program of stretto.Elementwise: the operands, then the numbers.
  int arguments() const { return operands + numbers; }
  double apply_to(const double* arguments) const;
};

std::span<const ElementRow> element_rows();  // row i is that of ElementOp i
const ElementRow& element_row(ElementOp op);
const ElementRow* find_element(std::string_view name);  // null when there is none

// What a convolution or a matrix product may do to its result: y = activation(x).
enum class Activation : uint8_t {
  kNone,
#define STRETTO_ELEMENT(name, operands, use, formula)
#define STRETTO_ACTIVATION(name, text, numbers, alpha, beta, use, formula) k##name,
#include "stretto/tensor/elementwise.inc"
};

inline constexpr size_t kActivationCount = 1  // kNone
#define STRETTO_ELEMENT(name, operands, use, formula)
#define STRETTO_ACTIVATION(name, text, numbers, alpha, beta, use, formula) +1
#include "stretto/tensor/elementwise.inc"
    ;
std::span<const Activation, kActivationCount> activations();        // all of them, kNone first
std::string_view activation_name(Activation activation);            // "leaky_relu"
std::optional<Activation> parse_activation(std::string_view name);  // the inverse
// The activation that computes a row of the table; nothing for other rows.
std::optional<Activation> activation_of(ElementOp op);
double apply_activation(Activation activation, double alpha, double beta, double x);

}  // namespace stretto
