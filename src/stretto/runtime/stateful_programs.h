// Runs a model on from a Context.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "stretto/runtime/context.h"
#include "stretto/runtime/context_programs.h"

namespace stretto::runtime {

class StatefulPrograms {
 public:
  StatefulPrograms(Model model, const kernels::Target& target);

  // What Session::run() with a context does.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs, Context::State& context,
                          const ContextRunOptions& options = {});

 private:
  struct Samples;
  struct Replaced;
  // `replaced`: the state of these samples that does not grow; the context has that of before.
  std::vector<Tensor> run_samples(const std::map<std::string, Tensor>& inputs,
                                  Context::State& context, const Samples& samples,
                                  std::vector<Replaced>& replaced);
  std::vector<Tensor> run_each(const std::map<std::string, Tensor>& inputs, const Tensor& mask,
                               Context::State& context, int last);

  const Model model_;
  ContextPrograms programs_;
};

}  // namespace stretto::runtime
