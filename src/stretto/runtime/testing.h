// Models for the runtime's own tests, from the text form of a graph.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "stretto/ir/text.h"
#include "stretto/runtime/compile.h"
#include "stretto/runtime/model_state.h"

namespace stretto::runtime {

// Compiled as it stands (no passes), kernels in built-in order but for families with a forced one.
inline Model model_of(std::string_view text, int threads = 1,
                      std::map<std::string, std::string> forced = {}) {
  auto graph = std::make_shared<ir::Graph>(ir::parse_text(text));
  Selector selector({.forced = std::move(forced)});
  Compiled compiled = compile(graph, {.isa = usable_isa(), .threads = threads}, selector, {});
  auto state = std::make_shared<Model::State>();
  state->name = graph->name;
  state->program = std::make_shared<Program>(std::move(compiled.program));
  state->graph = std::move(graph);
  state->choices = selector.used();
  state->report_json = "{}";
  return Model(std::move(state));
}

// Residual block, stride, concatenation, head: every kind of step.
inline constexpr std::string_view kSmallNet = R"(
  graph small
  input x: float32[1, 3, 33, 31]
  constant w0: float32[32, 3, 3, 3] = random(1)
  constant b0: float32[32] = random(2)
  constant w1: float32[32, 32, 3, 3] = random(3)
  constant b1: float32[32] = random(4)
  constant w2: float32[48, 32, 1, 1] = random(5)
  constant w3: float32[80, 10] = random(6)
  a = stretto.Conv(x, w0, b0) {strides = [2, 2], pads = [1, 1, 1, 1], activation = "relu"}
  b = stretto.Conv(a, w1, b1, a) {pads = [1, 1, 1, 1], activation = "relu"}
  c = stretto.Conv(b, w2) {activation = "silu"}
  d = Concat(b, c) {axis = 1}
  e = GlobalAveragePool(d)
  f = Flatten(e)
  y = stretto.Linear(f, w3)
  output y, d
)";

}  // namespace stretto::runtime
