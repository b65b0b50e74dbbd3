// Pictures of bytes. Weights are whole numbers of units of 2^-kByteWeightBits, so that all sums are
// exact: rows are combined into one row of int32 that stays in the cache, then columns in int64.
// Rows of the output that are equal are copied. Limit: loads of single pixels.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "stretto/kernels/packing.h"
#include "stretto/kernels/resize/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/resize/cpu/bytes.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef STRETTO_KERNELS_RESIZE_BYTES_
#define STRETTO_KERNELS_RESIZE_BYTES_
namespace stretto::kernels::resize {

// Of each output along one axis.
struct ByteTap {
  int32_t first, second;  // positions in the input
  int32_t weight;         // of the second one
};

}  // namespace stretto::kernels::resize
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace resize_bytes {

using resize::ByteTap;
constexpr int32_t kUnit = 1 << kByteWeightBits;

template <typename T>
void nearest(const ResizeProblem& p, const T* row, const ByteTap* columns, T* y) {
  for (int64_t ox = 0; ox < p.out_w; ++ox) y[ox] = row[columns[ox].first];
}

template <typename T>
void linear(const ResizeProblem& p, const T* image, const ByteTap& at, const ByteTap* columns,
            int32_t* combined, T* y) {
  const T *above = image + at.first * p.w, *below = image + at.second * p.w;
  const int32_t weight = at.weight;
  for (int64_t i = 0; i < p.w; ++i) {
    combined[i] = kUnit * above[i] + weight * (below[i] - above[i]);
  }
  constexpr int kShift = 2 * kByteWeightBits;
  for (int64_t ox = 0; ox < p.out_w; ++ox) {
    const ByteTap& c = columns[ox];
    const int64_t first = combined[c.first], second = combined[c.second];
    const int64_t sum = kUnit * first + c.weight * (second - first);
    y[ox] = static_cast<T>(sum < 0 ? -(-sum >> kShift) : sum >> kShift);
  }
}

template <typename T>
void run(const ResizeProblem& p, const Args& args, int32_t* combined, const Worker& worker) {
  const auto* rows = reinterpret_cast<const ByteTap*>(args.packed);
  const ByteTap* columns = rows + p.out_h;
  const T* x = static_cast<const T*>(args.inputs[0]);
  T* y = static_cast<T*>(args.outputs[0]);
  const Range work = split(p.n * p.c * p.out_h, worker);
  for (int64_t job = work.begin; job < work.end; ++job) {
    const int64_t oy = job % p.out_h;
    T* to = y + job * p.out_w;
    const bool again = job > work.begin && oy > 0 && rows[oy].first == rows[oy - 1].first &&
                       rows[oy].second == rows[oy - 1].second &&
                       rows[oy].weight == rows[oy - 1].weight;
    const T* image = x + job / p.out_h * p.h * p.w;
    if (again) {
      std::memcpy(to, to - p.out_w, static_cast<size_t>(p.out_w));
    } else if (p.mode == Resampling::kNearest) {
      nearest(p, image + rows[oy].first * p.w, columns, to);
    } else {
      linear(p, image, rows[oy], columns, combined, to);
    }
  }
}

}  // namespace resize_bytes

void resize_bytes_run(const ResizeProblem& p, const Args& args, int32_t* combined,
                      const Worker& worker) {
  if (p.dtype == DType::kUInt8) return resize_bytes::run<uint8_t>(p, args, combined, worker);
  resize_bytes::run<int8_t>(p, args, combined, worker);
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::resize {
namespace {

Fit fits(const ResizeProblem& p) {
  if (p.dtype != DType::kUInt8 && p.dtype != DType::kInt8) return Fit::no("bytes only");
  if (p.layout != Layout::kPlain) return Fit::no("plain layout only");
  if (p.mode == Resampling::kCubic) return Fit::no("nearest and linear only");
  return p.h == 0 || p.w == 0 ? Fit::no("empty input") : Fit::yes(0.3);
}

std::string packing(const ResizeProblem&) { return packing_text("resize_bytes", 1, 1); }

size_t packed_bytes(const ResizeProblem& p) {
  return static_cast<size_t>(p.out_h + p.out_w) * sizeof(ByteTap);
}

void pack(const ResizeProblem& p, std::span<const Tensor>, std::byte* packed) {
  auto* to = reinterpret_cast<ByteTap*>(packed);
  const auto fill = [&](int64_t in, int64_t out, double scale) {
    for (int64_t o = 0; o < out; ++o) {
      const ResizeTaps taps = resize_taps(p, o, in, out, scale);
      const int last = p.taps() - 1;
      *to++ = {static_cast<int32_t>(taps.index[0]), static_cast<int32_t>(taps.index[last]),
               last == 0 ? 0
                         : static_cast<int32_t>(std::lround(
                               taps.weight[1] * static_cast<double>(1 << kByteWeightBits)))};
    }
  };
  fill(p.h, p.out_h, p.scale_h);
  fill(p.w, p.out_w, p.scale_w);
}

size_t thread_bytes(const ResizeProblem& p) {
  return static_cast<size_t>(round_up(p.w, 16)) * sizeof(int32_t);
}

size_t scratch_bytes(const ResizeProblem& p) {
  return p.mode == Resampling::kNearest ? 0
                                        : static_cast<size_t>(p.target.threads) * thread_bytes(p);
}

void run(const ResizeProblem& p, const Args& args, const Worker& worker) {
  auto* combined = p.mode == Resampling::kNearest
                       ? nullptr
                       : reinterpret_cast<int32_t*>(
                             args.scratch + static_cast<size_t>(worker.thread) * thread_bytes(p));
  STRETTO_ISA_SELECT(p.target.isa, resize_bytes_run)(p, args, combined, worker);
}

}  // namespace

const Row kBytes{.name = "bytes",
                 .fits = fits,
                 .packed_bytes = packed_bytes,
                 .pack = pack,
                 .packing = packing,
                 .scratch_bytes = scratch_bytes,
                 .run = run};

}  // namespace stretto::kernels::resize
#endif
