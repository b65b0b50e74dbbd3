#include "stretto/runtime/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace stretto::runtime {
namespace {

// A chain or DAG of unary and binary steps with made-up costs per (in, out) layout.
struct Toy {
  std::shared_ptr<ir::Graph> graph = std::make_shared<ir::Graph>();
  Lowered lowered;
  std::vector<std::vector<double>> costs;  // per step, per variant

  ir::ValueId value(const std::string& name) {
    return graph->add_value(name, DType::kFloat32, Shape{1, 16, 4, 4});
  }

  void step(std::vector<ir::ValueId> inputs, ir::ValueId output, std::vector<double> cost) {
    Step s{.inputs = inputs, .outputs = {output}, .node = &graph->nodes.front()};
    for (int v = 0; v < 4; ++v) {
      const Layout in = v & 2 ? Layout::kBlocked : Layout::kPlain;
      const Layout out = v & 1 ? Layout::kBlocked : Layout::kPlain;
      s.variants.push_back({{}, std::vector<Layout>(inputs.size(), in), {out}});
    }
    lowered.steps.push_back(std::move(s));
    costs.push_back(std::move(cost));
  }

  Costs functions(double reorder) {
    return {.step = [this](const Step& s, int v) { return costs[&s - lowered.steps.data()][v]; },
            .reorder = [reorder](ir::ValueId, Layout, Layout) { return reorder; }};
  }
};

// Total cost of a placement, checking that every operand is there in the layout it is used in.
double replay(const Toy& toy, const std::vector<PlacedStep>& placed, double reorder) {
  std::map<ir::ValueId, std::set<Layout>> have;
  for (ir::ValueId id : toy.graph->inputs) have[id].insert(Layout::kPlain);
  double cost = 0;
  for (const PlacedStep& p : placed) {
    if (p.step == nullptr) {
      EXPECT_TRUE(have[p.value].contains(p.from));
      have[p.value].insert(p.to);
      cost += reorder;
      continue;
    }
    const Variant& v = p.step->variants[p.variant];
    for (size_t i = 0; i < p.step->inputs.size(); ++i) {
      EXPECT_TRUE(have[p.step->inputs[i]].contains(v.inputs[i]));
    }
    have[p.step->outputs[0]] = {v.outputs[0]};
    cost += toy.costs[p.step - toy.lowered.steps.data()][p.variant];
  }
  for (ir::ValueId id : toy.graph->outputs) EXPECT_TRUE(have[id].contains(Layout::kPlain));
  return cost;
}

// All variant combinations, reorders inserted greedily as needed: exponential, exact.
double brute_force(const Toy& toy, double reorder) {
  const size_t n = toy.lowered.steps.size();
  double best = 1e30;
  for (int code = 0; code < (1 << (2 * n)); ++code) {
    std::map<ir::ValueId, std::set<Layout>> have;
    for (ir::ValueId id : toy.graph->inputs) have[id].insert(Layout::kPlain);
    double cost = 0;
    const auto need = [&](ir::ValueId id, Layout layout) {
      if (have[id].insert(layout).second) cost += reorder;
    };
    for (size_t s = 0; s < n; ++s) {
      const int v = code >> (2 * s) & 3;
      const Step& step = toy.lowered.steps[s];
      for (ir::ValueId id : step.inputs) need(id, step.variants[v].inputs[0]);
      have[step.outputs[0]] = {step.variants[v].outputs[0]};
      cost += toy.costs[s][v];
    }
    for (ir::ValueId id : toy.graph->outputs) need(id, Layout::kPlain);
    best = std::min(best, cost);
  }
  return best;
}

TEST(Layout, FindsTheOptimumOnRandomGraphs) {
  std::mt19937 random(11);
  const auto uniform = [&] { return static_cast<double>(random() % 1000) / 100; };
  for (int round = 0; round < 40; ++round) {
    Toy toy;
    toy.graph->nodes.emplace_back().name = "toy";
    std::vector<ir::ValueId> made{toy.value("x")};
    toy.graph->inputs = {made[0]};
    for (int s = 0; s < 6; ++s) {
      std::vector<ir::ValueId> inputs{made[random() % made.size()]};
      if (random() % 2) inputs.push_back(made[random() % made.size()]);
      const ir::ValueId out = toy.value("v" + std::to_string(s));
      toy.step(inputs, out, {uniform(), uniform(), uniform(), uniform()});
      made.push_back(out);
    }
    toy.graph->outputs = {made.back(), made[3]};
    toy.lowered.graph = toy.graph;
    const double reorder = uniform();
    const auto placed = choose_layouts(toy.lowered, toy.functions(reorder));
    EXPECT_NEAR(replay(toy, placed, reorder), brute_force(toy, reorder), 1e-9)
        << "seed 11, round " << round;
  }
}

TEST(Layout, OneReorderServesAllUsers) {
  Toy toy;
  toy.graph->nodes.emplace_back().name = "toy";
  const ir::ValueId x = toy.value("x"), a = toy.value("a"), b = toy.value("b");
  toy.graph->inputs = {x};
  toy.graph->outputs = {a, b};
  // Only blocked input is cheap, output plain.
  toy.step({x}, a, {100, 100, 1, 100});
  toy.step({x}, b, {100, 100, 1, 100});
  toy.lowered.graph = toy.graph;
  const auto placed = choose_layouts(toy.lowered, toy.functions(5));
  EXPECT_EQ(std::count_if(placed.begin(), placed.end(),
                          [](const PlacedStep& p) { return p.step == nullptr; }),
            1);
  EXPECT_DOUBLE_EQ(replay(toy, placed, 5), 7);
}

}  // namespace
}  // namespace stretto::runtime
