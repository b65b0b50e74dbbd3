#include "stretto/kernels/pool2d/candidates.h"

namespace stretto::kernels {
namespace pool2d {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kSeparable,
    &kReference,
};

}  // namespace pool2d

constinit const Family kPool2d =
    make_family<Pool2dProblem, pool2d::kRows, pool2d::kReference>("pool2d");

}  // namespace stretto::kernels
