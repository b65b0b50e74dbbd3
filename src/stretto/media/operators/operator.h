// Picture operators of training, on 8-bit RGB pictures of the size that a model takes: between
// fuse() to bytes and normalise(). Each is a row of the list in table.cc: what it is configured by,
// what it draws for a sample, and how a drawn step changes a picture.
//
// Drawing and applying are apart, so that boxes and masks can follow (geometry.h) and tests can
// fix what is drawn. Steps compute what Pillow 13 computes in the functions that torchvision 0.28
// calls for PIL pictures, byte for byte, except hue (colour.h) and gaussian_blur (at most 1 apart).
// Pixels that geometric steps have no source for become black.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/media/fuse.h"
#include "stretto/media/random.h"

namespace stretto::media::operators {

// R, G, B, R, ... in rows without padding. The memory is the caller's.
struct Pixels {
  uint8_t* rgb = nullptr;
  int64_t width = 0, height = 0;
  int64_t bytes() const { return 3 * width * height; }
};

// From a pixel's place in the result to its place before: x' = m[0] x + m[1] y + m[2], y' =
// m[3] x + m[4] y + m[5]; the centre of the first pixel is at (0.5, 0.5).
struct Affine {
  std::array<double, 6> m{1, 0, 0, 0, 1, 0};
};

struct Parameter {
  std::string_view name;
  double standard, low, high;
  bool whole = false;  // a whole number
};

constexpr size_t kMostParameters = 6;
using Parameters = std::array<double, kMostParameters>;

struct Operator;

// What is done to one picture. The meaning of the values is the row's.
struct Step {
  const Operator* op = nullptr;
  std::array<double, 4> value{};
};
using Steps = std::vector<Step>;

// Memory that calls of one thread reuse.
struct Work {
  std::vector<uint8_t> bytes;
  std::vector<float> floats;
};

struct Operator {
  std::string_view name;
  std::string_view means;
  uint32_t stream;  // of random numbers: below 30, never given to another row
  std::span<const Parameter> parameters;
  // Adds what it draws for a picture of this size, which may be nothing or steps of other rows.
  // nullptr of rows that mix pairs of pictures (mix.h).
  void (*draw)(const Parameters& parameters, Size size, SampleRandom& random, Steps& steps);
  // nullptr of rows that draw steps of others, and of `erase`, which comes after normalising.
  void (*apply)(const Step& step, const Pixels& pixels, Work& work);
  Affine (*affine)(const Step& step, Size size) = nullptr;  // of rows that move pixels
};

std::span<const Operator> table();
// Throws InvalidArgument with the names of all rows if there is none.
const Operator& operator_named(std::string_view name);

// A row with its parameters.
struct Configured {
  const Operator* op = nullptr;
  Parameters parameters{};
  uint32_t repeat = 0;  // how many of the same row come before it
};
using Operators = std::vector<Configured>;

// "rand_augment(2, 9), erase(chance=0.25)": names of rows in the order of their use, with
// parameters by place or by name. Throws InvalidArgument that names what is wrong and what exists.
Operators parse_operators(std::string_view text);
// The text that parse_operators() reads the same from, with all parameters.
std::string operators_text(const Operators& operators);

// Whose numbers are drawn. Those of an operator depend on nothing but these, its row, and how many
// of the same row come before it.
struct SampleKey {
  uint64_t seed = 0;
  uint32_t epoch = 0;
  uint64_t sample = 0;
};
Steps draw_steps(const Operators& operators, const SampleKey& key, Size size);

void apply_steps(const Steps& steps, const Pixels& pixels, Work& work);

// Both. The steps that were taken say what erased() and geometry_of() take.
Steps apply(const Operators& operators, const SampleKey& key, const Pixels& pixels, Work& work);

// The rectangles of `erase` in a picture: for normalise().
std::vector<Region> erased(const Steps& steps);

// What fuse() takes instead of steps that change colours alone (brightness, contrast, color, hue,
// grayscale; erase() stays to be done): no picture of bytes is needed then. Nothing if there is
// another step. contrast's mean grey is that of `shown`, a region of the stored picture; values are
// clamped and rounded once, not after each step as apply_steps() does.
std::optional<ColourMatrix> colour_matrix_of(const Steps& steps, const Planes& planes,
                                             const Region& shown);

// The product of the moves of all steps: from the result to the picture before the first one.
Affine affine_of(const Steps& steps, Size size);

}  // namespace stretto::media::operators
