// One problem set up to be run: random tensors, packed constants, scratch, a thread team. The
// tuner, the operator tests, the benches and `stretto kernels` all stand at this bench.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "stretto/kernels/family.h"
#include "stretto/tensor/compare.h"
#include "stretto/tune/measure.h"

namespace stretto::kernels {

class Workbench {
 public:
  // Inputs uniform in [-1, 1) and constants scaled so that outputs stay of order one, from `seed`;
  // integer tensors get small non-negative values. `problem` is copied. `team` has at least
  // target.threads threads and outlives the bench; null makes one.
  Workbench(const Family& family, const void* problem, uint64_t seed = 1,
            ThreadTeam* team = nullptr);
  ~Workbench();

  // Own data instead of random data: storage-order values of input or constant `i`.
  std::span<float> input(int i);
  std::span<float> constant(int i);

  // Moves every input to an address that is aligned to its elements only, as callers' memory is.
  void unalign_inputs();

  // Executes row `r` once into its outputs; prepares it on first use.
  void run(int row);
  std::span<const float> output(int i) const;  // of the last run, storage order

  // Runs `row` and row `against` (-1: the family's reference) on the same data; where
  // Candidate::in_place allows it, `row` once more over that input. The worst difference of any
  // output, its index into the output's storage. Blocked padding lanes are ignored.
  Difference check(int row, int against = -1);

  // Whether `row` writes the same bits when every share is cut into `units`, done last unit first
  // and each by another thread than its share's.
  bool same_in_units(int row, int units);

  // Best seconds of each of `rows`, interleaved. Weights are cold and inputs warm, as within a
  // network: with warm weights, kernels that trade memory for arithmetic look better than they are.
  std::vector<double> time(std::span<const int> rows, const tune::MeasureOptions& options);

  const Signature& signature() const;
  int block() const;  // of the blocked tensors

 private:
  void run_over(int row, int input);  // -1: as run()
  Difference compare(const std::vector<std::vector<std::byte>>& expected) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace stretto::kernels
