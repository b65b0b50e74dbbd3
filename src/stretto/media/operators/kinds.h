// What the rows of the list are made of: functions of one kind each, in the source of that name.
#pragma once

#include "stretto/media/operators/operator.h"

namespace stretto::media::operators {

// Of ImageEnhance: factor 1 changes nothing, 0 gives black, the mean grey, grey, a smoothed
// picture. value[0] is the factor; of hue(), turns of the colour circle.
void apply_brightness(const Step& step, const Pixels& pixels, Work& work);
void apply_contrast(const Step& step, const Pixels& pixels, Work& work);
void apply_color(const Step& step, const Pixels& pixels, Work& work);
void apply_sharpness(const Step& step, const Pixels& pixels, Work& work);
void apply_hue(const Step& step, const Pixels& pixels, Work& work);
void apply_grayscale(const Step& step, const Pixels& pixels, Work& work);

// Of ImageOps: each byte becomes another by a table of its channel. value[0] of posterize: bits
// that are kept; of solarize: the lowest byte that is inverted.
void apply_auto_contrast(const Step& step, const Pixels& pixels, Work& work);
void apply_equalize(const Step& step, const Pixels& pixels, Work& work);
void apply_invert(const Step& step, const Pixels& pixels, Work& work);
void apply_posterize(const Step& step, const Pixels& pixels, Work& work);
void apply_solarize(const Step& step, const Pixels& pixels, Work& work);

// value[0]: degrees against the clock around the centre; the tangent of the shear, around the
// corner at (0, 0); pixels to the right or down. value[1]: not 0 for bilinear, 0 for nearest.
Affine affine_rotate(const Step& step, Size size);
Affine affine_shear_x(const Step& step, Size size);
Affine affine_shear_y(const Step& step, Size size);
Affine affine_translate_x(const Step& step, Size size);
Affine affine_translate_y(const Step& step, Size size);
void apply_affine(const Step& step, const Pixels& pixels, Work& work);
// The same of one byte a pixel, always the nearest: `outside` where there is none.
void move_mask(const Affine& affine, const uint8_t* from, Size size, uint8_t outside, uint8_t* to);

// value[0]: pixels of the window, odd; value[1]: sigma. The picture is mirrored at its edges.
void apply_gaussian_blur(const Step& step, const Pixels& pixels, Work& work);

// Steps of other rows with the ranges and magnitudes of torchvision's classes.
void draw_rand_augment(const Parameters& p, Size size, SampleRandom& random, Steps& steps);
void draw_trivial_augment_wide(const Parameters& p, Size size, SampleRandom& random, Steps& steps);
// Brightness, contrast, saturation and hue in an order that is drawn.
void draw_colour_jitter(const Parameters& p, Size size, SampleRandom& random, Steps& steps);
// value: x0, y0, x1, y1.
void draw_erase(const Parameters& p, Size size, SampleRandom& random, Steps& steps);

}  // namespace stretto::media::operators
