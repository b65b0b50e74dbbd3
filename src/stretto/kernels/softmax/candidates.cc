#include "stretto/kernels/softmax/candidates.h"

namespace stretto::kernels {
namespace softmax {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kVector,
    &kReference,
};

}  // namespace softmax

constinit const Family kSoftmax =
    make_family<SoftmaxProblem, softmax::kRows, softmax::kReference>("softmax");

}  // namespace stretto::kernels
