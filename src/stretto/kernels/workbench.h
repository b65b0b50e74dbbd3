// One problem set up to be run: random tensors, packed constants, scratch, a thread team. The
// tuner, the operator tests, the benches and `stretto kernels` all stand at this bench.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "stretto/kernels/family.h"
#include "stretto/tune/measure.h"

namespace stretto::kernels {

// How far one output is from the reference: max |a - b| over max |b|; 0 when both are empty. Equal
// infinities and NaN against NaN count as equal; any other non-finite difference gives infinity.
struct Difference {
  double relative_to_max = 0;
  int64_t worst_index = -1;  // into the output's storage
  double got = 0, expected = 0;
};

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

  // Executes row `r` once into its outputs; prepares it on first use.
  void run(int row);
  std::span<const float> output(int i) const;  // of the last run, storage order

  // Runs `row` and the family's last row on the same data; where Candidate::in_place allows it,
  // `row` once more over that input. Blocked padding lanes are ignored.
  Difference check(int row);

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
