#include "stretto/kernels/conv_transpose2d/candidates.h"

namespace stretto::kernels {
namespace conv_transpose2d {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kWinogradF4,
    &kWinogradF2,
    &kPhaseSplit,
    &kReference,
};

}  // namespace conv_transpose2d

constinit const Family kConvTranspose2d =
    make_family<ConvTranspose2dProblem, conv_transpose2d::kRows, conv_transpose2d::kReference>(
        "conv_transpose2d");

}  // namespace stretto::kernels
