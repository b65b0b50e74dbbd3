// Four running vectors per channel (plain) or channel block (blocked). Limit: reading x once.
#include <limits>

#include "stretto/kernels/global_pool/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/global_pool/cpu/vector.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/simd/memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace global_pool_vector {

template <bool kMax, class D, class V = hn::Vec<D>>
HWY_INLINE V join(D d, V a, V b) {
  if constexpr (kMax) {
    return max_nan(d, a, b);
  } else {
    return hn::Add(a, b);
  }
}

// All of x[0, count) joined lane by lane.
template <bool kMax, class D>
HWY_INLINE hn::Vec<D> join_all(D d, const float* x, int64_t count, float identity) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Set(d, identity), b = a, c = a, e = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = join<kMax>(d, a, hn::LoadU(d, x + i));
    b = join<kMax>(d, b, hn::LoadU(d, x + i + lanes));
    c = join<kMax>(d, c, hn::LoadU(d, x + i + 2 * lanes));
    e = join<kMax>(d, e, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i < count; i += lanes) {
    a = join<kMax>(d, a, load_n(d, x + i, HWY_MIN(lanes, count - i), identity));
  }
  return join<kMax>(d, join<kMax>(d, a, b), join<kMax>(d, c, e));
}

template <bool kMax>
void run(const GlobalPoolProblem& p, const float* x, float* y, const Worker& worker) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t plane = p.h * p.w;
  const float identity = kMax ? -std::numeric_limits<float>::infinity() : 0.0f;
  const float scale = 1.0f / static_cast<float>(plane);
  if (p.layout == Layout::kBlocked) {
    const Range blocks = split(p.n * ((p.c + lanes - 1) / lanes), worker);
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const auto v = join_all<kMax>(d, x + i * plane * lanes, plane * lanes, identity);
      hn::StoreU(kMax ? v : hn::Mul(v, hn::Set(d, scale)), d, y + i * lanes);
    }
    return;
  }
  const Range channels = split(p.n * p.c, worker);
  for (int64_t i = channels.begin; i < channels.end; ++i) {
    HWY_ALIGN float parts[hn::MaxLanes(d)];
    hn::Store(join_all<kMax>(d, x + i * plane, plane, identity), d, parts);
    float v = parts[0];
    for (int64_t l = 1; l < lanes; ++l) {
      v = !kMax ? v + parts[l] : parts[l] != parts[l] || v < parts[l] ? parts[l] : v;
    }
    y[i] = kMax ? v : v * scale;
  }
}

}  // namespace global_pool_vector

void global_pool_max(const GlobalPoolProblem& p, const float* x, float* y, const Worker& worker) {
  global_pool_vector::run<true>(p, x, y, worker);
}
void global_pool_average(const GlobalPoolProblem& p, const float* x, float* y,
                         const Worker& worker) {
  global_pool_vector::run<false>(p, x, y, worker);
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::global_pool {
namespace {

Fit fits(const GlobalPoolProblem&) { return Fit::yes(0.5); }

void run(const GlobalPoolProblem& p, const Args& args, const Worker& worker) {
  const float* x = static_cast<const float*>(args.inputs[0]);
  float* y = static_cast<float*>(args.outputs[0]);
  if (p.kind == Pooling::kMax) {
    STRETTO_ISA_SELECT(p.target.isa, global_pool_max)(p, x, y, worker);
  } else {
    STRETTO_ISA_SELECT(p.target.isa, global_pool_average)(p, x, y, worker);
  }
}

}  // namespace

const Row kVector{.name = "vector", .fits = fits, .run = run};

}  // namespace stretto::kernels::global_pool
#endif
