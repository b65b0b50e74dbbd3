#include "stretto/kernels/gather/candidates.h"

namespace stretto::kernels {
namespace gather {

// Best first; the reference is last and fits everything.
constexpr const Row* kRows[] = {
    &kRuns,
    &kReference,
};

}  // namespace gather

constinit const Family kGather = make_family<GatherProblem, gather::kRows>("gather");

}  // namespace stretto::kernels
