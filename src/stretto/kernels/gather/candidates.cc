#include "stretto/kernels/gather/candidates.h"

namespace stretto::kernels {
namespace gather {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kRuns,
    &kReference,
};

}  // namespace gather

constinit const Family kGather =
    make_family<GatherProblem, gather::kRows, gather::kReference>("gather");

}  // namespace stretto::kernels
