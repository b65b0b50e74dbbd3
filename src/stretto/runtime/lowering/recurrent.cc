// RNN, GRU and LSTM with constant weights and functions that kernels have.
#include "stretto/kernels/recurrent/problem.h"

#include <cmath>

#include "stretto/ir/recurrent.h"
#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {
namespace {

using kernels::RecurrentCell;
using kernels::RecurrentProblem;

RecurrentCell cell_of(ir::Cell cell) {
  return cell == ir::Cell::kLstm  ? RecurrentCell::kLstm
         : cell == ir::Cell::kGru ? RecurrentCell::kGru
                                  : RecurrentCell::kRnn;
}

// False when kernels lack one of the functions.
bool take_functions(const ir::RecurrentForm& form, RecurrentProblem& p) {
  for (int d = 0; d < form.directions; ++d) {
    for (int i = 0; i < form.functions; ++i) {
      const auto& a = form.activations[static_cast<size_t>(d * form.functions + i)];
      if (a.function->activation == Activation::kNone) return false;
      kernels::RecurrentFunction& f = p.functions[d][i];
      f.activation = a.function->activation;
      f.alpha = static_cast<float>(a.alpha);
      f.beta = static_cast<float>(a.beta);
    }
  }
  return true;
}

}  // namespace

bool lower_recurrent(Lowering& l, const ir::Node& node) {
  const auto input = [&](size_t i) { return i < node.inputs.size() ? node.inputs[i] : ir::kNone; };
  const auto output = [&](size_t i) {
    return i < node.outputs.size() ? node.outputs[i] : ir::kNone;
  };
  const ir::RecurrentForm form = ir::recurrent_form(node.op->name, node.attributes);
  if (!l.is_float32(input(0))) return false;
  RecurrentProblem p{};
  p.target = l.target();
  const auto sizes = ir::recurrent_sizes(form, l.shape(input(0)), l.shape(input(2)));
  p.steps = sizes.steps;
  p.batch = sizes.batch;
  p.inputs = sizes.inputs;
  p.hidden = sizes.hidden;
  p.cell = cell_of(form.cell);
  p.directions = static_cast<uint8_t>(form.directions);
  for (int d = 0; d < 2; ++d) p.reverse[d] = form.reverse[d];
  p.batch_first = form.batch_first;
  p.input_forget = form.input_forget;
  p.linear_before_reset = form.linear_before_reset;
  p.clips = std::isfinite(form.clip);
  p.clip = p.clips ? static_cast<float>(form.clip) : 0;
  if (!take_functions(form, p)) return false;

  std::vector<Tensor> constants;
  for (const size_t i : {1, 2, 3, 7}) {
    if (input(i) == ir::kNone) continue;
    const Tensor* weight = l.constant(input(i));
    if (weight == nullptr) return false;
    constants.push_back(*weight);
  }
  std::vector<ir::ValueId> inputs{input(0)}, outputs;
  const auto take = [](ir::ValueId id, uint8_t& has, std::vector<ir::ValueId>& list) {
    has = id != ir::kNone;
    if (has) list.push_back(id);
  };
  p.bias = input(3) != ir::kNone;
  p.peephole = input(7) != ir::kNone;
  take(input(4), p.lengths, inputs);
  take(input(5), p.initial_h, inputs);
  take(input(6), p.initial_c, inputs);
  take(output(0), p.y, outputs);
  take(output(1), p.y_h, outputs);
  take(output(2), p.y_c, outputs);
  const std::vector<Layout> in(inputs.size(), Layout::kPlain), out(outputs.size(), Layout::kPlain);
  return l.add<RecurrentProblem>(node, kernels::kRecurrent, inputs, outputs, {{p, in, out}},
                                 std::move(constants));
}

}  // namespace stretto::runtime
