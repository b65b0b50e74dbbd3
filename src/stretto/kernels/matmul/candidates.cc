#include "stretto/kernels/matmul/candidates.h"

namespace stretto::kernels {
namespace matmul {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kPacking,
    &kReference,
};

}  // namespace matmul

constinit const Family kMatmul =
    make_family<MatmulProblem, matmul::kRows, matmul::kReference>("matmul");

}  // namespace stretto::kernels
