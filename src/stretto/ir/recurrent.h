// What a node of RNN, GRU or LSTM says: for the reference and for the lowering.
#pragma once

#include <string_view>
#include <vector>

#include "stretto/ir/graph.h"
#include "stretto/tensor/elementwise.h"

namespace stretto::ir {

enum class Cell : uint8_t { kRnn, kGru, kLstm };

// A function of the list that ONNX gives for recurrent operators.
struct RecurrentFunction {
  std::string_view name;  // ONNX's; models write it in any case
  int numbers;            // how many of alpha and beta it takes
  double alpha, beta;     // the defaults; NaN: there is none
  double (*apply)(double x, double alpha, double beta);
  Activation activation;  // what kernels call it; kNone: they do not have it
};

struct RecurrentActivation {
  const RecurrentFunction* function;
  double alpha, beta;
};

struct RecurrentForm {
  Cell cell;
  int gates;                 // of all operators in ONNX's order: RNN i, GRU z r h, LSTM i o f c
  int functions;             // per direction: RNN f, GRU f g, LSTM f g h
  int directions;            // 1 or 2
  bool reverse[2];           // whether a direction starts at the last step
  bool batch_first;          // layout 1
  bool input_forget;         // LSTM: f = 1 - i
  bool linear_before_reset;  // GRU: the reset gate acts on the product instead of on the state
  double clip;               // of the sums that gates are made of; infinity: none
  std::vector<RecurrentActivation> activations;  // those of direction 0, then those of direction 1
};

// Throws InvalidArgument naming the attribute. `op` is "RNN", "GRU" or "LSTM".
RecurrentForm recurrent_form(std::string_view op, const Attributes& attributes);

struct RecurrentSizes {
  int64_t steps, batch, inputs, hidden;
};
RecurrentSizes recurrent_sizes(const RecurrentForm& form, const Shape& x, const Shape& r);

}  // namespace stretto::ir
