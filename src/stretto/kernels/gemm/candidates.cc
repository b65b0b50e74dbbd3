#include "stretto/kernels/gemm/candidates.h"

namespace stretto::kernels {
namespace gemm {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kPacked,
    &kReference,
};

}  // namespace gemm

constinit const Family kGemm = make_family<GemmProblem, gemm::kRows, gemm::kReference>("gemm");

}  // namespace stretto::kernels
