#include "stretto/kernels/transpose/candidates.h"

namespace stretto::kernels {
namespace transpose {

// Best first; the reference is last and fits everything.
constexpr const Row* kRows[] = {
    &kTiles,
    &kReference,
};

}  // namespace transpose

constinit const Family kTranspose = make_family<TransposeProblem, transpose::kRows>("transpose");

}  // namespace stretto::kernels
