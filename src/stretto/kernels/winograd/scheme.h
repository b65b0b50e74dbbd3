// One-dimensional minimal filtering schemes; two-dimensional ones apply the same scheme to rows and
// to columns. A scheme turns `in` neighbouring inputs into `products` values, multiplies each by a
// transformed filter value, adds products that share a target (during the reduction over channels),
// and turns `targets` sums into `out` neighbouring outputs. From tile to tile the input advances by
// `step`. Source: Winograd's F(m, r) (Lavin and Gray, arXiv 1509.09308), applied to each phase
// where a stride is involved (decomposable Winograd, AAAI 2020; for transposed convolutions per
// output phase).
#pragma once

#include <cstdint>

namespace stretto::kernels::winograd {

struct Scheme {
  static constexpr int kMaxProducts = 9, kMaxTaps = 4, kMaxPhases = 2;

  int id;  // index into the transforms of transforms.h
  // Output position i of phase f is phases * i + f; its first tile starts f inputs later.
  int phases;
  int taps, in, products, targets, out, step;
  // Transformed filter value p of a phase = sum over taps g[phase][p][tap] * w[tap].
  double g[kMaxPhases][kMaxProducts][kMaxTaps];
  // Target q adds products first[q] .. first[q + 1] - 1.
  int first[kMaxProducts + 1];
};

// 3 taps, stride 1: F(2,3) and F(4,3), points 0, 1, -1, (2, -2,) infinity. 2.25 and 4 times fewer
// multiplications in two dimensions.
inline constexpr Scheme kF2{.id = 0,
                            .phases = 1,
                            .taps = 3,
                            .in = 4,
                            .products = 4,
                            .targets = 4,
                            .out = 2,
                            .step = 2,
                            .g = {{{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}}},
                            .first = {0, 1, 2, 3, 4}};
inline constexpr Scheme kF4{.id = 1,
                            .phases = 1,
                            .taps = 3,
                            .in = 6,
                            .products = 6,
                            .targets = 6,
                            .out = 4,
                            .step = 4,
                            .g = {{{1. / 4, 0, 0},
                                   {-1. / 6, -1. / 6, -1. / 6},
                                   {-1. / 6, 1. / 6, -1. / 6},
                                   {1. / 24, 1. / 12, 1. / 6},
                                   {1. / 24, -1. / 12, 1. / 6},
                                   {0, 0, 1}}},
                            .first = {0, 1, 2, 3, 4, 5, 6}};

// F(6,3), points 0, 1, -1, 2, -2, 1/2, -1/2, infinity: 5.06 times fewer. Of the symmetric points
// that were tried these are among those that round least.
inline constexpr Scheme kF6{.id = 6,
                            .phases = 1,
                            .taps = 3,
                            .in = 8,
                            .products = 8,
                            .targets = 8,
                            .out = 6,
                            .step = 6,
                            .g = {{{1, 0, 0},
                                   {-2. / 9, -2. / 9, -2. / 9},
                                   {-2. / 9, 2. / 9, -2. / 9},
                                   {1. / 90, 2. / 90, 4. / 90},
                                   {1. / 90, -2. / 90, 4. / 90},
                                   {32. / 45, 16. / 45, 8. / 45},
                                   {32. / 45, -16. / 45, 8. / 45},
                                   {0, 0, 1}}},
                            .first = {0, 1, 2, 3, 4, 5, 6, 7, 8}};

// 3 taps, stride 2: outer taps see inputs of one parity (F(m,2)), the middle tap those of the other
// (m plain products, which end in the targets of one output each). 1.44 and 1.78 times fewer.
inline constexpr Scheme kF2Stride2{.id = 2,
                                   .phases = 1,
                                   .taps = 3,
                                   .in = 5,
                                   .products = 5,
                                   .targets = 3,
                                   .out = 2,
                                   .step = 4,
                                   .g = {{{1, 0, 0}, {0, 1, 0}, {1, 0, 1}, {0, 1, 0}, {0, 0, 1}}},
                                   .first = {0, 2, 3, 5}};
inline constexpr Scheme kF4Stride2{.id = 3,
                                   .phases = 1,
                                   .taps = 3,
                                   .in = 9,
                                   .products = 9,
                                   .targets = 7,
                                   .out = 4,
                                   .step = 8,
                                   .g = {{{1. / 2, 0, 0},
                                          {0, 1, 0},
                                          {0, 1, 0},
                                          {0, 1, 0},
                                          {0, 0, 1},
                                          {0, 1, 0},
                                          {-1. / 2, 0, -1. / 2},
                                          {-1. / 6, 0, 1. / 6},
                                          {1. / 6, 0, 1. / 3}}},
                                   .first = {0, 2, 3, 4, 6, 7, 8, 9}};

// Transposed, 4 taps, stride 2, one leading pad: even outputs use taps 3 and 1 on inputs j - 1 and
// j, odd ones taps 2 and 0 on j and j + 1. F(2,2) (points 0, 1, infinity) or F(4,2) (0, 1, -1, 2,
// infinity) for each parity: 1.78 and 2.56 times fewer.
inline constexpr Scheme kF2Transposed{
    .id = 4,
    .phases = 2,
    .taps = 4,
    .in = 3,
    .products = 3,
    .targets = 3,
    .out = 2,
    .step = 2,
    .g = {{{0, 0, 0, 1}, {0, 1, 0, 1}, {0, 1, 0, 0}}, {{0, 0, 1, 0}, {1, 0, 1, 0}, {1, 0, 0, 0}}},
    .first = {0, 1, 2, 3}};
inline constexpr Scheme kF4Transposed{.id = 5,
                                      .phases = 2,
                                      .taps = 4,
                                      .in = 5,
                                      .products = 5,
                                      .targets = 5,
                                      .out = 4,
                                      .step = 4,
                                      .g = {{{0, 0, 0, 1. / 2},
                                             {0, -1. / 2, 0, -1. / 2},
                                             {0, 1. / 6, 0, -1. / 6},
                                             {0, 1. / 3, 0, 1. / 6},
                                             {0, 1, 0, 0}},
                                            {{0, 0, 1. / 2, 0},
                                             {-1. / 2, 0, -1. / 2, 0},
                                             {1. / 6, 0, -1. / 6, 0},
                                             {1. / 3, 0, 1. / 6, 0},
                                             {1, 0, 0, 0}}},
                                      .first = {0, 1, 2, 3, 4, 5}};

}  // namespace stretto::kernels::winograd
