#include "stretto/runtime/layout.h"

#include <algorithm>
#include <limits>
#include <map>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"

namespace stretto::runtime {
namespace {

using Mask = uint8_t;  // of layouts in which a value exists
constexpr Mask bit(Layout layout) { return static_cast<Mask>(1u << static_cast<int>(layout)); }

// One combination of layouts of the live values, and the cheapest way to reach it.
struct State {
  double cost = 0;
  int parent = -1;  // index into the previous step's states
  int variant = 0;
  std::vector<std::pair<int, Layout>> reorders;  // input index, wanted layout: before this step
};

using Live = std::map<ir::ValueId, Mask>;

Layout source_layout(Mask mask) {
  return mask & bit(Layout::kPlain) ? Layout::kPlain : Layout::kBlocked;
}

}  // namespace

std::vector<PlacedStep> choose_layouts(const Lowered& lowered, const Costs& costs, int beam) {
  const ir::Graph& graph = *lowered.graph;
  const auto& steps = lowered.steps;
  std::vector<int> last_use(graph.values.size(), -1);
  for (size_t s = 0; s < steps.size(); ++s) {
    for (ir::ValueId id : steps[s].inputs) last_use[id] = static_cast<int>(s);
  }
  // Outputs must be plain at the end: keep them alive until then.
  const int end = static_cast<int>(steps.size());
  for (ir::ValueId id : graph.outputs) last_use[id] = end;

  std::vector<std::vector<State>> history;  // per step
  Live start;
  for (ir::ValueId id : graph.inputs) start[id] = bit(Layout::kPlain);
  std::map<Live, State> current{{start, State{}}};
  std::vector<Live> keys{start};  // of the current states, by index
  history.push_back({State{}});

  for (size_t s = 0; s < steps.size(); ++s) {
    check_interrupt();
    const Step& step = steps[s];
    std::map<Live, State> next;
    const std::vector<State>& states = history.back();
    const int variants = static_cast<int>(step.variants.size());
    STRETTO_CHECK(variants > 0, "{}: no variants", step.node->name);
    std::vector<double> variant_cost(step.variants.size());
    for (int v = 0; v < variants; ++v) variant_cost[v] = costs.step(step, v);
    for (size_t i = 0; i < states.size(); ++i) {
      for (int v = 0; v < variants; ++v) {
        const Variant& variant = step.variants[v];
        State state{
            .cost = states[i].cost + variant_cost[v], .parent = static_cast<int>(i), .variant = v};
        Live live = keys[i];
        for (size_t in = 0; in < step.inputs.size(); ++in) {
          const ir::ValueId id = step.inputs[in];
          if (graph.value(id).is_constant()) continue;
          Mask& mask = live[id];
          const Layout wanted = variant.inputs[in];
          if (mask & bit(wanted)) continue;
          state.cost += costs.reorder(id, source_layout(mask), wanted);
          state.reorders.emplace_back(static_cast<int>(in), wanted);
          mask |= bit(wanted);
        }
        for (size_t out = 0; out < step.outputs.size(); ++out) {
          live[step.outputs[out]] = bit(variant.outputs[out]);
        }
        std::erase_if(
            live, [&](const auto& entry) { return last_use[entry.first] <= static_cast<int>(s); });
        auto [at, fresh] = next.try_emplace(std::move(live), state);
        if (!fresh && state.cost < at->second.cost) at->second = std::move(state);
      }
    }
    std::vector<std::pair<double, Live>> order;
    for (const auto& [live, state] : next) order.emplace_back(state.cost, live);
    std::sort(order.begin(), order.end());
    if (static_cast<int>(order.size()) > beam) order.resize(beam);
    keys.clear();
    std::vector<State> kept;
    for (auto& [cost, live] : order) {
      kept.push_back(std::move(next[live]));
      keys.push_back(std::move(live));
    }
    history.push_back(std::move(kept));
  }

  // The cheapest end, outputs brought to plain.
  int best = -1;
  double best_cost = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < keys.size(); ++i) {
    double cost = history.back()[i].cost;
    for (ir::ValueId id : graph.outputs) {
      const auto at = keys[i].find(id);
      if (at != keys[i].end() && !(at->second & bit(Layout::kPlain))) {
        cost += costs.reorder(id, Layout::kBlocked, Layout::kPlain);
      }
    }
    if (cost < best_cost) {
      best_cost = cost;
      best = static_cast<int>(i);
    }
  }
  std::vector<PlacedStep> placed;
  const Live& final_live = keys[best];
  std::vector<ir::ValueId> to_plain;
  for (ir::ValueId id : graph.outputs) {
    const auto at = final_live.find(id);
    const bool seen = std::find(to_plain.begin(), to_plain.end(), id) != to_plain.end();
    if (at != final_live.end() && !(at->second & bit(Layout::kPlain)) && !seen) {
      to_plain.push_back(id);
    }
  }
  for (ir::ValueId id : to_plain) {
    placed.push_back({.value = id, .from = Layout::kBlocked, .to = Layout::kPlain});
  }
  for (size_t s = steps.size(); s-- > 0;) {
    const State& state = history[s + 1][best];
    placed.push_back({.step = &steps[s], .variant = state.variant});
    for (size_t r = state.reorders.size(); r-- > 0;) {
      const auto [in, wanted] = state.reorders[r];
      const Layout from = wanted == Layout::kPlain ? Layout::kBlocked : Layout::kPlain;
      placed.push_back({.value = steps[s].inputs[in], .from = from, .to = wanted});
    }
    best = state.parent;
  }
  std::reverse(placed.begin(), placed.end());
  return placed;
}

}  // namespace stretto::runtime
