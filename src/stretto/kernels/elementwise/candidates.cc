#include "stretto/kernels/elementwise/candidates.h"

namespace stretto::kernels {
namespace elementwise {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kStrips,
    &kIntegers,
    &kDoubles,
    &kReference,
};

}  // namespace elementwise

constinit const Family kElementwise =
    make_family<ElementwiseProblem, elementwise::kRows, elementwise::kReference>("elementwise");

}  // namespace stretto::kernels
