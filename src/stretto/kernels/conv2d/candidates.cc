#include "stretto/kernels/conv2d/candidates.h"

namespace stretto::kernels {
namespace conv2d {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kGemm1x1,    &kDirect,     &kDirectStem,        &kDepthwise,         &kWinogradF4,
    &kWinogradF2, &kWinogradF6, &kWinogradF4Stride2, &kWinogradF2Stride2, &kStrassen1x1,
    &kGrouped,    &kRowTaps,    &kIm2colGemm,        &kReference,
};

}  // namespace conv2d

constinit const Family kConv2d =
    make_family<Conv2dProblem, conv2d::kRows, conv2d::kReference>("conv2d");

}  // namespace stretto::kernels
