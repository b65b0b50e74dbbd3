// The programs that runs with contexts use, and the threads and activations that they run with.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "stretto/runtime/executor_pool.h"
#include "stretto/runtime/state_layout.h"

namespace stretto::runtime {

// Safe to use from several threads.
class ContextPrograms {
 public:
  struct Ready {
    std::shared_ptr<const Program> program;
    std::shared_ptr<ExecutorPool> pool;
  };

  ContextPrograms(Model model, const kernels::Target& target);
  ~ContextPrograms();

  // For these shapes of the inputs, in model order, and memory of `rows` places. `last`: the output
  // that is wanted for the last place only, -1: none. Made when it is first asked for.
  Ready get(const StateLayout& layout, const std::vector<Shape>& shapes, int64_t rows, int last);

 private:
  struct Runner;
  std::shared_ptr<const Program> make(const StateLayout& layout, const std::vector<Shape>& shapes,
                                      int64_t rows, int last);
  // What is no longer kept.
  std::vector<std::shared_ptr<ExecutorPool>> limit_executors();

  // A generation uses one per length of prompts, and one per capacity.
  static constexpr size_t kKept = 32;

  const Model model_;
  const kernels::Target target_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Runner>> runners_;  // the one used last is the last
};

}  // namespace stretto::runtime
