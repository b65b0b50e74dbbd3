#include "stretto/kernels/cumsum/candidates.h"

namespace stretto::kernels {
namespace cumsum {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kColumns,
    &kReference,
};

}  // namespace cumsum

constinit const Family kCumSum =
    make_family<CumSumProblem, cumsum::kRows, cumsum::kReference>("cumsum");

}  // namespace stretto::kernels
