#include "stretto/kernels/reorder/candidates.h"

namespace stretto::kernels {
namespace reorder {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kTiles,
    &kReference,
};

}  // namespace reorder

constinit const Family kReorder =
    make_family<ReorderProblem, reorder::kRows, reorder::kReference>("reorder");

}  // namespace stretto::kernels
