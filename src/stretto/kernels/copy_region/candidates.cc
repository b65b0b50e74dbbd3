#include "stretto/kernels/copy_region/candidates.h"

namespace stretto::kernels {
namespace copy_region {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kRuns,
    &kReference,
};

}  // namespace copy_region

constinit const Family kCopyRegion =
    make_family<CopyRegionProblem, copy_region::kRows, copy_region::kReference>("copy_region");

}  // namespace stretto::kernels
