// The taps of every output row and column are tables made when packing. Rows are combined first,
// into one row that stays in the cache, then columns: gathered (plain) or one vector per pixel
// (blocked). Limit: writing y.
#include <algorithm>

#include "stretto/kernels/packing.h"
#include "stretto/kernels/resize/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/resize/cpu/separable.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/memory-inl.h"

#ifndef STRETTO_KERNELS_RESIZE_SEPARABLE_
#define STRETTO_KERNELS_RESIZE_SEPARABLE_
namespace stretto::kernels::resize {

// One axis's taps: tap k of output o at [k * padded + o]. Padding repeats index 0 with weight 0.
struct Axis {
  int64_t padded;
  const int32_t* index;
  const float* weight;
};

inline int64_t padded_outputs(int64_t out) { return round_up(out, 16); }
inline size_t axis_bytes(const ResizeProblem& p, int64_t out) {
  return static_cast<size_t>(padded_outputs(out) * p.taps()) * (sizeof(int32_t) + sizeof(float));
}
inline Axis axis_at(const ResizeProblem& p, int64_t out, const std::byte* table) {
  const int64_t padded = padded_outputs(out);
  const int32_t* index = reinterpret_cast<const int32_t*>(table);
  return {padded, index, reinterpret_cast<const float*>(index + padded * p.taps())};
}
inline int64_t row_floats(const ResizeProblem& p) {
  return round_up(p.w * (p.layout == Layout::kBlocked ? p.target.block() : 1) + 16, 16);
}

}  // namespace stretto::kernels::resize
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace resize_separable {

template <int kTaps>
void run(const ResizeProblem& p, const Args& args, float* combined, const Worker& worker) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool blocked = p.layout == Layout::kBlocked;
  const int64_t pixel = blocked ? lanes : 1, width = p.w * pixel;
  const int64_t planes = p.n * (blocked ? (p.c + lanes - 1) / lanes : p.c);
  const resize::Axis ys = resize::axis_at(p, p.out_h, args.packed);
  const resize::Axis xs = resize::axis_at(p, p.out_w, args.packed + resize::axis_bytes(p, p.out_h));
  const float* x = static_cast<const float*>(args.inputs[0]);
  const Range work = split(planes * p.out_h, worker);
  for (int64_t job = work.begin; job < work.end; ++job) {
    const int64_t oy = job % p.out_h;
    const float* image = x + job / p.out_h * p.h * width;
    const float* row = image + ys.index[oy] * width;
    if constexpr (kTaps > 1) {
      const float* rows[kTaps];
      V weights[kTaps];
      for (int k = 0; k < kTaps; ++k) {
        rows[k] = image + ys.index[k * ys.padded + oy] * width;
        weights[k] = hn::Set(d, ys.weight[k * ys.padded + oy]);
      }
      for (int64_t i = 0; i < width; i += lanes) {
        const int64_t n = HWY_MIN(lanes, width - i);
        V v = hn::Mul(weights[0], load_n(d, rows[0] + i, n));
        for (int k = 1; k < kTaps; ++k) v = hn::MulAdd(weights[k], load_n(d, rows[k] + i, n), v);
        hn::StoreU(v, d, combined + i);
      }
      row = combined;
    }
    float* y = static_cast<float*>(args.outputs[0]) + job * p.out_w * pixel;
    if (blocked) {
      for (int64_t ox = 0; ox < p.out_w; ++ox) {
        V v = hn::LoadU(d, row + xs.index[ox] * lanes);
        if constexpr (kTaps > 1) {
          v = hn::Mul(v, hn::Set(d, xs.weight[ox]));
          for (int k = 1; k < kTaps; ++k) {
            const int64_t at = k * xs.padded + ox;
            v = hn::MulAdd(hn::LoadU(d, row + xs.index[at] * lanes), hn::Set(d, xs.weight[at]), v);
          }
        }
        hn::StoreU(v, d, y + ox * lanes);
      }
      continue;
    }
    for (int64_t ox = 0; ox < p.out_w; ox += lanes) {
      V v = hn::GatherIndex(d, row, hn::LoadU(di, xs.index + ox));
      if constexpr (kTaps > 1) {
        v = hn::Mul(v, hn::LoadU(d, xs.weight + ox));
        for (int k = 1; k < kTaps; ++k) {
          const int64_t at = k * xs.padded + ox;
          v = hn::MulAdd(hn::GatherIndex(d, row, hn::LoadU(di, xs.index + at)),
                         hn::LoadU(d, xs.weight + at), v);
        }
      }
      store_n(v, d, y + ox, HWY_MIN(lanes, p.out_w - ox));
    }
  }
}

}  // namespace resize_separable

void resize_run(const ResizeProblem& p, const Args& args, float* combined, const Worker& worker) {
  switch (p.taps()) {
    case 1:
      return resize_separable::run<1>(p, args, combined, worker);
    case 2:
      return resize_separable::run<2>(p, args, combined, worker);
    case 4:
      return resize_separable::run<4>(p, args, combined, worker);
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::resize {
namespace {

Fit fits(const ResizeProblem& p) {
  if (p.dtype != DType::kFloat32) return Fit::no("float32 only");
  return p.h == 0 || p.w == 0 ? Fit::no("empty input") : Fit::yes(0.3);
}

std::string packing(const ResizeProblem&) { return packing_text("resize_taps", 1, 16); }

size_t packed_bytes(const ResizeProblem& p) {
  return axis_bytes(p, p.out_h) + axis_bytes(p, p.out_w);
}

void pack(const ResizeProblem& p, std::span<const Tensor>, std::byte* packed) {
  const auto fill = [&](std::byte* table, int64_t in, int64_t out, double scale) {
    const int64_t padded = padded_outputs(out);
    int32_t* index = reinterpret_cast<int32_t*>(table);
    float* weight = reinterpret_cast<float*>(index + padded * p.taps());
    for (int64_t o = 0; o < padded; ++o) {
      const ResizeTaps taps = o < out ? resize_taps(p, o, in, out, scale) : ResizeTaps{};
      for (int k = 0; k < p.taps(); ++k) {
        index[k * padded + o] = static_cast<int32_t>(taps.index[k]);
        weight[k * padded + o] = static_cast<float>(taps.weight[k]);
      }
    }
  };
  fill(packed, p.h, p.out_h, p.scale_h);
  fill(packed + axis_bytes(p, p.out_h), p.w, p.out_w, p.scale_w);
}

size_t scratch_bytes(const ResizeProblem& p) {
  return static_cast<size_t>(p.target.threads * row_floats(p)) * sizeof(float);
}

void run(const ResizeProblem& p, const Args& args, const Worker& worker) {
  float* combined = reinterpret_cast<float*>(args.scratch) + worker.thread * row_floats(p);
  STRETTO_ISA_SELECT(p.target.isa, resize_run)(p, args, combined, worker);
}

}  // namespace

const Row kSeparable{.name = "separable",
                     .fits = fits,
                     .packed_bytes = packed_bytes,
                     .pack = pack,
                     .packing = packing,
                     .scratch_bytes = scratch_bytes,
                     .run = run};

}  // namespace stretto::kernels::resize
#endif
