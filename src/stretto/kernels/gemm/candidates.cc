#include "stretto/kernels/gemm/candidates.h"

namespace stretto::kernels {
namespace gemm {

// Best first; the reference is last and fits everything.
constexpr const Row* kRows[] = {
    &kPacked,
    &kReference,
};

}  // namespace gemm

constinit const Family kGemm = make_family<GemmProblem, gemm::kRows>("gemm");

}  // namespace stretto::kernels
