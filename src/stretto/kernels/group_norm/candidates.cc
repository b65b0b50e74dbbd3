#include "stretto/kernels/group_norm/candidates.h"

namespace stretto::kernels {
namespace group_norm {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kVector,
    &kReference,
};

}  // namespace group_norm

constinit const Family kGroupNorm =
    make_family<GroupNormProblem, group_norm::kRows, group_norm::kReference>("group_norm");

}  // namespace stretto::kernels
