#include "stretto/kernels/winograd/transforms.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/winograd/transforms.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <utility>

#include "stretto/kernels/simd/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::winograd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using kernels::HWY_NAMESPACE::activate;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

HWY_INLINE V constant(float value) { return hn::Set(D(), value); }

// F(4,2) on points 0, 1, -1, 2, infinity: shared by the strided and the transposed scheme.
struct F4Taps2 {
  static HWY_INLINE void input(V d0, V d1, V d2, V d3, V d4, V& p0, V& p1, V& p2, V& p3, V& p4) {
    const V two = constant(2), odd = hn::Sub(d3, d1);
    p0 = hn::MulAdd(two, hn::Sub(d0, d2), odd);
    p1 = hn::NegMulAdd(two, d1, hn::Sub(d3, d2));
    p2 = hn::MulAdd(two, d1, hn::NegMulAdd(constant(3), d2, d3));
    p3 = odd;
    p4 = hn::NegMulAdd(two, odd, hn::Sub(d4, d2));
  }
  static HWY_INLINE void output(V m0, V m1, V m2, V m3, V m4, V& y0, V& y1, V& y2, V& y3) {
    const V sum = hn::Add(m1, m2), difference = hn::Sub(m1, m2);
    y0 = hn::Add(m0, hn::Add(sum, m3));
    y1 = hn::MulAdd(constant(2), m3, difference);
    y2 = hn::MulAdd(constant(4), m3, sum);
    y3 = hn::Add(hn::MulAdd(constant(8), m3, difference), m4);
  }
};

struct F2 {
  static constexpr const Scheme& kScheme = kF2;
  static HWY_INLINE void input(const V* d, V* p) {
    p[0] = hn::Sub(d[0], d[2]);
    p[1] = hn::Add(d[1], d[2]);
    p[2] = hn::Sub(d[2], d[1]);
    p[3] = hn::Sub(d[1], d[3]);
  }
  static HWY_INLINE void output(const V* m, V* y) {
    y[0] = hn::Add(m[0], hn::Add(m[1], m[2]));
    y[1] = hn::Sub(hn::Sub(m[1], m[2]), m[3]);
  }
};

struct F4 {
  static constexpr const Scheme& kScheme = kF4;
  static HWY_INLINE void input(const V* d, V* p) {
    const V two = constant(2), four = constant(4), five = constant(5);
    const V a = hn::NegMulAdd(four, d[2], d[4]), b = hn::NegMulAdd(four, d[1], d[3]);
    const V c = hn::Sub(d[4], d[2]), e = hn::Sub(d[3], d[1]);
    p[0] = hn::MulAdd(four, d[0], hn::NegMulAdd(five, d[2], d[4]));
    p[1] = hn::Add(a, b);
    p[2] = hn::Sub(a, b);
    p[3] = hn::MulAdd(two, e, c);
    p[4] = hn::NegMulAdd(two, e, c);
    p[5] = hn::MulAdd(four, d[1], hn::NegMulAdd(five, d[3], d[5]));
  }
  static HWY_INLINE void output(const V* m, V* y) {
    const V s1 = hn::Add(m[1], m[2]), d1 = hn::Sub(m[1], m[2]);
    const V s2 = hn::Add(m[3], m[4]), d2 = hn::Sub(m[3], m[4]);
    y[0] = hn::Add(m[0], hn::Add(s1, s2));
    y[1] = hn::MulAdd(constant(2), d2, d1);
    y[2] = hn::MulAdd(constant(4), s2, s1);
    y[3] = hn::Add(hn::MulAdd(constant(8), d2, d1), m[5]);
  }
};

struct F6 {
  static constexpr const Scheme& kScheme = kF6;
  static HWY_INLINE void input(const V* d, V* p) {
    p[0] = hn::MulAdd(constant(5.25f), hn::Sub(d[4], d[2]), hn::Sub(d[0], d[6]));
    pair(1, 4.25f, 1, d, p + 1);
    pair(2, 1.25f, 0.25f, d, p + 3);
    pair(0.5f, 5, 4, d, p + 5);
    p[7] = hn::MulAdd(constant(5.25f), hn::Sub(d[3], d[5]), hn::Sub(d[7], d[1]));
  }
  static HWY_INLINE void output(const V* m, V* y) {
    const V s1 = hn::Add(m[1], m[2]), d1 = hn::Sub(m[1], m[2]);
    const V s2 = hn::Add(m[3], m[4]), d2 = hn::Sub(m[3], m[4]);
    const V s3 = hn::Add(m[5], m[6]), d3 = hn::Sub(m[5], m[6]);
    y[0] = hn::Add(hn::Add(m[0], s1), hn::Add(s2, s3));
    y[1] = hn::MulAdd(constant(2), d2, hn::MulAdd(constant(1.f / 2), d3, d1));
    y[2] = hn::MulAdd(constant(4), s2, hn::MulAdd(constant(1.f / 4), s3, s1));
    y[3] = hn::MulAdd(constant(8), d2, hn::MulAdd(constant(1.f / 8), d3, d1));
    y[4] = hn::MulAdd(constant(16), s2, hn::MulAdd(constant(1.f / 16), s3, s1));
    y[5] = hn::MulAdd(constant(32), d2, hn::MulAdd(constant(1.f / 32), d3, hn::Add(d1, m[7])));
  }

 private:
  // Points a and -a: `sum` and `product` are those of the squares of the other two.
  static HWY_INLINE void pair(float a, float sum, float product, const V* d, V* p) {
    const V s = constant(sum), q = constant(product);
    const V even = hn::NegMulAdd(s, d[4], hn::MulAdd(q, d[2], d[6]));
    const V odd = hn::NegMulAdd(s, d[3], hn::MulAdd(q, d[1], d[5]));
    p[0] = hn::MulAdd(constant(a), odd, even);
    p[1] = hn::NegMulAdd(constant(a), odd, even);
  }
};

struct F2Stride2 {
  static constexpr const Scheme& kScheme = kF2Stride2;
  static HWY_INLINE void input(const V* d, V* p) {
    p[0] = hn::Sub(d[0], d[2]);
    p[1] = d[1];
    p[2] = d[2];
    p[3] = d[3];
    p[4] = hn::Sub(d[4], d[2]);
  }
  static HWY_INLINE void output(const V* m, V* y) {
    y[0] = hn::Add(m[0], m[1]);
    y[1] = hn::Add(m[1], m[2]);
  }
};

struct F4Stride2 {
  static constexpr const Scheme& kScheme = kF4Stride2;
  static HWY_INLINE void input(const V* d, V* p) {
    F4Taps2::input(d[0], d[2], d[4], d[6], d[8], p[0], p[6], p[7], p[8], p[4]);
    p[1] = d[1];
    p[2] = d[3];
    p[3] = d[5];
    p[5] = d[7];
  }
  static HWY_INLINE void output(const V* m, V* y) {
    F4Taps2::output(m[0], m[4], m[5], m[6], m[3], y[0], y[1], y[2], y[3]);
    y[1] = hn::Add(y[1], m[1]);
    y[2] = hn::Add(y[2], m[2]);
  }
};

struct F2Transposed {
  static constexpr const Scheme& kScheme = kF2Transposed;
  static HWY_INLINE void input(const V* d, V* p) {
    p[0] = hn::Sub(d[0], d[1]);
    p[1] = d[1];
    p[2] = hn::Sub(d[2], d[1]);
  }
  static HWY_INLINE void output(const V* m, V* y) { F2Stride2::output(m, y); }
};

struct F4Transposed {
  static constexpr const Scheme& kScheme = kF4Transposed;
  static HWY_INLINE void input(const V* d, V* p) {
    F4Taps2::input(d[0], d[1], d[2], d[3], d[4], p[0], p[1], p[2], p[3], p[4]);
  }
  static HWY_INLINE void output(const V* m, V* y) {
    F4Taps2::output(m[0], m[1], m[2], m[3], m[4], y[0], y[1], y[2], y[3]);
  }
};

// Where tile t lies.
struct Position {
  int64_t image, y, x;
  Position(const Tiles& tiles, int64_t t) {
    const int64_t per_image = tiles.tiles_y * tiles.tiles_x;
    image = t / per_image;
    y = t % per_image / tiles.tiles_x;
    x = t % tiles.tiles_x;
  }
  void next(const Tiles& tiles) {
    if (++x < tiles.tiles_x) return;
    x = 0;
    if (++y < tiles.tiles_y) return;
    y = 0;
    ++image;
  }
};

// Rows kRow .. kRow + kRows - 1 of the products of a whole tile.
template <class S, int kRow, int kRows>
HWY_INLINE void product_rows(const float* x, int64_t line, float* v, int64_t plane) {
  constexpr int kIn = S::kScheme.in, kProducts = S::kScheme.products;
  const D d;
  V middle[kRows][kIn];
#pragma GCC unroll 16
  for (int c = 0; c < kIn; ++c) {
    V in[kIn], out[kProducts];  // what these rows do not need is not computed
#pragma GCC unroll 16
    for (int y = 0; y < kIn; ++y) in[y] = hn::LoadU(d, x + y * line + c * kLanes);
    S::input(in, out);
#pragma GCC unroll 2
    for (int r = 0; r < kRows; ++r) middle[r][c] = out[kRow + r];
  }
#pragma GCC unroll 2
  for (int r = 0; r < kRows; ++r) {
    V out[kProducts];
    S::input(middle[r], out);
#pragma GCC unroll 16
    for (int q = 0; q < kProducts; ++q) {
      hn::Store(out[q], d, v + ((kRow + r) * kProducts + q) * plane);
    }
  }
}

// The input transform of a whole tile of F(4,3) or F(6,3), two rows of products at a time: those of
// points a and -a share their sums, and 12 or 16 vectors instead of 36 or 64 live between the
// passes, so that 32 registers hold them. Stores to V miss L1, and spills would queue up behind
// them.
template <class S, int... kPair>
HWY_INLINE void transform_tile(const float* x, int64_t line, float* v, int64_t plane,
                               std::integer_sequence<int, kPair...> /*pairs*/) {
  product_rows<S, 0, 1>(x, line, v, plane);
  (product_rows<S, 2 * kPair + 1, 2>(x, line, v, plane), ...);
  product_rows<S, S::kScheme.products - 1, 1>(x, line, v, plane);
}

// Maps beyond L2 are asked for this many tiles ahead: a transform takes some 50 ns a tile and
// block, memory a few times that, and the hardware loses track of as many streams as a tile has
// rows.
constexpr int64_t kTilesAhead = 4;

// The lines of `columns` pixels in each of `rows` rows.
template <int kRows, int kColumns, int kPixel, bool kWrite>
HWY_INLINE void fetch(const float* p, int64_t line) {
  constexpr int kLine = 64 / sizeof(float);
#pragma GCC unroll 16
  for (int y = 0; y < kRows; ++y) {
#pragma GCC unroll 16
    for (int x = 0; x < kColumns * kPixel; x += kLine) {
      __builtin_prefetch(p + y * line + x, kWrite, 3);
    }
  }
}

template <class S>
void transform_input(const InputJob& job) {
  constexpr int kIn = S::kScheme.in, kProducts = S::kScheme.products, kStep = S::kScheme.step;
  const D d;
  alignas(64) static constexpr float kZeros[kIn * kLanes] = {};
  // Locals, because stores through float pointers could change the job for all the compiler knows.
  const Tiles tiles = job.tiles;
  const int64_t h = job.h, w = job.w, line = job.w * kLanes, plane = job.plane;
  const int64_t blocks = job.blocks, block_step = job.block;
  Position at(tiles, tiles.first);
  for (int64_t t = 0; t < tiles.count; ++t, at.next(tiles)) {
    const int64_t y0 = at.y * kStep - job.pad_top, x0 = at.x * kStep - job.pad_left;
    const float* base = job.x + at.image * job.image + (y0 * w + x0) * kLanes;
    float* HWY_RESTRICT v = job.v + t * job.row;
    const bool inside = y0 >= 0 && x0 >= 0 && y0 + kIn <= h && x0 + kIn <= w;
    for (int64_t block = 0; block < blocks; ++block, base += block_step, v += kLanes) {
      if (job.far) fetch<kIn, kStep, kLanes, false>(base + kTilesAhead * kStep * kLanes, line);
      V middle[kProducts][kIn];
      if constexpr (kLanes == 16 && (S::kScheme.id == kF4.id || S::kScheme.id == kF6.id)) {
        if (inside) {
          transform_tile<S>(base, line, v, plane,
                            std::make_integer_sequence<int, kProducts / 2 - 1>());
          continue;
        }
      }
      if (inside) {
#pragma GCC unroll 16
        for (int x = 0; x < kIn; ++x) {
          V in[kIn], out[kProducts];
#pragma GCC unroll 16
          for (int y = 0; y < kIn; ++y) in[y] = hn::LoadU(d, base + y * line + x * kLanes);
          S::input(in, out);
#pragma GCC unroll 16
          for (int p = 0; p < kProducts; ++p) middle[p][x] = out[p];
        }
      } else {
        // Rows outside the map are read from zeros; columns outside are skipped.
        const float* lines[kIn];
        for (int y = 0; y < kIn; ++y) {
          lines[y] = y0 + y >= 0 && y0 + y < h ? base + y * line : kZeros;
        }
        for (int x = 0; x < kIn; ++x) {
          if (x0 + x < 0 || x0 + x >= w) {
#pragma GCC unroll 16
            for (int p = 0; p < kProducts; ++p) middle[p][x] = hn::Zero(d);
            continue;
          }
          V in[kIn], out[kProducts];
#pragma GCC unroll 16
          for (int y = 0; y < kIn; ++y) in[y] = hn::LoadU(d, lines[y] + x * kLanes);
          S::input(in, out);
#pragma GCC unroll 16
          for (int p = 0; p < kProducts; ++p) middle[p][x] = out[p];
        }
      }
      float* HWY_RESTRICT to = v;
      for (int p = 0; p < kProducts; ++p) {
        V out[kProducts];
        S::input(middle[p], out);
#pragma GCC unroll 16
        for (int q = 0; q < kProducts; ++q, to += plane) hn::Store(out[q], d, to);
      }
    }
  }
}

// kActivation < 0: decided at run time.
template <class S, int kActivation>
void transform_output_as(const OutputJob& job, const Epilogue& e) {
  constexpr int kTargets = S::kScheme.targets, kOut = S::kScheme.out;
  constexpr int64_t kPixel = S::kScheme.phases * kLanes;
  const D d;
  const V alpha = hn::Set(d, e.alpha), beta = hn::Set(d, e.beta), bias = hn::Load(d, job.bias);
  const Activation activation =
      kActivation < 0 ? e.activation : static_cast<Activation>(kActivation < 0 ? 0 : kActivation);
  const Tiles tiles = job.tiles;
  const int64_t h = job.h, w = job.w, row = job.row, line = job.line, plane = job.plane;
  const int64_t image = job.image;
  float* HWY_RESTRICT y_base = job.y;
  const float* HWY_RESTRICT before = e.residual_after_activation ? nullptr : job.residual;
  const float* HWY_RESTRICT after = e.residual_after_activation ? job.residual : nullptr;
  const auto finish = [=](V sum, int64_t offset) HWY_ATTR {
    sum = hn::Add(sum, bias);
    if (before) sum = hn::Add(sum, hn::LoadU(d, before + offset));
    sum = activate(d, activation, alpha, beta, sum);
    if (after) sum = hn::Add(sum, hn::LoadU(d, after + offset));
    hn::Store(sum, d, y_base + offset);
  };
  const float* HWY_RESTRICT m = job.m;
  Position at(tiles, tiles.first);
  for (int64_t t = 0; t < tiles.count; ++t, at.next(tiles), m += row) {
    if (job.far) {
      const int64_t ahead =
          at.image * image + at.y * kOut * line + (at.x + kTilesAhead) * kOut * kPixel;
      fetch<kOut, kOut, kPixel, true>(y_base + ahead, line);
      if (job.residual) fetch<kOut, kOut, kPixel, false>(job.residual + ahead, line);
    }
    V middle[kOut][kTargets];
#pragma GCC unroll 16
    for (int x = 0; x < kTargets; ++x) {
      V in[kTargets], out[kOut];
#pragma GCC unroll 16
      for (int y = 0; y < kTargets; ++y) in[y] = hn::Load(d, m + (y * kTargets + x) * plane);
      S::output(in, out);
#pragma GCC unroll 16
      for (int y = 0; y < kOut; ++y) middle[y][x] = out[y];
    }
    const int64_t y0 = at.y * kOut, x0 = at.x * kOut;
    int64_t offset = at.image * image + y0 * line + x0 * kPixel;
    const int64_t columns = w - x0;
    // Unrolled where the tile is whole, so that `middle` stays in registers.
    if (h - y0 >= kOut && columns >= kOut) {
#pragma GCC unroll 16
      for (int y = 0; y < kOut; ++y, offset += line) {
        V out[kOut];
        S::output(middle[y], out);
#pragma GCC unroll 16
        for (int x = 0; x < kOut; ++x) finish(out[x], offset + x * kPixel);
      }
      continue;
    }
    const int64_t rows = h - y0 < kOut ? h - y0 : kOut;
    for (int64_t y = 0; y < rows; ++y, offset += line) {
      V out[kOut];
      S::output(middle[y], out);
#pragma GCC unroll 16
      for (int x = 0; x < kOut; ++x) {
        if (x < columns) finish(out[x], offset + x * kPixel);
      }
    }
  }
}

template <class S>
void transform_output(const OutputJob& job, const Epilogue& e) {
  switch (e.activation) {
    case Activation::kNone:
      return transform_output_as<S, static_cast<int>(Activation::kNone)>(job, e);
    case Activation::kRelu:
      return transform_output_as<S, static_cast<int>(Activation::kRelu)>(job, e);
    case Activation::kClip:
      return transform_output_as<S, static_cast<int>(Activation::kClip)>(job, e);
    case Activation::kSilu:
      return transform_output_as<S, static_cast<int>(Activation::kSilu)>(job, e);
    default:
      return transform_output_as<S, -1>(job, e);
  }
}

template <class S>
constexpr Transforms kTransforms{&transform_input<S>, &transform_output<S>};

}  // namespace

const Transforms& get_transforms(int scheme) {
  static constexpr Transforms kAll[] = {
      kTransforms<F2>,        kTransforms<F4>,           kTransforms<F2Stride2>,
      kTransforms<F4Stride2>, kTransforms<F2Transposed>, kTransforms<F4Transposed>,
      kTransforms<F6>};
  return kAll[scheme];
}

}  // namespace stretto::kernels::winograd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::winograd {

const Transforms& transforms(Isa isa, const Scheme& scheme) {
  return STRETTO_ISA_SELECT(isa, get_transforms)(scheme.id);
}

}  // namespace stretto::kernels::winograd
#endif
