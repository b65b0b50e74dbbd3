#include "stretto/media/fuse_kernel.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/media/fuse_kernel.cc"
#include "stretto/base/simd_targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/media/elements-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::media::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows and bands begin at whole vectors.
HWY_INLINE int64_t padded(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

// Calls f with the number of taps as a constant, 0 where it is none of the usual ones.
template <class F>
HWY_INLINE void with_taps(int64_t taps, F&& f) {
  switch (taps) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 3:
      return f(std::integral_constant<int, 3>());
    case 4:
      return f(std::integral_constant<int, 4>());
    case 5:
      return f(std::integral_constant<int, 5>());
    case 6:
      return f(std::integral_constant<int, 6>());
    default:
      return f(std::integral_constant<int, 0>());
  }
}

// ---- along y
// -------------------------------------------------------------------------------------

// out[x] = sum of weight[t] * rows[t * stride + x]. Writes whole vectors and reads no byte beyond
// `width`.
template <int kTaps>
HWY_INLINE void combine_rows(const uint8_t* HWY_RESTRICT rows, int64_t stride, int64_t width,
                             const float* HWY_RESTRICT weight, int64_t taps,
                             float* HWY_RESTRICT out) {
  const int64_t whole = width / kLanes * kLanes;
  if constexpr (kTaps > 0) {
    V w[kTaps];
    for (int t = 0; t < kTaps; ++t) w[t] = hn::Set(kFloats, weight[t]);
    for (int64_t x = 0; x < whole; x += kLanes) {
      V sum = hn::Mul(w[0], to_floats(rows + x));
      for (int t = 1; t < kTaps; ++t) {
        sum = hn::MulAdd(w[t], to_floats(rows + t * stride + x), sum);
      }
      hn::Store(sum, kFloats, out + x);
    }
  } else {
    for (int64_t x = 0; x < whole; x += kLanes) {
      V sum = hn::Zero(kFloats);
      for (int64_t t = 0; t < taps; ++t) {
        sum = hn::MulAdd(hn::Set(kFloats, weight[t]), to_floats(rows + t * stride + x), sum);
      }
      hn::Store(sum, kFloats, out + x);
    }
  }
  if (whole == width) return;
  uint8_t last[kLanes] = {};
  V sum = hn::Zero(kFloats);
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t x = whole; x < width; ++x) last[x - whole] = rows[t * stride + x];
    sum = hn::MulAdd(hn::Set(kFloats, weight[t]), to_floats(last), sum);
  }
  hn::Store(sum, kFloats, out + whole);
}

// ---- transposition
// -------------------------------------------------------------------------------

// Groups of four floats that lie `stride` apart, as one vector.
template <class DG>
HWY_INLINE hn::Vec<DG> groups_of_four(DG d, const float* p, int64_t stride) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return hn::Load(d, p);
  } else {
    const hn::Half<DG> half;
    const auto low = groups_of_four(half, p, stride);
    return hn::Combine(d, groups_of_four(half, p + hn::MaxLanes(half) / 4 * stride, stride), low);
  }
}

// to[c * to_stride + r] = from[r * stride + c] for a square of kLanes. A vector of four rows'
// groups needs no exchange between 128-bit blocks.
HWY_INLINE void transpose(const float* HWY_RESTRICT from, int64_t stride, float* HWY_RESTRICT to,
                          int64_t to_stride) {
  const hn::RepartitionToWide<Unsigned> pairs;
  const auto low = [&](V a, V b)
                       HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveLower(kFloats, a, b)); };
  const auto high = [&](V a, V b)
                        HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveUpper(kFloats, a, b)); };
  for (int64_t c = 0; c < kLanes; c += 4) {
    const V a = groups_of_four(kFloats, from + c, 4 * stride);
    const V b = groups_of_four(kFloats, from + stride + c, 4 * stride);
    const V e = groups_of_four(kFloats, from + 2 * stride + c, 4 * stride);
    const V f = groups_of_four(kFloats, from + 3 * stride + c, 4 * stride);
    const auto store = [&](int64_t column, auto v) HWY_ATTR {
      hn::StoreU(hn::BitCast(kFloats, v), kFloats, to + column * to_stride);
    };
    store(c, hn::InterleaveLower(pairs, low(a, b), low(e, f)));
    store(c + 1, hn::InterleaveUpper(pairs, low(a, b), low(e, f)));
    store(c + 2, hn::InterleaveLower(pairs, high(a, b), high(e, f)));
    store(c + 3, hn::InterleaveUpper(pairs, high(a, b), high(e, f)));
  }
}

// ---- along x
// -------------------------------------------------------------------------------------

// out[o] = sum of weights * columns, a vector each. `columns` begins at column `first`.
template <int kTaps>
HWY_INLINE void combine_columns(const float* HWY_RESTRICT columns, int64_t first, const Taps& taps,
                                float* HWY_RESTRICT out) {
  const int64_t outputs = taps.outputs, count = kTaps > 0 ? kTaps : taps.count;
  const int32_t* HWY_RESTRICT begin = taps.first.data();
  const float* HWY_RESTRICT weight = taps.weight.data();
  for (int64_t o = 0; o < outputs; ++o, weight += count) {
    const float* HWY_RESTRICT from = columns + (begin[o] - first) * kLanes;
    V sum = hn::Mul(hn::Set(kFloats, weight[0]), hn::Load(kFloats, from));
    for (int64_t t = 1; t < count; ++t) {
      sum = hn::MulAdd(hn::Set(kFloats, weight[t]), hn::Load(kFloats, from + t * kLanes), sum);
    }
    hn::Store(sum, kFloats, out + o * kLanes);
  }
}

// ---- memory that the processor does not fetch ahead
// ----------------------------------------------------------------

constexpr int64_t kLine = 64, kAhead = 8;  // bytes; outputs

// Asks for the memory of row `y` of channel `c` while there is time until it is written. A batch is
// larger than the caches, and no processor guesses where so many rows go on.
HWY_INLINE void expect_stores(const KernelJob& job, int64_t y, int c) {
  if (job.transpose || (c > 0 && job.pixel_stride > 1)) return;
  const auto size = static_cast<int64_t>(dtype_bytes(job.dtype));
  const char* row =
      static_cast<const char*>(job.data) + (y * job.row_stride + c * job.channel_stride) * size;
  const int64_t bytes = job.plane[0].x->outputs * job.pixel_stride * size;
  for (int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at, 1);
}

// The same for the samples that output `y` takes and no earlier one does.
HWY_INLINE void expect_loads(const KernelPlane& plane, int64_t y) {
  const Taps& taps = *plane.y;
  if (y >= taps.outputs) return;
  const int64_t end = taps.first[y] + taps.count, before = taps.first[y - 1] + taps.count;
  for (int64_t row = end - 1; row >= before && row >= end - taps.count; --row) {
    const uint8_t* from = plane.data + (row - plane.first_y) * plane.stride;
    for (int64_t at = 0; at < plane.width; at += kLine) __builtin_prefetch(from + at);
  }
}

// One band of one plane: outputs y0 to y0 + kLanes - 1 of axis y, the last one again where there
// are fewer.
HWY_INLINE void make_band(const KernelJob& job, int k0, int64_t y0, float* rows, float* columns,
                          float* out) {
  const KernelPlane& plane = job.plane[k0];
  const int64_t stride = padded(plane.width);
  const Taps& taps = *plane.y;
  with_taps(taps.count, [&](auto count) HWY_ATTR {
    for (int64_t k = 0; k < kLanes; ++k) {
      const int64_t y = HWY_MIN(y0 + k, taps.outputs - 1);
      expect_stores(job, y, k0);
      expect_loads(plane, y0 + k + kAhead);
      combine_rows<count.value>(plane.data + (taps.first[y] - plane.first_y) * plane.stride,
                                plane.stride, plane.width, taps.weight.data() + y * taps.count,
                                taps.count, rows + k * stride);
    }
  });
  for (int64_t x = 0; x < stride; x += kLanes) {
    transpose(rows + x, stride, columns + x * kLanes, kLanes);
  }
  with_taps(plane.x->count, [&](auto count) HWY_ATTR {
    combine_columns<count.value>(columns, plane.first_x, *plane.x, out);
  });
}

// ---- colour and storage
// --------------------------------------------------------------------------

struct Pixels {
  V channel[3];
};

HWY_INLINE V clamped(V v) {
  return hn::Min(hn::Max(v, hn::Zero(kFloats)), hn::Set(kFloats, 255.0f));
}

HWY_INLINE Pixels changed(const ColourMatrix& matrix, const Pixels& p) {
  Pixels result;
  for (int c = 0; c < 3; ++c) {
    const float* m = matrix.m[c].data();
    V sum = hn::MulAdd(hn::Set(kFloats, m[0]), p.channel[0], hn::Set(kFloats, m[3]));
    sum = hn::MulAdd(hn::Set(kFloats, m[1]), p.channel[1], sum);
    result.channel[c] = clamped(hn::MulAdd(hn::Set(kFloats, m[2]), p.channel[2], sum));
  }
  return result;
}

HWY_INLINE Pixels ycbcr(const Pixels& p) {
  const V blue = hn::Sub(p.channel[1], hn::Set(kFloats, 128.0f));
  const V red = hn::Sub(p.channel[2], hn::Set(kFloats, 128.0f));
  const V y = p.channel[0];
  const V green = hn::NegMulAdd(hn::Set(kFloats, 0.344136f), blue,
                                hn::NegMulAdd(hn::Set(kFloats, 0.714136f), red, y));
  return {{clamped(hn::MulAdd(hn::Set(kFloats, 1.402f), red, y)), clamped(green),
           clamped(hn::MulAdd(hn::Set(kFloats, 1.772f), blue, y))}};
}

// Stores `count` pixels of one row, of kLanes in `pixels`.
template <class Type, int kChannels>
HWY_INLINE void store_pixels(const KernelJob& job, const Pixels& pixels, int64_t y, int64_t x,
                             int64_t count) {
  using T = typename Type::T;
  const hn::Rebind<T, D> d;
  T* to = static_cast<T*>(job.data) + y * job.row_stride + x * job.pixel_stride;
  if (count == kLanes && job.pixel_stride == 1) {
    for (int c = 0; c < kChannels; ++c) {
      hn::StoreU(Type::encode(pixels.channel[c]), d, to + c * job.channel_stride);
    }
    return;
  }
  if (kChannels == 3 && count == kLanes && job.pixel_stride == 3 && job.channel_stride == 1) {
    hn::StoreInterleaved3(Type::encode(pixels.channel[0]), Type::encode(pixels.channel[1]),
                          Type::encode(pixels.channel[2]), d, to);
    return;
  }
  for (int c = 0; c < kChannels; ++c) {
    HWY_ALIGN T values[kLanes];
    hn::Store(Type::encode(pixels.channel[c]), d, values);
    for (int64_t i = 0; i < count; ++i) {
      to[i * job.pixel_stride + c * job.channel_stride] = values[i];
    }
  }
}

// The vector of the band at output `i` of axis x, in its colours.
template <class Type, KernelColour kColour>
HWY_INLINE Pixels finished(const KernelJob& job, const float* const band[3], int64_t i) {
  constexpr int kPlanes = kColour == KernelColour::kRgb || kColour == KernelColour::kYCbCr ? 3 : 1;
  Pixels p;
  for (int k = 0; k < 3; ++k) p.channel[k] = hn::Load(kFloats, band[k % kPlanes] + i * kLanes);
  if constexpr (kColour == KernelColour::kYCbCr) {
    p = ycbcr(p);
  } else if constexpr (kColour != KernelColour::kRaw) {
    for (V& v : p.channel) v = clamped(v);
  }
  if (job.change != nullptr) p = changed(*job.change, p);
  if constexpr (!std::is_same_v<Type, AsByte> && kColour != KernelColour::kRaw) {
    for (int c = 0; c < 3; ++c) {
      p.channel[c] =
          hn::MulAdd(p.channel[c], hn::Set(kFloats, job.scale[c]), hn::Set(kFloats, job.offset[c]));
    }
  }
  return p;
}

template <class Type, KernelColour kColour>
void store_band(const KernelJob& job, const float* const band[3], int64_t y0) {
  constexpr int kChannels = kColour == KernelColour::kRaw ? 1 : 3;
  const int64_t outputs = job.plane[0].x->outputs;
  const int64_t count = HWY_MIN(kLanes, job.plane[0].y->outputs - y0);
  if (job.transpose) {  // the lanes of a vector are pixels of one row already
    for (int64_t i = 0; i < outputs; ++i) {
      store_pixels<Type, kChannels>(job, finished<Type, kColour>(job, band, i), i, y0, count);
    }
    return;
  }
  const bool whole = std::is_same_v<Type, AsFloat> && job.pixel_stride == 1 && count == kLanes;
  for (int64_t x0 = 0; x0 < outputs; x0 += kLanes) {
    const int64_t columns = HWY_MIN(kLanes, outputs - x0);
    HWY_ALIGN float channels[3][kLanes * kLanes];
    for (int64_t i = 0; i < kLanes; ++i) {
      const Pixels p = finished<Type, kColour>(job, band, x0 + HWY_MIN(i, columns - 1));
      for (int c = 0; c < kChannels; ++c) {
        hn::Store(p.channel[c], kFloats, channels[c] + i * kLanes);
      }
    }
    if (whole && columns == kLanes) {
      float* to = static_cast<float*>(job.data) + y0 * job.row_stride + x0;
      for (int c = 0; c < kChannels; ++c) {
        transpose(channels[c], kLanes, to + c * job.channel_stride, job.row_stride);
      }
      continue;
    }
    HWY_ALIGN float turned[3][kLanes * kLanes];
    for (int c = 0; c < kChannels; ++c) transpose(channels[c], kLanes, turned[c], kLanes);
    for (int64_t k = 0; k < count; ++k) {
      Pixels p;
      for (int c = 0; c < 3; ++c) {
        p.channel[c] = hn::Load(kFloats, turned[c % kChannels] + k * kLanes);
      }
      store_pixels<Type, kChannels>(job, p, y0 + k, x0, columns);
    }
  }
}

template <class Type>
void store_band(const KernelJob& job, const float* const band[3], int64_t y0) {
  switch (job.colour) {
    case KernelColour::kRaw:
      return store_band<Type, KernelColour::kRaw>(job, band, y0);
    case KernelColour::kGrey:
      return store_band<Type, KernelColour::kGrey>(job, band, y0);
    case KernelColour::kRgb:
      return store_band<Type, KernelColour::kRgb>(job, band, y0);
    case KernelColour::kYCbCr:
      return store_band<Type, KernelColour::kYCbCr>(job, band, y0);
  }
}

int64_t widest(const KernelJob& job) {
  int64_t width = 0;
  for (int k = 0; k < job.planes; ++k) width = HWY_MAX(width, padded(job.plane[k].width));
  return width;
}

int64_t floats(const KernelJob& job) {
  return kLanes * (2 * widest(job) + job.planes * job.plane[0].x->outputs);
}

void run(const KernelJob& job, float* scratch) {
  float* rows = scratch;
  float* columns = rows + kLanes * widest(job);
  float* band[3];
  for (int k = 0; k < 3; ++k) {
    band[k] = columns + kLanes * (widest(job) + (k % job.planes) * job.plane[0].x->outputs);
  }
  for (int64_t y0 = 0; y0 < job.plane[0].y->outputs; y0 += kLanes) {
    for (int k = 0; k < job.planes; ++k) make_band(job, k, y0, rows, columns, band[k]);
    switch (job.dtype) {
      case DType::kFloat32:
        store_band<AsFloat>(job, band, y0);
        break;
      case DType::kFloat16:
        store_band<AsHalf>(job, band, y0);
        break;
      case DType::kBFloat16:
        store_band<AsBFloat>(job, band, y0);
        break;
      default:
        store_band<AsByte>(job, band, y0);
        break;
    }
  }
}

void split(const uint8_t* HWY_RESTRICT from, int64_t from_stride, uint8_t* const to[3],
           int64_t to_stride, int64_t width, int64_t rows) {
  const hn::ScalableTag<uint8_t> d;
  constexpr int64_t kBytes = hn::MaxLanes(d);
  for (int64_t y = 0; y < rows; ++y) {
    const uint8_t* row = from + y * from_stride;
    int64_t x = 0;
    for (; x + kBytes <= width; x += kBytes) {
      hn::Vec<decltype(d)> r, g, b;
      hn::LoadInterleaved3(d, row + 3 * x, r, g, b);
      hn::StoreU(r, d, to[0] + y * to_stride + x);
      hn::StoreU(g, d, to[1] + y * to_stride + x);
      hn::StoreU(b, d, to[2] + y * to_stride + x);
    }
    for (; x < width; ++x) {
      for (int c = 0; c < 3; ++c) to[c][y * to_stride + x] = row[3 * x + c];
    }
  }
}

}  // namespace stretto::media::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::media {

int64_t kernel_floats(const KernelJob& job, Isa isa) {
  return STRETTO_ISA_SELECT(isa, floats)(job);
}

void run_kernel(const KernelJob& job, float* scratch, Isa isa) {
  STRETTO_ISA_SELECT(isa, run)(job, scratch);
}

void split_channels(const uint8_t* from, int64_t from_stride, uint8_t* const to[3],
                    int64_t to_stride, int64_t width, int64_t rows, Isa isa) {
  STRETTO_ISA_SELECT(isa, split)(from, from_stride, to, to_stride, width, rows);
}

}  // namespace stretto::media
#endif
