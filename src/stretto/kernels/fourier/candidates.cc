#include "stretto/kernels/fourier/candidates.h"

namespace stretto::kernels {
namespace fourier {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kMixedRadix,
    &kReference,
};

}  // namespace fourier

constinit const Family kFourier =
    make_family<FourierProblem, fourier::kRows, fourier::kReference>("fourier");

}  // namespace stretto::kernels
