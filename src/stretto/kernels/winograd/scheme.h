// One-dimensional minimal filtering schemes; two-dimensional ones apply the same scheme to rows and to
// columns. A scheme turns `in` neighbouring inputs into `products` values, multiplies each by a
// transformed filter value, adds products that share a target (during the reduction over channels),
// and turns `targets` sums into `out` neighbouring outputs. From tile to tile the input advances by
// `step`. Source: Winograd's F(m, r) (Lavin and Gray, arXiv 1509.09308), applied to each phase where a
// stride is involved (decomposable Winograd, AAAI 2020; for transposed convolutions per output phase).
#pragma once

#include <cstdint>

namespace stretto::kernels::winograd {

struct Scheme {
  static constexpr int kMaxProducts = 10, kMaxTaps = 4;

  int id;  // index into the transforms of transforms.h
  int taps, in, products, targets, out, step;
  // Transformed filter value p = sum over taps g[p][tap] * w[tap].
  double g[kMaxProducts][kMaxTaps];
  // Target q adds products first[q] .. first[q + 1] - 1.
  int first[kMaxProducts + 1];
};

// 3 taps, stride 1: F(2,3) and F(4,3), points 0, 1, -1, (2, -2,) infinity. 2.25 and 4 times fewer
// multiplications in two dimensions.
inline constexpr Scheme kF2{0, 3, 4, 4, 4, 2, 2,
                            {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}},
                            {0, 1, 2, 3, 4}};
inline constexpr Scheme kF4{1, 3, 6, 6, 6, 4, 4,
                            {{1. / 4, 0, 0},
                             {-1. / 6, -1. / 6, -1. / 6},
                             {-1. / 6, 1. / 6, -1. / 6},
                             {1. / 24, 1. / 12, 1. / 6},
                             {1. / 24, -1. / 12, 1. / 6},
                             {0, 0, 1}},
                            {0, 1, 2, 3, 4, 5, 6}};

// 3 taps, stride 2: outer taps see inputs of one parity (F(m,2)), the middle tap those of the other
// (m plain products, which end in the targets of one output each). 1.44 and 1.78 times fewer.
inline constexpr Scheme kF2Stride2{2, 3, 5, 5, 3, 2, 4,
                                   {{1, 0, 0}, {0, 1, 0}, {1, 0, 1}, {0, 1, 0}, {0, 0, 1}},
                                   {0, 2, 3, 5}};
inline constexpr Scheme kF4Stride2{3, 3, 9, 9, 7, 4, 8,
                                   {{1. / 2, 0, 0},
                                    {0, 1, 0},
                                    {0, 1, 0},
                                    {0, 1, 0},
                                    {0, 0, 1},
                                    {0, 1, 0},
                                    {-1. / 2, 0, -1. / 2},
                                    {-1. / 6, 0, 1. / 6},
                                    {1. / 6, 0, 1. / 3}},
                                   {0, 2, 3, 4, 6, 7, 8, 9}};

// Transposed, 4 taps, stride 2, one leading pad: even outputs use taps 3 and 1 on inputs j - 1 and j,
// odd ones taps 2 and 0 on j and j + 1. F(4,2) for each parity, points 0, 1, -1, 2, infinity: 2.56
// times fewer.
inline constexpr Scheme kF4Transposed{4, 4, 6, 10, 10, 8, 4,
                                      {{0, 0, 0, 1. / 2},
                                       {0, -1. / 2, 0, -1. / 2},
                                       {0, 1. / 6, 0, -1. / 6},
                                       {0, 1. / 3, 0, 1. / 6},
                                       {0, 1, 0, 0},
                                       {0, 0, 1. / 2, 0},
                                       {-1. / 2, 0, -1. / 2, 0},
                                       {1. / 6, 0, -1. / 6, 0},
                                       {1. / 3, 0, 1. / 6, 0},
                                       {1, 0, 0, 0}},
                                      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};

}  // namespace stretto::kernels::winograd
