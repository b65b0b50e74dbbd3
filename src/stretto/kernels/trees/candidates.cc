#include "stretto/kernels/trees/candidates.h"

namespace stretto::kernels {
namespace trees {

// One row: the operator's own reference checks it (ir/ops/tree_ensemble.cc), and a tuner, which
// makes constants up, cannot make up trees.
constexpr const Row* kRows[] = {
    &kWalk,
};

}  // namespace trees

constinit const Family kTrees = make_family<TreesProblem, trees::kRows, trees::kWalk>("trees");

}  // namespace stretto::kernels
