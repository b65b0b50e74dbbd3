#include "stretto/passes/bisect.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/ir/interpreter.h"
#include "stretto/passes/run_passes.h"

namespace stretto::passes {
namespace {

struct Difference {
  std::string output;
  double error = 0;
};

Difference compare(const ir::Graph& graph, const std::vector<Tensor>& expected,
                   const std::vector<Tensor>& got) {
  Difference worst;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto a = expected[i].as_doubles(), b = got[i].as_doubles();
    double largest = 0, difference = 0;
    for (size_t j = 0; j < a.size(); ++j) {
      const bool same = a[j] == b[j] || (std::isnan(a[j]) && std::isnan(b[j]));
      if (std::isfinite(a[j])) largest = std::max(largest, std::fabs(a[j]));
      if (same) continue;
      const double d = std::fabs(a[j] - b[j]);
      difference = std::max(difference, std::isfinite(d) ? d : HUGE_VAL);
    }
    const double error = difference == 0 ? 0 : difference / std::max(largest, 1e-30);
    if (error >= worst.error) worst = {graph.value(graph.outputs[i]).name, error};
  }
  return worst;
}

}  // namespace

std::optional<Culprit> bisect(const ir::Graph& graph, std::span<const Tensor> inputs,
                              const PipelineOptions& options, double tolerance, ThreadTeam* team,
                              std::span<const Pass* const> passes) {
  const ir::InterpretOptions interpretation{.float64 = true, .team = team};
  ir::Graph untouched = graph;
  ir::infer(untouched);
  const std::vector<Tensor> expected = ir::interpret(untouched, inputs, interpretation);

  std::vector<Fired> fired;
  const auto difference_after = [&](int applications) {
    ir::Graph rewritten = graph;
    std::vector<Fired> seen;
    PipelineOptions limited = options;
    limited.max_applications = applications;
    limited.observe = [&](const Fired& application) { seen.push_back(application); };
    Difference difference;
    try {
      run_passes(passes, rewritten, limited);
      difference = compare(untouched, expected, ir::interpret(rewritten, inputs, interpretation));
    } catch (const std::exception& error) {
      difference = {error.what(), HUGE_VAL};
    }
    if (seen.size() > fired.size()) fired = std::move(seen);
    return difference;
  };

  Difference found = difference_after(options.max_applications);
  if (found.error <= tolerance) return std::nullopt;
  int good = 0, bad = static_cast<int>(fired.size());
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    const Difference difference = difference_after(middle);
    if (difference.error > tolerance) {
      bad = middle;
      found = difference;
    } else {
      good = middle;
    }
  }
  Culprit culprit{.application = bad, .output = found.output, .error = found.error};
  if (bad > 0) culprit.fired = fired[static_cast<size_t>(bad) - 1];
  return culprit;
}

}  // namespace stretto::passes
