// What the programs of one model for different shapes have in common: how they are made, and the
// weights, which are computed and packed once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "stretto/import/model.h"
#include "stretto/passes/derived.h"
#include "stretto/passes/ragged.h"
#include "stretto/runtime/lowering/lowering.h"
#include "stretto/runtime/program.h"
#include "stretto/runtime/shared_weights.h"
#include "stretto/tune/tuning_cache.h"

namespace stretto::runtime {

// Constants of `graph` in memory of those of `original`, which belongs to somebody else, become
// copies, also in `original`.
void own_borrowed(ir::Graph& graph, ir::Graph& original);

class Siblings {
 public:
  // What every program is made with.
  struct Making {
    std::set<std::string> disabled;             // passes and rules
    std::map<std::string, std::string> forced;  // family name -> row name
    tune::TuningCache known;                    // choices taken where a problem is known
  };

  passes::Derived& derived() { return derived_; }
  SharedWeights& weights() { return weights_; }

  // Before the first compile() and from one thread.
  void set_making(Making making) { making_ = std::move(making); }
  const Making& making() const { return making_; }

  // Weights for all sizes that will come are packed: from now on kernels that need other ones are
  // taken only where no other fits.
  void settle();

  // Constants that belong to somebody else become copies. Those of equal content, whose owner may
  // have moved them, become the same copy in all graphs.
  void own_constants(ir::Graph& graph);
  // The same where a model borrows its constants, for callers in any thread.
  void own(ImportedModel& imported);

  // Rewrites another graph of the model. Safe to call from several threads, like compile().
  ir::Graph rewritten(ImportedModel imported);
  // Rewrites and compiles another graph of the model; nothing is measured. Safe to call from
  // several threads, which then take turns. `tell`: the log says so. `ragged`: for so many real
  // tokens (passes/ragged.h).
  std::shared_ptr<const Program> compile(ImportedModel imported, const kernels::Target& target,
                                         const LowerOptions& lower = {}, bool tell = true,
                                         passes::Ragged* ragged = nullptr);

 private:
  Making making_;
  passes::Derived derived_;
  SharedWeights weights_;
  std::mutex mutex_;
  bool settled_ = false;
  std::map<std::string, Tensor> owned_;  // by content_name()
};

}  // namespace stretto::runtime
