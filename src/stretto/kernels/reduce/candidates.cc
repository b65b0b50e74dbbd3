#include "stretto/kernels/reduce/candidates.h"

namespace stretto::kernels {
namespace reduce {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kVector,
    &kIntegers,
    &kReference,
};

}  // namespace reduce

constinit const Family kReduce =
    make_family<ReduceProblem, reduce::kRows, reduce::kReference>("reduce");

}  // namespace stretto::kernels
