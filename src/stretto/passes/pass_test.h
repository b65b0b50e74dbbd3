// For tests: runs passes on a graph in text form and compares before with after.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/ir/interpreter.h"
#include "stretto/ir/operator.h"
#include "stretto/ir/text.h"
#include "stretto/passes/pass_list.h"
#include "stretto/passes/pipeline.h"

namespace stretto::passes {

// Inputs by type: floats in [-2, 2), bools, integers 0 or 1.
inline std::vector<Tensor> random_inputs(const ir::Graph& graph, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Tensor> inputs;
  for (ir::ValueId id : graph.inputs) {
    const ir::Value& value = graph.value(id);
    Tensor tensor(DType::kFloat32, *value.shape);
    for (float& v : tensor.mutable_values<float>()) {
      v = static_cast<float>(random() % 4096) / 1024 - 2;
      if (!is_float(value.dtype)) v = v > 0;
    }
    inputs.push_back(tensor.converted(value.dtype));
  }
  return inputs;
}

// Double-precision results agree to `tolerance` of the largest magnitude of each output. Folding
// weights rounds them to float32 once more, at most 6e-8 per product; hence 1e-6 by default.
inline void expect_same_results(const ir::Graph& before, const ir::Graph& after, double tolerance,
                                uint32_t seed = 1) {
  const std::vector<Tensor> inputs = random_inputs(before, seed);
  const auto expected = ir::interpret(before, inputs), got = ir::interpret(after, inputs);
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto a = expected[i].as_doubles(), b = got[i].as_doubles();
    ASSERT_EQ(a.size(), b.size());
    double largest = 0;
    for (double v : a) largest = std::max(largest, std::isfinite(v) ? std::fabs(v) : 0);
    for (size_t j = 0; j < a.size(); ++j) {
      if (std::isnan(a[j]) && std::isnan(b[j])) continue;
      ASSERT_NEAR(a[j], b[j], tolerance * std::max(largest, 1e-30))
          << "output " << before.value(before.outputs[i]).name << ", element " << j;
    }
  }
}

// What some passes made of a graph.
struct Rewritten {
  ir::Graph graph;
  std::vector<Fired> fired;

  int times(std::string_view rule) const {
    return static_cast<int>(
        std::count_if(fired.begin(), fired.end(), [&](const Fired& f) { return f.rule == rule; }));
  }
  int nodes(std::string_view op) const {
    return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                          [&](const ir::Node& n) { return n.op->name == op; }));
  }
  // The first node of that operator; fails the test when there is none.
  const ir::Node& node(std::string_view op) const {
    for (const ir::Node& n : graph.nodes) {
      if (n.op->name == op) return n;
    }
    ADD_FAILURE() << "no " << op << " in\n" << ir::to_text(graph, {.max_constant_elements = 8});
    return graph.nodes.front();
  }
  std::string program() const {  // of the first stretto.Elementwise
    return node("stretto.Elementwise").attributes.text("program", "");
  }
};

// Runs `list` one after the other, checking the graph after each, and compares the results.
inline Rewritten rewrite(std::string_view text, std::vector<const Pass*> list,
                         double tolerance = 1e-6, std::set<std::string> disabled = {}) {
  const ir::Graph before = ir::parse_text(text);
  Rewritten result{.graph = before};
  PassContext context(std::move(disabled));
  for (const Pass* pass : list) {
    context.enter(*pass);
    pass->run(result.graph, context);
    ir::infer(result.graph);
    ir::verify(result.graph);
  }
  result.fired = context.fired();
  for (size_t i = 0; i < before.outputs.size(); ++i) {
    EXPECT_EQ(result.graph.value(result.graph.outputs[i]).name,
              before.value(before.outputs[i]).name);
  }
  expect_same_results(before, result.graph, tolerance);
  return result;
}

}  // namespace stretto::passes
