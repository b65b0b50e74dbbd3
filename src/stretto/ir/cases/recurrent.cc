// Cases of RNN, GRU and LSTM.
#include <string>
#include <vector>

#include "stretto/ir/cases/table.h"

namespace stretto::ir::cases {
namespace {

// Functions that keep a state bounded, then any.
void draw_activations(CaseDraw& d, int64_t functions) {
  if (!d.rarely()) return;
  std::vector<std::string> names;
  bool needs_numbers = false;
  for (int64_t i = 0; i < functions; ++i) {
    names.emplace_back(
        d.maybe() ? d.one_of<std::string_view>({"Relu", "LeakyRelu", "Elu", "ThresholdedRelu",
                                                "Softplus", "Affine", "ScaledTanh"})
                  : d.one_of<std::string_view>({"Tanh", "Sigmoid", "HardSigmoid", "softsign"}));
    needs_numbers = needs_numbers || names.back() == "ScaledTanh";
  }
  d.set("activations", names);
  if (needs_numbers || d.maybe()) {
    d.set("activation_alpha", std::vector<double>(static_cast<size_t>(functions), 0.4));
    d.set("activation_beta", std::vector<double>(static_cast<size_t>(functions), 0.3));
  }
}

void draw(CaseDraw& d, int64_t gates, int64_t functions) {
  const int64_t steps = d.dim(6), batch = d.batch(), inputs = d.dim(17), hidden = d.dim(19);
  const std::string direction = d.text("direction", "forward", {"reverse", "bidirectional"});
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  const bool batch_first = d.toggle("layout");
  draw_activations(d, functions * directions);
  if (d.rarely()) d.set("clip", 0.7);
  d.integer("hidden_size", hidden, {hidden});
  if (gates == 3) d.toggle("linear_before_reset");
  if (gates == 4 && d.rarely()) d.set("input_forget", int64_t{1});
  const Shape state =
      batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  d.input(batch_first ? Shape{batch, steps, inputs} : Shape{steps, batch, inputs});
  // Mostly as models have them: weights that are known.
  const auto weights = [&](Shape shape, Fill fill) {
    d.rarely() ? d.input(std::move(shape), fill) : d.weight(std::move(shape), fill);
  };
  weights({directions, gates * hidden, inputs}, Fill::kTame);
  weights({directions, gates * hidden, hidden}, Fill::kTame);
  const bool bias = d.maybe(), lengths = d.rarely(), initial = d.maybe();
  bias ? weights({directions, 2 * gates * hidden}, Fill::kAny) : d.absent();
  lengths ? d.index({batch}, steps + 1) : d.absent();
  initial ? d.either(state) : d.absent();
  if (gates == 4) {
    const bool cell = d.maybe(), peepholes = d.rarely();
    cell ? d.either(state) : d.absent();
    peepholes ? weights({directions, 3 * hidden}, Fill::kTame) : d.absent();
  }
  d.outputs(static_cast<int>(d.between(1, gates == 4 ? 3 : 2)));
}

}  // namespace

void rnn(CaseDraw& d) { draw(d, 1, 1); }
void gru(CaseDraw& d) { draw(d, 3, 2); }
void lstm(CaseDraw& d) { draw(d, 4, 3); }

}  // namespace stretto::ir::cases
