#include "stretto/kernels/transpose/candidates.h"

namespace stretto::kernels {
namespace transpose {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kTiles,
    &kReference,
};

}  // namespace transpose

constinit const Family kTranspose =
    make_family<TransposeProblem, transpose::kRows, transpose::kReference>("transpose");

}  // namespace stretto::kernels
