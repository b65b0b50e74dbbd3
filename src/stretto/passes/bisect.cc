#include "stretto/passes/bisect.h"

#include <cmath>

#include "stretto/base/error.h"
#include "stretto/ir/interpreter.h"
#include "stretto/passes/run_passes.h"
#include "stretto/tensor/compare.h"

namespace stretto::passes {
namespace {

struct Worst {
  std::string output;
  double error = 0;
};

Worst worst_output(const ir::Graph& graph, const std::vector<Tensor>& expected,
                   const std::vector<Tensor>& got) {
  Worst worst;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = compare(got[i], expected[i]).relative_to_max;
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

  for (size_t i = 0; i < expected.size(); ++i) {
    if (compare(expected[i], expected[i]).only_nan) {
      throw_invalid(
          "output {} is NaN everywhere before any rewrite: give inputs that suit the model",
          graph.value(graph.outputs[i]).name);
    }
  }

  std::vector<Fired> fired;
  const auto difference_after = [&](int applications) {
    ir::Graph rewritten = graph;
    std::vector<Fired> seen;
    PipelineOptions limited = options;
    limited.max_applications = applications;
    limited.observe = [&](const Fired& application) { seen.push_back(application); };
    Worst difference;
    try {
      run_passes(passes, rewritten, limited);
      difference =
          worst_output(untouched, expected, ir::interpret(rewritten, inputs, interpretation));
    } catch (const std::exception& error) {
      difference = {error.what(), HUGE_VAL};
    }
    if (seen.size() > fired.size()) fired = std::move(seen);
    return difference;
  };

  Worst found = difference_after(options.max_applications);
  if (found.error <= tolerance) return std::nullopt;
  int good = 0, bad = static_cast<int>(fired.size());
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    const Worst difference = difference_after(middle);
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
