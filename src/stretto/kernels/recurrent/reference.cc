#include <algorithm>

#include "stretto/kernels/packing.h"
#include "stretto/kernels/recurrent/candidates.h"

namespace stretto::kernels::recurrent {
namespace {

Fit fits(const RecurrentProblem&) { return Fit::yes(0.001); }

std::string packing(const RecurrentProblem&) { return packing_text("recurrent_plain", 1, 1); }

// The constants one behind the other, those that are absent as zeros.
struct Constants {
  int64_t weight, recurrent, bias, peephole, end;

  explicit Constants(const RecurrentProblem& p) {
    const int64_t rows = p.directions * p.gates() * p.hidden;
    weight = 0;
    recurrent = rows * p.inputs;
    bias = recurrent + rows * p.hidden;
    peephole = bias + 2 * rows;
    end = peephole + 3 * p.directions * p.hidden;
  }
};

size_t packed_bytes(const RecurrentProblem& p) {
  return static_cast<size_t>(Constants(p).end) * sizeof(float);
}

void pack(const RecurrentProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const Constants at(p);
  float* out = reinterpret_cast<float*>(packed);
  std::fill_n(out, at.end, 0.0f);
  size_t next = 0;
  const auto copy = [&](int64_t to) {
    std::ranges::copy(constants[next++].values<float>(), out + to);
  };
  copy(at.weight);
  copy(at.recurrent);
  if (p.bias) copy(at.bias);
  if (p.peephole) copy(at.peephole);
}

// Doubles of one thread: the state, the cell, the reset state, and the sums of inputs and state.
int64_t thread_scratch(const RecurrentProblem& p) { return (3 + 2 * p.gates()) * p.hidden; }

size_t scratch_bytes(const RecurrentProblem& p) {
  return static_cast<size_t>(thread_scratch(p) * p.target.threads) * sizeof(double);
}

// One direction of one row of the batch.
struct Sequence {
  const RecurrentProblem& p;
  int64_t direction;
  const float *weight, *recurrent, *bias, *peephole;  // of the direction
  double *h, *cell, *reset, *inputs, *states;

  double applied(int function, double x) const {
    const RecurrentFunction& f = p.functions[direction][function];
    return apply_activation(f.activation, f.alpha, f.beta, x);
  }
  double activated(int function, double sum) const {
    if (p.clips) sum = element_row(ElementOp::kClip).apply(sum, 0, 0, -p.clip, p.clip);
    return applied(function, sum);
  }
  double gate(int64_t row) const { return inputs[row] + states[row]; }

  void add_inputs(const float* x) const {
    const int64_t rows = p.gates() * p.hidden;
    for (int64_t row = 0; row < rows; ++row) {
      double sum = bias[row];
      for (int64_t i = 0; i < p.inputs; ++i) {
        sum += static_cast<double>(x[i]) * weight[row * p.inputs + i];
      }
      inputs[row] = sum;
    }
  }

  // Sums of gates [begin, end) over `state`.
  void add_states(const double* state, int begin, int end) const {
    for (int64_t row = begin * p.hidden; row < end * p.hidden; ++row) {
      double sum = bias[p.gates() * p.hidden + row];
      for (int64_t k = 0; k < p.hidden; ++k) sum += state[k] * recurrent[row * p.hidden + k];
      states[row] = sum;
    }
  }

  // Nothing where there is no peephole, also of an infinite cell.
  double peeped(int which, int64_t unit) const {
    return p.peephole ? peephole[which * p.hidden + unit] * cell[unit] : 0;
  }

  void step_lstm() const {
    add_states(h, 0, 4);
    for (int64_t u = 0; u < p.hidden; ++u) {
      const double i = activated(0, gate(u) + peeped(0, u));
      const double f = p.input_forget ? 1 - i : activated(0, gate(2 * p.hidden + u) + peeped(2, u));
      cell[u] = f * cell[u] + i * activated(1, gate(3 * p.hidden + u));
      const double o = activated(0, gate(p.hidden + u) + peeped(1, u));
      h[u] = o * applied(2, cell[u]);
    }
  }

  void step_gru() const {
    add_states(h, 0, p.linear_before_reset ? 3 : 2);
    for (int64_t u = 0; u < p.hidden; ++u) reset[u] = activated(0, gate(p.hidden + u));
    if (!p.linear_before_reset) {
      for (int64_t u = 0; u < p.hidden; ++u) reset[u] *= h[u];
      add_states(reset, 2, 3);
    }
    for (int64_t u = 0; u < p.hidden; ++u) {
      const double z = activated(0, gate(u)), state = states[2 * p.hidden + u];
      const double sum = inputs[2 * p.hidden + u] + (p.linear_before_reset ? reset[u] : 1) * state;
      h[u] = (1 - z) * activated(1, sum) + z * h[u];
    }
  }

  void step_rnn() const {
    add_states(h, 0, 1);
    for (int64_t u = 0; u < p.hidden; ++u) h[u] = activated(0, gate(u));
  }
};

void run_sequence(const Sequence& s, const RecurrentArgs& a, int64_t row) {
  const RecurrentProblem& p = s.p;
  const int64_t state = p.state_row(s.direction, row) * p.hidden, length = a.length(p, row);
  for (int64_t u = 0; u < p.hidden; ++u) {
    s.h[u] = a.initial_h ? a.initial_h[state + u] : 0;
    s.cell[u] = a.initial_c ? a.initial_c[state + u] : 0;
  }
  for (int64_t step = 0; step < p.steps; ++step) {
    const bool runs = step < length;
    const int64_t t = runs && p.reverse[s.direction] ? length - 1 - step : step;
    if (runs) {
      s.add_inputs(a.x + p.x_row(t, row) * p.inputs);
      if (p.cell == RecurrentCell::kLstm) s.step_lstm();
      if (p.cell == RecurrentCell::kGru) s.step_gru();
      if (p.cell == RecurrentCell::kRnn) s.step_rnn();
    }
    float* y = a.y ? a.y + p.y_row(t, s.direction, row) * p.hidden : nullptr;
    for (int64_t u = 0; u < p.hidden && y != nullptr; ++u) {
      y[u] = runs ? static_cast<float>(s.h[u]) : 0.0f;
    }
  }
  for (int64_t u = 0; u < p.hidden; ++u) {
    if (a.y_h) a.y_h[state + u] = static_cast<float>(s.h[u]);
    if (a.y_c) a.y_c[state + u] = static_cast<float>(s.cell[u]);
  }
}

void run(const RecurrentProblem& p, const Args& args, const Worker& worker) {
  const RecurrentArgs a = recurrent_args(p, args);
  const Constants at(p);
  const float* constants = reinterpret_cast<const float*>(args.packed);
  const int64_t rows = p.gates() * p.hidden;
  double* memory = reinterpret_cast<double*>(args.scratch) + worker.thread * thread_scratch(p);
  const Range range = split(p.directions * p.batch, worker);
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int64_t d = i / p.batch;
    run_sequence({.p = p,
                  .direction = d,
                  .weight = constants + at.weight + d * rows * p.inputs,
                  .recurrent = constants + at.recurrent + d * rows * p.hidden,
                  .bias = constants + at.bias + d * 2 * rows,
                  .peephole = constants + at.peephole + d * 3 * p.hidden,
                  .h = memory,
                  .cell = memory + p.hidden,
                  .reset = memory + 2 * p.hidden,
                  .inputs = memory + 3 * p.hidden,
                  .states = memory + 3 * p.hidden + rows},
                 a, i % p.batch);
  }
}

}  // namespace

const Row kReference{.name = "reference",
                     .fits = fits,
                     .packed_bytes = packed_bytes,
                     .pack = pack,
                     .packing = packing,
                     .scratch_bytes = scratch_bytes,
                     .run = run};

}  // namespace stretto::kernels::recurrent
