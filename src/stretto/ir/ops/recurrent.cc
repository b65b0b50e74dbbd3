// RNN, GRU and LSTM: one product for the inputs of all steps, then one per step for the state.
#include <algorithm>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/matrix_product.h"
#include "stretto/ir/ops/table.h"
#include "stretto/ir/recurrent.h"
#include "stretto/tensor/formulas.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'},
                            {"W", kRealTypes, Arity::kRequired, 'T'},
                            {"R", kRealTypes, Arity::kRequired, 'T'},
                            {"B", kRealTypes, Arity::kOptional, 'T'},
                            {"sequence_lens", type_bit(DType::kInt32), Arity::kOptional},
                            {"initial_h", kRealTypes, Arity::kOptional, 'T'},
                            {"initial_c", kRealTypes, Arity::kOptional, 'T'},
                            {"P", kRealTypes, Arity::kOptional, 'T'}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kOptional, 'T'},
                             {"Y_h", kRealTypes, Arity::kOptional, 'T'},
                             {"Y_c", kRealTypes, Arity::kOptional, 'T'}};
constexpr std::span<const Port> kAllInputs = kInputs, kAllOutputs = kOutputs;

// Those of all three, then what only some of them have.
constexpr AttributeSpec kRnnAttributes[] = {{"activation_alpha", AttributeKind::kFloats},
                                            {"activation_beta", AttributeKind::kFloats},
                                            {"activations", AttributeKind::kStrings},
                                            {"clip", AttributeKind::kFloat},
                                            {"direction", AttributeKind::kString},
                                            {"hidden_size", AttributeKind::kInt},
                                            {"layout", AttributeKind::kInt}};
constexpr AttributeSpec kGruAttributes[] = {
    kRnnAttributes[0], kRnnAttributes[1],
    kRnnAttributes[2], kRnnAttributes[3],
    kRnnAttributes[4], kRnnAttributes[5],
    kRnnAttributes[6], {"linear_before_reset", AttributeKind::kInt}};
constexpr AttributeSpec kLstmAttributes[] = {
    kRnnAttributes[0], kRnnAttributes[1], kRnnAttributes[2], kRnnAttributes[3],
    kRnnAttributes[4], kRnnAttributes[5], kRnnAttributes[6], {"input_forget", AttributeKind::kInt}};

template <Cell kCell>
constexpr std::string_view kName = kCell == Cell::kLstm  ? "LSTM"
                                   : kCell == Cell::kGru ? "GRU"
                                                         : "RNN";

template <Cell kCell>
void infer(Inference& c) {
  const RecurrentForm form = recurrent_form(kName<kCell>, c.attributes());
  if (c.rank(0) != 3 || c.rank(2) != 3) {
    throw_invalid("X and R: expected three dimensions each, got {} and {}", shape_text(c.shape(0)),
                  shape_text(c.shape(2)));
  }
  const auto [steps, batch, inputs, hidden] = recurrent_sizes(form, c.shape(0), c.shape(2));
  const int64_t directions = form.directions, rows = form.gates * hidden;
  const auto expect = [&](int i, const Shape& wanted) {
    if (!c.has_input(i) || c.shape(i) == wanted) return;
    throw_invalid("{}: expected shape {}, got {}", kInputs[i].name, shape_text(wanted),
                  shape_text(c.shape(i)));
  };
  const int64_t said = c.attributes().integer("hidden_size", hidden);
  if (said != hidden) {
    throw_invalid("hidden_size: is {}, and R has {} columns", said, hidden);
  }
  const Shape state =
      form.batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  expect(1, {directions, rows, inputs});
  expect(2, {directions, rows, hidden});
  expect(3, {directions, 2 * rows});
  expect(4, {batch});
  expect(5, state);
  expect(6, state);
  expect(7, {directions, 3 * hidden});
  c.set_output(0, c.dtype(0),
               form.batch_first ? Shape{batch, steps, directions, hidden}
                                : Shape{steps, directions, batch, hidden});
  c.set_output(1, c.dtype(0), state);
  if (kCell == Cell::kLstm) c.set_output(2, c.dtype(0), state);
}

// One direction of a node, its tensors from where the direction's part of them begins. All sums and
// the state are double.
template <typename T>
struct Direction {
  const RecurrentForm& form;
  RecurrentSizes sizes;
  std::span<const RecurrentActivation> functions;
  bool reverse;
  const T *x, *w, *r, *bias, *peephole;  // bias and peephole may be null
  ThreadTeam* team;

  int64_t rows() const { return form.gates * sizes.hidden; }
  double bias_at(int64_t row, bool of_state) const {
    return bias == nullptr ? 0 : static_cast<double>(bias[row + (of_state ? rows() : 0)]);
  }
  double peephole_of(int which, int64_t unit, double cell) const {
    const int64_t at = which * sizes.hidden + unit;
    return peephole == nullptr ? 0 : static_cast<double>(peephole[at]) * cell;
  }
  double applied(int function, double x) const {
    const RecurrentActivation& a = functions[static_cast<size_t>(function)];
    return a.function->apply(x, a.alpha, a.beta);
  }
  double activated(int function, double sum) const {
    return applied(function, formulas::clip(sum, -form.clip, form.clip));
  }

  // [row of x, gate * hidden + unit]: what the inputs add to the gates, both biases included but
  // for that of the state where GRU's reset gate acts on the product.
  std::vector<double> input_sums() const {
    const int64_t count = sizes.steps * sizes.batch;
    std::vector<double> sums(static_cast<size_t>(count * rows()));
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t row = 0; row < rows(); ++row) {
        const bool later = form.linear_before_reset && row >= 2 * sizes.hidden;
        sums[static_cast<size_t>(i * rows() + row)] =
            bias_at(row, false) + (later ? 0 : bias_at(row, true));
      }
    }
    multiply(count, sizes.inputs, rows(), matrix_rows(x, sizes.inputs, 1),
             matrix_rows(w, 1, sizes.inputs), sums.data());
    return sums;
  }

  void multiply(int64_t m, int64_t k, int64_t n, Rows a, Rows b, double* sums) const {
    const Product product{
        .m = m, .n = n, .k = k, .a = std::move(a), .b = std::move(b), .c = sums, .row_stride = n};
    accumulate_products({&product, 1}, team);
  }
};

// What cells make of the sums of one row of the batch: the new state, in place.
template <typename T>
void step_rnn(const Direction<T>& d, const double* sums, double* h) {
  for (int64_t u = 0; u < d.sizes.hidden; ++u) h[u] = d.activated(0, sums[u]);
}

template <typename T>
void step_lstm(const Direction<T>& d, const double* sums, double* h, double* cell) {
  const int64_t hidden = d.sizes.hidden;
  for (int64_t u = 0; u < hidden; ++u) {
    const double input = d.activated(0, sums[u] + d.peephole_of(0, u, cell[u]));
    const double forget = d.form.input_forget
                              ? 1 - input
                              : d.activated(0, sums[2 * hidden + u] + d.peephole_of(2, u, cell[u]));
    cell[u] = forget * cell[u] + input * d.activated(1, sums[3 * hidden + u]);
    const double output = d.activated(0, sums[hidden + u] + d.peephole_of(1, u, cell[u]));
    h[u] = output * d.applied(2, cell[u]);
  }
}

// Sums of z and r are complete; `inputs` has the inputs' part of h, `states` the state's.
template <typename T>
void step_gru(const Direction<T>& d, const double* sums, const double* inputs, const double* states,
              double* h) {
  const int64_t hidden = d.sizes.hidden;
  for (int64_t u = 0; u < hidden; ++u) {
    const double update = d.activated(0, sums[u]);
    double state = states[u];
    if (d.form.linear_before_reset) {
      state = d.activated(0, sums[hidden + u]) * (state + d.bias_at(2 * hidden + u, true));
    }
    h[u] = (1 - update) * d.activated(1, inputs[u] + state) + update * h[u];
  }
}

// Runs all steps: h and cell are [batch, hidden]; write(step, row) is called when a row of h is
// new.
template <typename T, typename F>
void run_direction(const Direction<T>& d, const std::vector<int64_t>& lengths, double* h,
                   double* cell, const F& write) {
  const int64_t steps = d.sizes.steps, batch = d.sizes.batch, hidden = d.sizes.hidden;
  const int64_t rows = d.rows();
  const bool gru = d.form.cell == Cell::kGru, late_reset = d.form.linear_before_reset;
  const std::vector<double> input_sums = d.input_sums();
  // The product reads columns of R all the time: they become rows.
  std::vector<double> r(static_cast<size_t>(rows * hidden));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < hidden; ++k) r[k * rows + row] = d.r[row * hidden + k];
  }
  std::vector<double> sums(static_cast<size_t>(batch * rows)), states, reset;
  for (int64_t step = 0; step < steps; ++step) {
    const auto active = [&](int64_t b) { return step < lengths[b]; };
    const auto inputs_of = [&](int64_t b) {
      const int64_t t = d.reverse ? lengths[b] - 1 - step : step;
      const int64_t row = d.form.batch_first ? b * steps + t : t * batch + b;
      return input_sums.data() + row * rows;
    };
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t known = gru ? 2 * hidden : rows;
      std::fill_n(sums.begin() + b * rows, rows, 0.0);
      if (active(b)) std::copy_n(inputs_of(b), known, sums.begin() + b * rows);
    }
    d.multiply(batch, hidden, rows, matrix_rows<double>(h, hidden, 1),
               matrix_rows<double>(r.data(), rows, 1), sums.data());
    if (gru && !late_reset) {
      reset.resize(static_cast<size_t>(batch * hidden));
      states.assign(static_cast<size_t>(batch * hidden), 0);
      for (int64_t i = 0; i < batch * hidden; ++i) {
        reset[i] = d.activated(0, sums[i / hidden * rows + hidden + i % hidden]) * h[i];
      }
      d.multiply(batch, hidden, hidden, matrix_rows<double>(reset.data(), hidden, 1),
                 matrix_rows<double>(r.data() + 2 * hidden, rows, 1), states.data());
    }
    for (int64_t b = 0; b < batch; ++b) {
      if (!active(b)) continue;
      const double* row = sums.data() + b * rows;
      if (d.form.cell == Cell::kRnn) step_rnn(d, row, h + b * hidden);
      if (d.form.cell == Cell::kLstm) step_lstm(d, row, h + b * hidden, cell + b * hidden);
      if (gru) {
        step_gru(d, row, inputs_of(b) + 2 * hidden,
                 late_reset ? row + 2 * hidden : states.data() + b * hidden, h + b * hidden);
      }
      write(d.reverse ? lengths[b] - 1 - step : step, b);
    }
  }
}

template <Cell kCell, typename T>
void evaluate_as(Evaluation& c) {
  const RecurrentForm form = recurrent_form(kName<kCell>, c.attributes);
  const RecurrentSizes sizes = recurrent_sizes(form, c.inputs[0].shape(), c.inputs[2].shape());
  const int64_t steps = sizes.steps, batch = sizes.batch;
  const int64_t inputs = sizes.inputs, hidden = sizes.hidden;
  const int64_t directions = form.directions, rows = form.gates * hidden;
  std::vector<int64_t> lengths(static_cast<size_t>(batch), steps);
  if (c.has_input(4)) {
    lengths = c.inputs[4].as_int64s();
    for (int64_t& length : lengths) length = std::clamp<int64_t>(length, 0, steps);
  }
  T* outputs[3] = {};
  for (int i = 0; i < 3; ++i) {
    if (c.has_output(i)) outputs[i] = data_of<T>(c.make_output(i));
  }
  const auto part = [&](int i, int64_t count) {
    return c.has_input(i) ? data_of<T>(c.inputs[i]) + count : nullptr;
  };
  const auto per_direction = static_cast<size_t>(form.functions);
  std::vector<double> h(static_cast<size_t>(batch * hidden)), cell(h.size());
  for (int64_t d = 0; d < directions; ++d) {
    const Direction<T> direction{
        .form = form,
        .sizes = sizes,
        .functions = std::span(form.activations)
                         .subspan(static_cast<size_t>(d) * per_direction, per_direction),
        .reverse = form.reverse[d],
        .x = data_of<T>(c.inputs[0]),
        .w = part(1, d * rows * inputs),
        .r = part(2, d * rows * hidden),
        .bias = part(3, d * 2 * rows),
        .peephole = part(7, d * 3 * hidden),
        .team = c.team};
    // Where row b of this direction begins in a tensor of states.
    const auto state_at = [&](int64_t b) {
      return (form.batch_first ? b * directions + d : d * batch + b) * hidden;
    };
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t u = 0; u < hidden; ++u) {
        const auto initial = [&](int i) {
          return c.has_input(i) ? static_cast<double>(data_of<T>(c.inputs[i])[state_at(b) + u]) : 0;
        };
        h[b * hidden + u] = initial(5);
        cell[b * hidden + u] = initial(6);
      }
    }
    run_direction(direction, lengths, h.data(), cell.data(), [&](int64_t t, int64_t b) {
      if (outputs[0] == nullptr) return;
      const int64_t at =
          form.batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b;
      for (int64_t u = 0; u < hidden; ++u) {
        outputs[0][at * hidden + u] = static_cast<T>(h[b * hidden + u]);
      }
    });
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t u = 0; u < hidden; ++u) {
        if (outputs[1] != nullptr) outputs[1][state_at(b) + u] = static_cast<T>(h[b * hidden + u]);
        if (outputs[2] != nullptr) {
          outputs[2][state_at(b) + u] = static_cast<T>(cell[b * hidden + u]);
        }
      }
    }
  }
}

template <Cell kCell>
void evaluate(Evaluation& c) {
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() { evaluate_as<kCell, T>(c); });
}

double flops(const Graph& graph, const Node& node) {
  const Shape& x = *graph.value(node.inputs[0]).shape;
  const Shape& r = *graph.value(node.inputs[2]).shape;
  return 2.0 * static_cast<double>(x[0]) * static_cast<double>(x[1]) *
         static_cast<double>(r[0] * r[1]) * static_cast<double>(x[2] + r[2]);
}

template <Cell kCell>
constexpr Operator row(size_t inputs, size_t outputs, std::span<const AttributeSpec> attributes) {
  return {.name = kName<kCell>,
          .inputs = kAllInputs.first(inputs),
          .outputs = kAllOutputs.first(outputs),
          .attributes = attributes,
          .infer = infer<kCell>,
          .evaluate = evaluate<kCell>,
          .flops = flops};
}

constexpr Operator kRows[] = {
    row<Cell::kGru>(6, 2, kGruAttributes),
    row<Cell::kLstm>(8, 3, kLstmAttributes),
    row<Cell::kRnn>(6, 2, kRnnAttributes),
};

}  // namespace

std::span<const Operator> recurrent() { return kRows; }

}  // namespace stretto::ir::ops
