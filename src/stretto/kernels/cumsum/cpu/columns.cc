// Sums that lie beside each other are one vector: a block of columns walks down the axis with its
// sums in the first-level cache. Along the last axis, four rows go on at once, because a sum waits
// for the one before it. Both go on in the order of the reference: the bits are the same. Limit:
// memory rate, x is read once and y is written once; a single row takes an addition's latency, 3 to
// 4 cycles, for each element.
#include "stretto/kernels/cumsum/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/cumsum/cpu/columns.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace cumsum_columns {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlock = 1024;  // columns: 8 KiB of sums
constexpr int64_t kStep = 16;     // columns that threads do not part: 64 bytes and more
constexpr int kRows = 4;          // 4 streams in and 4 out: no more lie in one set of an L1

// Elements as they are stored, and the sums that they are added to, or products.
template <typename T, typename Sum, bool kProduct>
struct Type {
  using Stored = T;
  using Total = Sum;
  using Tag = hn::ScalableTag<Sum>;
  static constexpr Sum kFirst = kProduct ? 1 : 0;
  static HWY_INLINE hn::Vec<Tag> join(hn::Vec<Tag> a, hn::Vec<Tag> b) {
    if constexpr (kProduct) {
      return hn::Mul(a, b);
    } else {
      return hn::Add(a, b);
    }
  }
  static HWY_INLINE Sum join_one(Sum a, Sum b) { return kProduct ? a * b : a + b; }
  static HWY_INLINE hn::Vec<Tag> load(Tag d, const T* p) {
    if constexpr (sizeof(T) == sizeof(Sum)) {
      return hn::LoadU(d, reinterpret_cast<const Sum*>(p));
    } else {
      return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, Tag>(), p));
    }
  }
  static HWY_INLINE void store(hn::Vec<Tag> v, Tag d, T* p) {
    if constexpr (sizeof(T) == sizeof(Sum)) {
      hn::StoreU(v, d, reinterpret_cast<Sum*>(p));
    } else {
      const hn::Rebind<T, Tag> narrow;
      hn::StoreU(hn::DemoteTo(narrow, v), narrow, p);
    }
  }
};

// Columns [0, count) from x on, down the axis in steps of `step` elements.
template <class K, bool kExclusive>
void add_columns(const typename K::Stored* x, typename K::Stored* y, int64_t axis, int64_t step,
                 int64_t count, typename K::Total* sums) {
  using T = typename K::Stored;
  using Sum = typename K::Total;
  const typename K::Tag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // Highway's emulation keeps infinite doubles from becoming infinite floats.
  constexpr bool kVectors = sizeof(T) == sizeof(Sum) || HWY_TARGET != HWY_EMU128;
  const int64_t whole = kVectors ? count / lanes * lanes : 0;
  for (int64_t j = 0; j < count; ++j) sums[j] = K::kFirst;
  // Two rows at a time, which halves the traffic of the sums.
  int64_t i = 0;
  for (; i + 2 <= axis; i += 2, x += 2 * step, y += 2 * step) {
    for (int64_t j = 0; j < whole; j += lanes) {
      const auto sum = hn::LoadU(d, sums + j), next = K::join(sum, K::load(d, x + j));
      const auto after = K::join(next, K::load(d, x + step + j));
      K::store(kExclusive ? sum : next, d, y + j);
      K::store(kExclusive ? next : after, d, y + step + j);
      hn::StoreU(after, d, sums + j);
    }
    for (int64_t j = whole; j < count; ++j) {
      const Sum sum = sums[j], next = K::join_one(sum, static_cast<Sum>(x[j]));
      const Sum after = K::join_one(next, static_cast<Sum>(x[step + j]));
      y[j] = static_cast<T>(kExclusive ? sum : next);
      y[step + j] = static_cast<T>(kExclusive ? next : after);
      sums[j] = after;
    }
  }
  for (; i < axis; ++i, x += step, y += step) {
    for (int64_t j = 0; j < whole; j += lanes) {
      const auto sum = hn::LoadU(d, sums + j), next = K::join(sum, K::load(d, x + j));
      K::store(kExclusive ? sum : next, d, y + j);
      hn::StoreU(next, d, sums + j);
    }
    for (int64_t j = whole; j < count; ++j) {
      const Sum sum = sums[j], next = K::join_one(sum, static_cast<Sum>(x[j]));
      y[j] = static_cast<T>(kExclusive ? sum : next);
      sums[j] = next;
    }
  }
}

// kCount rows, `stride` elements from one to the next; `step` is 1 or -1.
template <class K, bool kExclusive, int kCount>
HWY_INLINE void add_rows(const typename K::Stored* x, typename K::Stored* y, int64_t axis,
                         int64_t step, int64_t stride) {
  using T = typename K::Stored;
  using Sum = typename K::Total;
  Sum sums[kCount];
  for (Sum& sum : sums) sum = K::kFirst;
  for (int64_t i = 0; i < axis; ++i, x += step, y += step) {
    for (int r = 0; r < kCount; ++r) {
      const Sum next = K::join_one(sums[r], static_cast<Sum>(x[r * stride]));
      y[r * stride] = static_cast<T>(kExclusive ? sums[r] : next);
      sums[r] = next;
    }
  }
}

template <class K, bool kExclusive>
void run_as(const CumSumProblem& p, const Args& args, const Worker& worker) {
  using T = typename K::Stored;
  const T* x = static_cast<const T*>(args.inputs[0]);
  T* y = static_cast<T*>(args.outputs[0]);
  if (p.axis == 0) return;
  const int64_t first = p.reverse ? (p.axis - 1) * p.inner : 0;
  const int64_t step = p.reverse ? -p.inner : p.inner;
  if (p.inner == 1) {
    const Range rows = split(p.outer, worker, kRows);
    int64_t row = rows.begin;
    for (; row + kRows <= rows.end; row += kRows) {
      const int64_t at = row * p.axis + first;
      add_rows<K, kExclusive, kRows>(x + at, y + at, p.axis, step, p.axis);
    }
    for (; row < rows.end; ++row) {
      const int64_t at = row * p.axis + first;
      add_rows<K, kExclusive, 1>(x + at, y + at, p.axis, step, p.axis);
    }
    return;
  }
  HWY_ALIGN typename K::Total sums[kBlock];
  const int64_t pieces = (p.inner + kStep - 1) / kStep;
  const Range work = split(p.outer * pieces, worker);
  for (int64_t at = work.begin; at < work.end;) {
    const int64_t outer = at / pieces, piece = at % pieces;
    const int64_t stop = HWY_MIN(HWY_MIN(piece + kBlock / kStep, pieces), piece + work.end - at);
    const int64_t begin = piece * kStep, end = HWY_MIN(stop * kStep, p.inner);
    const int64_t place = outer * p.axis * p.inner + first + begin;
    add_columns<K, kExclusive>(x + place, y + place, p.axis, step, end - begin, sums);
    at += stop - piece;
  }
}

template <class K>
void run_any(const CumSumProblem& p, const Args& args, const Worker& worker) {
  p.exclusive ? run_as<K, true>(p, args, worker) : run_as<K, false>(p, args, worker);
}

template <bool kProduct>
void run_type(const CumSumProblem& p, const Args& args, const Worker& worker) {
  switch (p.dtype) {
    case DType::kFloat32:
      return run_any<Type<float, double, kProduct>>(p, args, worker);
    case DType::kFloat64:
      return run_any<Type<double, double, kProduct>>(p, args, worker);
    case DType::kInt32:
      return run_any<Type<int32_t, uint32_t, kProduct>>(p, args, worker);
    default:
      return run_any<Type<int64_t, uint64_t, kProduct>>(p, args, worker);
  }
}

}  // namespace cumsum_columns

void cumsum_columns_run(const CumSumProblem& p, const Args& args, const Worker& worker) {
  using namespace cumsum_columns;
  p.product ? run_type<true>(p, args, worker) : run_type<false>(p, args, worker);
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::cumsum {
namespace {

Fit fits(const CumSumProblem&) { return Fit::yes(0.5); }

int in_place(const CumSumProblem&) { return 0; }  // each element is read before it is written

void run(const CumSumProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, cumsum_columns_run)(p, args, worker);
}

}  // namespace

const Row kColumns{.name = "columns", .fits = fits, .in_place = in_place, .run = run};

}  // namespace stretto::kernels::cumsum
#endif
