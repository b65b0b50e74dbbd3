#include "stretto/kernels/reorder/candidates.h"

namespace stretto::kernels {
namespace reorder {

// Best first; the reference is last and fits everything.
constexpr const Row* kRows[] = {
    &kTiles,
    &kReference,
};

}  // namespace reorder

constinit const Family kReorder = make_family<ReorderProblem, reorder::kRows>("reorder");

}  // namespace stretto::kernels
