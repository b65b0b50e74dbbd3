// Runs a program for one caller at a time: owns the activations and the thread team.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "stretto/runtime/arena_shelf.h"
#include "stretto/runtime/program.h"

namespace stretto::runtime {

// What an executor has for activations, and for callers' tensors that are not aligned, at most.
int64_t executor_bytes(const Program& program);

class Executor {
 public:
  // Resolves every operand once. The program outlives the executor, and so does the shelf that its
  // activations come from in each run; null: it has memory of its own. Without a team of threads it
  // runs as run_alone() does.
  explicit Executor(const Program& program, ArenaShelf* shelf = nullptr, bool has_team = true);
  ~Executor();

  // Dense row-major memory in model order. Inputs are read in place if they are aligned to their
  // elements, outputs written in place if they are aligned to kAlignment; others go through a copy.
  // Allocates nothing and takes no lock, interpreted nodes and shelves excepted.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs);

  // The same results on the caller's thread only, for when others need the cores.
  void run_alone(std::span<const void* const> inputs, std::span<void* const> outputs);

  // As run(), with the seconds of every instruction added to `seconds` (one per instruction).
  void run_timed(std::span<const void* const> inputs, std::span<void* const> outputs,
                 std::span<double> seconds);

 private:
  void resolve_arena();
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           std::span<double> seconds, bool alone);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stretto::runtime
