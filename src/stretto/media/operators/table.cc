// The list of picture operators.
#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/media/operators/kinds.h"

namespace stretto::media::operators {
namespace {

constexpr Parameter kAlways{"chance", 1, 0, 1}, kHalf{"chance", 0.5, 0, 1};
constexpr Parameter kBilinear{"bilinear", 0, 0, 1, true};

constexpr Parameter kFactor[] = {{"amount", 0.4, 0, 10}, kAlways};
constexpr Parameter kHue[] = {{"amount", 0.1, 0, 0.5}, kAlways};
constexpr Parameter kJitter[] = {{"brightness", 0.4, 0, 10},
                                 {"contrast", 0.4, 0, 10},
                                 {"saturation", 0.4, 0, 10},
                                 {"hue", 0.1, 0, 0.5},
                                 kAlways};
constexpr Parameter kGrayscale[] = {{"chance", 0.1, 0, 1}};
constexpr Parameter kChance[] = {kHalf};
constexpr Parameter kPosterize[] = {{"bits", 4, 0, 8, true}, kHalf};
constexpr Parameter kSolarize[] = {{"threshold", 128, 0, 256}, kHalf};
constexpr Parameter kRotate[] = {{"degrees", 30, 0, 360}, kBilinear, kAlways};
constexpr Parameter kShear[] = {{"amount", 0.3, 0, 4}, kBilinear, kAlways};
constexpr Parameter kTranslate[] = {{"share", 0.45, 0, 1}, kBilinear, kAlways};
constexpr Parameter kBlur[] = {
    {"size", 9, 1, 63, true}, {"sigma_low", 0.1, 0.01, 100}, {"sigma_high", 2, 0.01, 100}, kAlways};
constexpr Parameter kErase[] = {kHalf,
                                {"min_area", 0.02, 0, 1},
                                {"max_area", 0.33, 0, 1},
                                {"min_ratio", 0.3, 1e-3, 1e3},
                                {"max_ratio", 3.3, 1e-3, 1e3}};
constexpr Parameter kRandAugment[] = {
    {"count", 2, 0, 16, true}, {"magnitude", 9, 0, 30, true}, kBilinear};
constexpr Parameter kTrivial[] = {kBilinear};
constexpr Parameter kMix[] = {{"alpha", 1, 1e-3, 1e3}, kAlways};

// Adds a step if the parameter at `chance` says so. The numbers are drawn in any case, so that a
// chance changes no other number.
void add(const char* name, bool takes_place, std::array<double, 4> value, Steps& steps) {
  if (takes_place) steps.push_back({.op = &operator_named(name), .value = value});
}

template <const char* kName>
void draw_factor(const Parameters& p, Size, SampleRandom& random, Steps& steps) {
  const double factor = random.uniform(std::max(0.0, 1 - p[0]), 1 + p[0]);
  add(kName, random.flip(p[1]), {factor}, steps);
}

template <const char* kName>
void draw_signed(const Parameters& p, Size, SampleRandom& random, Steps& steps) {
  const double value = random.uniform(-p[0], p[0]);
  add(kName, random.flip(p[2]), {value, p[1]}, steps);
}

// Whole pixels, as torchvision's RandomAffine.
template <const char* kName, int64_t Size::*kSide>
void draw_translate(const Parameters& p, Size size, SampleRandom& random, Steps& steps) {
  const double most = p[0] * static_cast<double>(size.*kSide);
  const double value = std::nearbyint(random.uniform(-most, most));
  add(kName, random.flip(p[2]), {value, p[1]}, steps);
}

template <const char* kName>
void draw_chance(const Parameters& p, Size, SampleRandom& random, Steps& steps) {
  add(kName, random.flip(p[0]), {}, steps);
}

template <const char* kName>
void draw_fixed(const Parameters& p, Size, SampleRandom& random, Steps& steps) {
  add(kName, random.flip(p[1]), {p[0]}, steps);
}

void draw_hue(const Parameters& p, Size, SampleRandom& random, Steps& steps) {
  const double turns = random.uniform(-p[0], p[0]);
  add("hue", random.flip(p[1]), {turns}, steps);
}

void draw_gaussian_blur(const Parameters& p, Size, SampleRandom& random, Steps& steps) {
  const double sigma = random.uniform(std::min(p[1], p[2]), std::max(p[1], p[2]));
  add("gaussian_blur", random.flip(p[3]), {p[0], sigma}, steps);
}

constexpr char kBrightnessName[] = "brightness", kContrastName[] = "contrast",
               kColorName[] = "color", kSharpnessName[] = "sharpness",
               kGrayscaleName[] = "grayscale", kAutoContrastName[] = "auto_contrast",
               kEqualizeName[] = "equalize", kInvertName[] = "invert",
               kPosterizeName[] = "posterize", kSolarizeName[] = "solarize",
               kRotateName[] = "rotate", kShearXName[] = "shear_x", kShearYName[] = "shear_y",
               kTranslateXName[] = "translate_x", kTranslateYName[] = "translate_y";

const Operator kTable[] = {
    {kBrightnessName, "a factor of 1 - amount to 1 + amount", 1, kFactor,
     draw_factor<kBrightnessName>, apply_brightness},
    {kContrastName, "the same around the picture's mean grey", 2, kFactor,
     draw_factor<kContrastName>, apply_contrast},
    {kColorName, "the same around each pixel's grey (saturation)", 3, kFactor,
     draw_factor<kColorName>, apply_color},
    {kSharpnessName, "the same around the smoothed picture", 4, kFactor,
     draw_factor<kSharpnessName>, apply_sharpness},
    {"hue", "turns the colours by up to `amount` of the circle", 5, kHue, draw_hue, apply_hue},
    {"colour_jitter", "brightness, contrast, color and hue in any order", 6, kJitter,
     draw_colour_jitter, nullptr},
    {kGrayscaleName, "three equal channels", 7, kGrayscale, draw_chance<kGrayscaleName>,
     apply_grayscale},
    {kAutoContrastName, "each channel stretched to 0..255", 8, kChance,
     draw_chance<kAutoContrastName>, apply_auto_contrast},
    {kEqualizeName, "each channel's values spread evenly", 9, kChance, draw_chance<kEqualizeName>,
     apply_equalize},
    {kInvertName, "255 - value", 10, kChance, draw_chance<kInvertName>, apply_invert},
    {kPosterizeName, "keeps the upper bits of each value", 11, kPosterize,
     draw_fixed<kPosterizeName>, apply_posterize},
    {kSolarizeName, "inverts the values from the threshold on", 12, kSolarize,
     draw_fixed<kSolarizeName>, apply_solarize},
    {kRotateName, "by up to `degrees` around the centre", 13, kRotate, draw_signed<kRotateName>,
     apply_affine, affine_rotate},
    {kShearXName, "moves rows by up to `amount` of their number", 14, kShear,
     draw_signed<kShearXName>, apply_affine, affine_shear_x},
    {kShearYName, "moves columns by up to `amount` of their number", 15, kShear,
     draw_signed<kShearYName>, apply_affine, affine_shear_y},
    {kTranslateXName, "moves by up to `share` of the width", 16, kTranslate,
     draw_translate<kTranslateXName, &Size::width>, apply_affine, affine_translate_x},
    {kTranslateYName, "moves by up to `share` of the height", 17, kTranslate,
     draw_translate<kTranslateYName, &Size::height>, apply_affine, affine_translate_y},
    {"gaussian_blur", "with a sigma from a range, in a window of `size`", 18, kBlur,
     draw_gaussian_blur, apply_gaussian_blur},
    {"erase", "a rectangle becomes 0 after normalising", 19, kErase, draw_erase, nullptr},
    {"rand_augment", "`count` operators of torchvision's RandAugment", 20, kRandAugment,
     draw_rand_augment, nullptr},
    {"trivial_augment_wide", "one operator of torchvision's TrivialAugmentWide", 21, kTrivial,
     draw_trivial_augment_wide, nullptr},
    {"mixup", "a pair's weighted mean, behind all others; labels are mixed too", 22, kMix, nullptr,
     nullptr},
    {"cutmix", "a pair swaps a rectangle, behind all others; labels are mixed too", 23, kMix,
     nullptr, nullptr},
};

}  // namespace

std::span<const Operator> table() { return kTable; }

const Operator& operator_named(std::string_view name) {
  for (const Operator& op : kTable) {
    if (op.name == name) return op;
  }
  std::string all;
  for (const Operator& op : kTable) all += (all.empty() ? "" : ", ") + std::string(op.name);
  throw_invalid("operators: there is no '{}'; there are {}", name, all);
}

}  // namespace stretto::media::operators
