// Runs a model on from a Context: one program per number of new places, capacity and batch.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "stretto/runtime/context.h"

namespace stretto::runtime {

class StatefulPrograms {
 public:
  StatefulPrograms(Model model, const kernels::Target& target);
  ~StatefulPrograms();

  // What Session::run() with a context does.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs, Context::State& context);

 private:
  struct Runner;
  struct Samples;
  std::shared_ptr<Runner> runner(const StateLayout& layout, const std::vector<Shape>& shapes,
                                 int64_t rows);
  std::vector<Tensor> run_samples(const std::map<std::string, Tensor>& inputs,
                                  Context::State& context, const Samples& samples);
  std::vector<Tensor> run_each(const std::map<std::string, Tensor>& inputs, const Tensor& mask,
                               Context::State& context);

  // A generation uses one per length of prompts, and one per capacity.
  static constexpr size_t kKept = 32;

  const Model model_;
  const kernels::Target target_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Runner>> runners_;  // the one used last is the last
};

}  // namespace stretto::runtime
