#include "stretto/kernels/matmul_integer/candidates.h"

namespace stretto::kernels {
namespace matmul_integer {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kDots,
    &kPairs,
    &kReference,
};

}  // namespace matmul_integer

constinit const Family kMatmulInteger =
    make_family<MatmulIntegerProblem, matmul_integer::kRows, matmul_integer::kReference>(
        "matmul_integer");

}  // namespace stretto::kernels
