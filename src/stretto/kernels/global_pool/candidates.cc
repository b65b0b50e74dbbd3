#include "stretto/kernels/global_pool/candidates.h"

namespace stretto::kernels {
namespace global_pool {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kVector,
    &kReference,
};

}  // namespace global_pool

constinit const Family kGlobalPool =
    make_family<GlobalPoolProblem, global_pool::kRows, global_pool::kReference>("global_pool");

}  // namespace stretto::kernels
