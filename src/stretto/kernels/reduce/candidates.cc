#include "stretto/kernels/reduce/candidates.h"

namespace stretto::kernels {
namespace reduce {

// Best first; the reference is last and fits everything.
constexpr const Row* kRows[] = {
    &kVector,
    &kReference,
};

}  // namespace reduce

constinit const Family kReduce = make_family<ReduceProblem, reduce::kRows>("reduce");

}  // namespace stretto::kernels
