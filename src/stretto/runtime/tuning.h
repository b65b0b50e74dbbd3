// The kernels of a whole model: from the tuning cache, by measuring, and by comparing the program
// that comes out with the default one, which nothing was measured for.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/runtime/compile.h"
#include "stretto/runtime/select.h"
#include "stretto/runtime/verdict.h"

namespace stretto::runtime {

struct TuningOptions {
  double budget_s = 0;    // for measuring kernels; 0: choose without
  bool thorough = false;  // also measure kernels that expect to be far behind
  double compare_s = 2;   // for comparing the tuned program with the default one
  std::map<std::string, std::string> forced;        // family name -> row name
  std::map<std::string, std::string> forced_nodes;  // node name -> row name
  std::string cache;                                // file of the tuning cache; empty: none
  SharedWeights* shared = nullptr;                  // see CompileOptions
  std::function<void(std::string_view stage, double fraction)> progress;
};

// A model with its kernels chosen.
struct Tuned {
  std::unique_ptr<Selector> selector;
  Compiled compiled;
  // What the tuning cache knows about the model's problems, as far as this process can tell.
  tune::TuningCache known;
  std::optional<Verdict> verdict;  // of the comparison with the default program
  bool remembered = false;         // the verdict was in the tuning cache: nothing was measured

  // Whether compare_with_default() has something to decide.
  bool open(const TuningOptions& how) const;
};

// Measures within the budget, saves what was found in the tuning cache, and compiles. Where the
// tuning cache has a verdict on this model of a run with at least this budget, nothing is measured,
// and the program that was kept then comes out again.
Tuned choose_kernels(const std::shared_ptr<ir::Graph>& graph, const kernels::Target& target,
                     const TuningOptions& how);

// Single measurements can mislead, above all beside other work, and what is best for a layer need
// not be best for the model. So the tuned program runs against the default one, as a whole. If that
// one wins, it replaces the tuned program, and the tuning cache forgets the choices found now that
// differ. Saves the verdict.
void compare_with_default(Tuned& tuned, const std::shared_ptr<ir::Graph>& graph,
                          const TuningOptions& how, const std::vector<Tensor>& inputs);

}  // namespace stretto::runtime
