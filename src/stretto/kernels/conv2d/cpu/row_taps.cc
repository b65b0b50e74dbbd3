// Plain maps with few output channels, where neighbouring pixels are the vectors: resamplers and
// filters of one signal, whose outputs fill no block of channels. A stride takes one column of
// several, so each line of the input is first dealt into as many lines as the stride; then every
// tap reads neighbours.
//
// Order of work: row of output / piece of it / line of the input that its window meets / tile. The
// limit is one load of a vector per tap and pixels, which outputs share.
#include <algorithm>

#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/conv2d/cpu/blocked.h"
#include "stretto/kernels/cycles.h"
#include "stretto/kernels/packing.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/conv2d/cpu/row_taps.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef STRETTO_KERNELS_CONV2D_ROW_TAPS_
#define STRETTO_KERNELS_CONV2D_ROW_TAPS_
namespace stretto::kernels::conv2d {

constexpr int64_t kMostRowTaps = 1024, kMostRowOutputs = 4, kRowVectors = 8;

// A piece of a row of output: `pixels`, in whole tiles.
struct RowPlan {
  int64_t pixels, pieces;  // of one row
  int64_t line;            // floats of one of the lines that a row of input is dealt into
  int64_t thread_scratch;  // floats
};

inline RowPlan make_row_plan(const Conv2dProblem& p) {
  constexpr int64_t kPixels = 512;
  const int64_t tile = kRowVectors * p.target.lanes(), out = std::max<int64_t>(p.out_w(), 1);
  RowPlan plan{};
  plan.pixels = std::min(round_up(out, tile), kPixels);
  plan.pieces = (out + plan.pixels - 1) / plan.pixels;
  const int64_t reach = static_cast<int64_t>(p.dilation_w) * (p.kernel_w - 1);
  plan.line = round_up(plan.pixels + reach / p.stride_w + 1, 16);
  plan.thread_scratch = p.stride_w * plan.line + p.k * plan.pixels;
  return plan;
}

}  // namespace stretto::kernels::conv2d
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[j * line + i] = from[i * stride + j] for i < count, j < stride.
HWY_INLINE void deal(const float* from, int64_t stride, int64_t line, int64_t count, float* to) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  using V = hn::Vec<decltype(d)>;
  if (stride == 1) {
    for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  } else if (stride == 2) {
    for (; i + lanes <= count; i += lanes) {
      V v0, v1;
      hn::LoadInterleaved2(d, from + 2 * i, v0, v1);
      hn::StoreU(v0, d, to + i);
      hn::StoreU(v1, d, to + line + i);
    }
  } else if (stride == 3) {
    for (; i + lanes <= count; i += lanes) {
      V v0, v1, v2;
      hn::LoadInterleaved3(d, from + 3 * i, v0, v1, v2);
      hn::StoreU(v0, d, to + i);
      hn::StoreU(v1, d, to + line + i);
      hn::StoreU(v2, d, to + 2 * line + i);
    }
  } else if (stride == 4) {
    for (; i + lanes <= count; i += lanes) {
      V v0, v1, v2, v3;
      hn::LoadInterleaved4(d, from + 4 * i, v0, v1, v2, v3);
      hn::StoreU(v0, d, to + i);
      hn::StoreU(v1, d, to + line + i);
      hn::StoreU(v2, d, to + 2 * line + i);
      hn::StoreU(v3, d, to + 3 * line + i);
    }
  }
  for (; i < count; ++i) {
    for (int64_t j = 0; j < stride; ++j) to[j * line + i] = from[i * stride + j];
  }
}

struct RowTile {
  const float* lines;
  const int32_t* offsets;  // of each tap in the lines
  int64_t taps;
  const float* weights;
  int64_t filter;  // weights from output to output
  float* sums;
  int64_t row;  // sums from output to output
};

template <int kOutputs, int kVectors>
HWY_NOINLINE void row_tile(const RowTile& t, int64_t at) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V sums[kOutputs][kVectors];
  HWY_PRAGMA(GCC unroll 8)
  for (int k = 0; k < kOutputs; ++k) {
    HWY_PRAGMA(GCC unroll 8)
    for (int v = 0; v < kVectors; ++v) {
      sums[k][v] = hn::LoadU(d, t.sums + k * t.row + at + v * lanes);
    }
  }
  const float* lines = t.lines + at;
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const float* x = lines + t.offsets[tap];
    V w[kOutputs];
    HWY_PRAGMA(GCC unroll 8)
    for (int k = 0; k < kOutputs; ++k) w[k] = hn::Set(d, t.weights[k * t.filter + tap]);
    HWY_PRAGMA(GCC unroll 8)
    for (int v = 0; v < kVectors; ++v) {
      const V value = hn::LoadU(d, x + v * lanes);
      HWY_PRAGMA(GCC unroll 8)
      for (int k = 0; k < kOutputs; ++k) sums[k][v] = hn::MulAdd(value, w[k], sums[k][v]);
    }
  }
  HWY_PRAGMA(GCC unroll 8)
  for (int k = 0; k < kOutputs; ++k) {
    HWY_PRAGMA(GCC unroll 8)
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[k][v], d, t.sums + k * t.row + at + v * lanes);
    }
  }
}

// Sums of `pixels` pixels, in whole tiles but for one or two vectors.
template <int kOutputs>
void row_sums(const RowTile& t, int64_t pixels) {
  constexpr int kVectors = kOutputs == 1 ? 8 : kOutputs == 2 ? 4 : 2;
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t at = 0;
  while (at + 2 * lanes < pixels) {
    row_tile<kOutputs, kVectors>(t, at);
    at += kVectors * lanes;
  }
  for (; at < pixels; at += lanes) row_tile<kOutputs, 1>(t, at);
}

void run_row_taps(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  namespace own = ::stretto::kernels::conv2d;
  const own::RowPlan plan = own::make_row_plan(p);
  const TileSet& set = tile_set(p.target.isa);
  const int64_t out_h = p.out_h(), out_w = p.out_w(), stride = p.stride_w;
  const float* x = static_cast<const float*>(args.inputs[0]);
  const float* residual = p.epilogue.residual ? static_cast<const float*>(args.inputs[1]) : nullptr;
  float* y = static_cast<float*>(args.outputs[0]);
  const float* weights = reinterpret_cast<const float*>(args.packed);
  const int64_t filter = p.c * p.kernel_h * p.kernel_w;
  const float* bias = weights + p.k * filter;
  float* lines = reinterpret_cast<float*>(args.scratch) + worker.thread * plan.thread_scratch;
  float* sums = lines + stride * plan.line;
  int32_t offsets[own::kMostRowTaps];
  for (int64_t s = 0; s < p.kernel_w; ++s) {
    const int64_t column = s * p.dilation_w;
    offsets[s] = static_cast<int32_t>(column % stride * plan.line + column / stride);
  }
  RowTile tile{.lines = lines,
               .offsets = offsets,
               .taps = p.kernel_w,
               .weights = nullptr,
               .filter = filter,
               .sums = sums,
               .row = plan.pixels};
  const Range units = split(p.n * out_h * plan.pieces, worker);
  for (int64_t unit = units.begin; unit < units.end; ++unit) {
    const int64_t image = unit / (out_h * plan.pieces), oy = unit / plan.pieces % out_h;
    const int64_t ox = unit % plan.pieces * plan.pixels;
    const int64_t pixels = std::min(plan.pixels, out_w - ox);
    for (int64_t k = 0; k < p.k; ++k) std::fill_n(sums + k * plan.pixels, plan.pixels, bias[k]);
    const int64_t first = ox * stride - p.pad_left;  // the column that tap 0 of pixel 0 sees
    // Groups of `stride` columns that lie inside: [inside, inside_end); part of one at each end.
    const int64_t groups = plan.line;
    const int64_t inside = std::clamp<int64_t>((-first + stride - 1) / stride, 0, groups);
    const int64_t inside_end = std::clamp<int64_t>((p.w - first) / stride, inside, groups);
    for (int64_t c = 0; c < p.c; ++c) {
      for (int64_t r = 0; r < p.kernel_h; ++r) {
        const int64_t iy = oy * p.stride_h + r * p.dilation_h - p.pad_top;
        if (iy < 0 || iy >= p.h) continue;
        const float* row = x + ((image * p.c + c) * p.h + iy) * p.w;
        const auto edge = [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            for (int64_t j = 0; j < stride; ++j) {
              const int64_t column = first + i * stride + j;
              lines[j * plan.line + i] = column >= 0 && column < p.w ? row[column] : 0;
            }
          }
        };
        edge(0, inside);
        deal(row + first + inside * stride, stride, plan.line, inside_end - inside, lines + inside);
        edge(inside_end, groups);
        tile.weights = weights + (c * p.kernel_h + r) * p.kernel_w;
        switch (p.k) {
          case 1:
            row_sums<1>(tile, pixels);
            break;
          case 2:
            row_sums<2>(tile, pixels);
            break;
          case 3:
            row_sums<3>(tile, pixels);
            break;
          default:
            row_sums<4>(tile, pixels);
        }
      }
    }
    for (int64_t k = 0; k < p.k; ++k) {
      const int64_t at = ((image * p.k + k) * out_h + oy) * out_w + ox;
      set.finish_columns(p.epilogue, sums + k * plan.pixels, 0, y + at, 0, 1,
                         static_cast<int>(pixels), residual ? residual + at : nullptr);
    }
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::conv2d {
namespace {

// A piece: lines dealt, taps multiplied, results finished.
double row_cycles(const Conv2dProblem& p, const RowPlan& plan) {
  constexpr double kPiece = 60, kLine = 40, kTile = 14, kDealt = 0.12, kSlowlyDealt = 1.2;
  const int64_t lanes = p.target.lanes();
  const int64_t together = p.k == 1 ? 8 : p.k == 2 ? 4 : 2;
  double lines = 0, pieces = 0;
  for (int64_t piece = 0; piece < plan.pieces; ++piece) {
    const int64_t pixels = std::min(plan.pixels, p.out_w() - piece * plan.pixels);
    const int64_t vectors = (pixels + lanes - 1) / lanes, last = vectors % together;
    const auto tiles = static_cast<double>(vectors / together + (last > 2 ? 1 : 0));
    const auto singles = static_cast<double>(last > 2 ? 0 : last);
    // Loads of vectors mostly cross cache lines, which takes a cycle.
    const double whole =
        std::max<double>(static_cast<double>(together), static_cast<double>(together * p.k) / 2.0);
    lines +=
        kLine + kTile * (tiles + singles) +
        static_cast<double>(p.kernel_w) * (tiles * whole + singles * kLatency) +
        static_cast<double>(plan.line * p.stride_w) * (p.stride_w <= 4 ? kDealt : kSlowlyDealt);
    pieces += kPiece + static_cast<double>(p.k * pixels) * 0.25;
  }
  int64_t rows = 0;  // of the kernel that lie inside
  const Axis vertical = vertical_axis(p);
  for (int64_t oy = 0; oy < p.out_h(); ++oy) {
    rows += std::max<int64_t>(vertical.last(oy) - vertical.first(oy), 0);
  }
  return static_cast<double>(p.n) *
         (lines * static_cast<double>(rows * p.c) + pieces * static_cast<double>(p.out_h()));
}

Fit fits(const Conv2dProblem& p) {
  if (p.x_layout != Layout::kPlain || p.y_layout != Layout::kPlain) return Fit::no("not plain");
  if (p.groups != 1) return Fit::no("grouped");
  if (p.k > kMostRowOutputs) return Fit::no("more than 4 output channels");
  if (p.kernel_w > kMostRowTaps) return Fit::no("kernel too wide");
  const int64_t reach = static_cast<int64_t>(p.dilation_w) * (p.kernel_w - 1);
  if (reach > 4 * kMostRowTaps || p.stride_w > kMostRowTaps) return Fit::no("window too wide");
  if (p.n * p.out_h() * p.out_w() == 0 || p.c == 0) return Fit::no("nothing to do");
  const RowPlan plan = make_row_plan(p);
  const int64_t units = p.n * p.out_h() * plan.pieces;
  const double share = static_cast<double>((units + p.target.threads - 1) / p.target.threads) /
                       static_cast<double>(units);
  return Fit::yes(expected_share(
      p.target, problem_flops(p),
      run_cycles(p.target, row_cycles(p, plan) * share,
                 {.bytes = static_cast<double>(p.k * p.c * p.kernel_h * p.kernel_w * 4)})));
}

// Weights, then bias, as the reference has them.
std::string packing(const Conv2dProblem& p) { return kReference.packing(p); }
size_t packed_bytes(const Conv2dProblem& p) { return kReference.packed_bytes(p); }
void pack(const Conv2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  kReference.pack(p, constants, packed);
}

size_t scratch_bytes(const Conv2dProblem& p) {
  return static_cast<size_t>(make_row_plan(p).thread_scratch * p.target.threads) * sizeof(float);
}

void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, run_row_taps)(p, args, worker);
}

}  // namespace

const Row kRowTaps{.name = "row_taps",
                   .fits = fits,
                   .packed_bytes = packed_bytes,
                   .pack = pack,
                   .packing = packing,
                   .scratch_bytes = scratch_bytes,
                   .run = run};

}  // namespace stretto::kernels::conv2d
#endif
