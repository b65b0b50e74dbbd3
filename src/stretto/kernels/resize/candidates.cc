#include "stretto/kernels/resize/candidates.h"

namespace stretto::kernels {
namespace resize {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kSeparable,
    &kBytes,
    &kReference,
};

}  // namespace resize

constinit const Family kResize =
    make_family<ResizeProblem, resize::kRows, resize::kReference>("resize");

}  // namespace stretto::kernels
