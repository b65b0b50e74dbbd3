// Changes of colour as one affine map of R, G, B in 0..255, so that a whole chain of them costs
// nine multiplications a pixel.
//
// Limits: torchvision clamps and rounds after each change; here values are clamped once, after the
// chain. Its hue goes by way of HSV, which is not affine; here hue turns the chroma plane of YCbCr.
#pragma once

#include <array>

namespace stretto::media {

// Row c gives channel c: m[c][0] * r + m[c][1] * g + m[c][2] * b + m[c][3].
struct ColourMatrix {
  std::array<std::array<float, 4>, 3> m{{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};
};

// `second` after `first`.
ColourMatrix then(const ColourMatrix& first, const ColourMatrix& second);

// The changes of torchvision's ColorJitter of the same names; 1 changes nothing, of hue 0.
ColourMatrix brightness(float factor);
ColourMatrix contrast(float factor, float mean_grey);  // around the picture's mean grey, 0..255
ColourMatrix saturation(float factor);
ColourMatrix hue(float turns);

// JFIF's YCbCr (full range, ITU-R BT.601) to RGB, on samples in 0..255.
ColourMatrix ycbcr_to_rgb();

}  // namespace stretto::media
