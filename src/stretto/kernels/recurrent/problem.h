// Recurrent layers over a whole sequence: RNN, GRU and LSTM, one or both directions.
#pragma once

#include "stretto/kernels/family.h"
#include "stretto/tensor/elementwise.h"

namespace stretto::kernels {

enum class RecurrentCell : uint8_t { kRnn, kGru, kLstm };

// activation(x) of one gate or state.
struct RecurrentFunction {
  Activation activation = Activation::kTanh;
  uint8_t reserved[3] = {};
  float alpha = 0, beta = 0;
};

// The layers of ONNX, with their order of gates (RNN i, GRU z r h, LSTM i o f c) and of functions
// (RNN f, GRU f g, LSTM f g h); https://onnx.ai/onnx/operators/onnx__LSTM.html has the formulas.
//
// Inputs: x [steps, batch, inputs], or [batch, steps, inputs] when `batch_first`; then, each if
// there is one, lengths [batch] (int32, bounded to 0 .. steps), initial_h and initial_c
// [directions, batch, hidden], or [batch, directions, hidden] when `batch_first`. Constants: weight
// [directions, gates * hidden, inputs], recurrent [directions, gates * hidden, hidden], then, each
// if there is one, bias [directions, 2 * gates * hidden] (of weight, then of recurrent) and
// peephole [directions, 3 * hidden] (i o f). Outputs, each if wanted: y [steps, directions, batch,
// hidden], or [batch, steps, directions, hidden] when `batch_first`, zero beyond a length; h and c
// after the last step, as initial_h.
struct RecurrentProblem {
  static constexpr int kMaxFunctions = 3;

  Target target{};
  int64_t steps = 1, batch = 1, inputs = 1, hidden = 1;
  RecurrentCell cell = RecurrentCell::kLstm;
  uint8_t directions = 1;
  uint8_t reverse[2] = {0, 1};  // 1: a direction starts at the last step
  uint8_t batch_first = 0;
  uint8_t lengths = 0, initial_h = 0, initial_c = 0, bias = 0, peephole = 0;
  uint8_t y = 1, y_h = 0, y_c = 0;
  uint8_t input_forget = 0;         // LSTM: f = 1 - i
  uint8_t linear_before_reset = 0;  // GRU: the reset gate acts on the product
  uint8_t clips = 0;                // the sums that gates are made of stay in [-clip, clip]
  float clip = 0;
  RecurrentFunction functions[2][kMaxFunctions] = {};  // of each direction
  uint8_t reserved[4] = {};

  int gates() const {
    return cell == RecurrentCell::kLstm ? 4 : cell == RecurrentCell::kGru ? 3 : 1;
  }
  int function_count() const { return cell == RecurrentCell::kRnn ? 1 : gates() - 1; }
  // Where a row of x, of y (times hidden) and of a state (times hidden) begins.
  int64_t x_row(int64_t step, int64_t row) const {
    return batch_first ? row * steps + step : step * batch + row;
  }
  int64_t y_row(int64_t step, int64_t direction, int64_t row) const {
    return batch_first ? (row * steps + step) * directions + direction
                       : (step * directions + direction) * batch + row;
  }
  int64_t state_row(int64_t direction, int64_t row) const {
    return batch_first ? row * directions + direction : direction * batch + row;
  }
};

// The tensors of a problem in Args, null where there is none.
struct RecurrentArgs {
  const float* x;
  const int32_t* lengths;
  const float *initial_h, *initial_c;
  float *y, *y_h, *y_c;

  int64_t length(const RecurrentProblem& p, int64_t row) const {
    if (lengths == nullptr) return p.steps;
    return lengths[row] < 0 ? 0 : lengths[row] < p.steps ? lengths[row] : p.steps;
  }
};
RecurrentArgs recurrent_args(const RecurrentProblem& p, const Args& args);

std::string problem_key(const RecurrentProblem& p);
std::string weights_key(RecurrentProblem p);
Signature problem_signature(const RecurrentProblem& p);
double problem_flops(const RecurrentProblem& p);

extern const Family kRecurrent;

}  // namespace stretto::kernels
