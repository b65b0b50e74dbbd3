// Runs the program strip by strip: each instruction is one vectorised loop over a strip of the
// output, intermediate strips stay in the first-level cache. Operands that are constant over the
// strip, or (in the blocked layout) the same vector at every pixel, are read with step 0. Limit:
// memory bandwidth.
#include "stretto/kernels/elementwise/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/elementwise/cpu/strips.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/elementwise/cpu/ops-inl.h"
#include "stretto/kernels/elementwise/cpu/rows.h"

#ifndef STRETTO_KERNELS_ELEMENTWISE_STRIPS_
#define STRETTO_KERNELS_ELEMENTWISE_STRIPS_
namespace stretto::kernels::elementwise {

constexpr int64_t kLanesMax = 16;

// Where each value is read: at data + i * step.
struct Operand {
  const float* data;
  int64_t step;
};

}  // namespace stretto::kernels::elementwise
#endif

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace elementwise_strips {

using elementwise::Operand;
using elementwise::Source;

using Tag = hn::ScalableTag<float>;
using V = hn::Vec<Tag>;

#define STRETTO_VECTOR(name, code)                                               \
  struct name {                                                                  \
    static HWY_INLINE V apply(Tag d, V a, V b, V c, V alpha, V beta) {           \
      const V zero = hn::Zero(d), one = hn::Set(d, 1.0f);                        \
      (void)a, (void)b, (void)c, (void)alpha, (void)beta, (void)zero, (void)one; \
      return code;                                                               \
    }                                                                            \
  };
// Activations are those of the epilogues.
#define STRETTO_ELEMENT(name, operands, use, formula)
#define STRETTO_ACTIVATION(name, text, numbers, alpha_default, beta_default, use, formula) \
  STRETTO_VECTOR(name, activate(d, Activation::k##name, alpha, beta, a))
// The second one undefines STRETTO_VECTOR.
// clang-format off
#include "stretto/tensor/elementwise.inc"
#include "stretto/kernels/elementwise/vector.inc"
// clang-format on

template <class Op, int kOperands>
void loop(const Operand* operands, float alpha_value, float beta_value, float* out, int64_t count) {
  const Tag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V alpha = hn::Set(d, alpha_value), beta = hn::Set(d, beta_value), zero = hn::Zero(d);
  const float* a = operands[0].data;
  const float* b = operands[1].data;
  const float* c = operands[2].data;
  const int64_t sa = operands[0].step, sb = operands[1].step, sc = operands[2].step;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V va = kOperands > 0 ? hn::LoadU(d, a + i * sa) : zero;
    const V vb = kOperands > 1 ? hn::LoadU(d, b + i * sb) : zero;
    const V vc = kOperands > 2 ? hn::LoadU(d, c + i * sc) : zero;
    hn::StoreU(Op::apply(d, va, vb, vc, alpha, beta), d, out + i);
  }
  if (const int64_t n = count - i; n > 0) {
    const V va = kOperands > 0 ? load_n(d, a + i * sa, n) : zero;
    const V vb = kOperands > 1 ? load_n(d, b + i * sb, n) : zero;
    const V vc = kOperands > 2 ? load_n(d, c + i * sc, n) : zero;
    store_n(Op::apply(d, va, vb, vc, alpha, beta), d, out + i, n);
  }
}

using Loop = void (*)(const Operand*, float, float, float*, int64_t);
constexpr Loop kLoops[] = {
#define STRETTO_ELEMENT(name, operands, use, formula) &loop<name, operands>,
#include "stretto/tensor/elementwise.inc"
};

template <typename T>
HWY_INLINE void convert_from(const Source& source, int64_t at, int64_t count, float* to) {
  const T* x = static_cast<const T*>(source.data) + at;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(x[i]);
}

// Whether the instruction set converts 16-bit floats: to the nearest, ties to even.
#undef STRETTO_CONVERTS_HALVES
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
#define STRETTO_CONVERTS_HALVES 1
#else
#define STRETTO_CONVERTS_HALVES 0
#endif

HWY_INLINE void convert_halves(const uint16_t* from, int64_t count, float* to) {
#if STRETTO_CONVERTS_HALVES
  const Tag d;
  const hn::Rebind<hwy::float16_t, Tag> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* x = reinterpret_cast<const hwy::float16_t*>(from);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, x + i)), d, to + i);
  }
#else
  int64_t i = 0;
#endif
  for (; i < count; ++i) to[i] = half_to_float(from[i]);
}

HWY_INLINE void store_halves(const float* from, int64_t count, uint16_t* to) {
#if STRETTO_CONVERTS_HALVES
  const Tag d;
  const hn::Rebind<hwy::float16_t, Tag> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* y = reinterpret_cast<hwy::float16_t*>(to);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, from + i)), half, y + i);
  }
#else
  int64_t i = 0;
#endif
  for (; i < count; ++i) to[i] = float_to_half(from[i]);
}

// A bfloat16 is the upper half of a float, to which this rounds: to the nearest, ties to even.
HWY_INLINE void convert_brains(const uint16_t* from, int64_t count, float* to) {
  const hn::RebindToUnsigned<Tag> d;
  const hn::Rebind<uint16_t, Tag> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(half, from + i)));
    hn::StoreU(hn::BitCast(Tag(), bits), Tag(), to + i);
  }
  for (; i < count; ++i) to[i] = bfloat16_to_float(from[i]);
}

HWY_INLINE void store_brains(const float* from, int64_t count, uint16_t* to) {
  const hn::RebindToUnsigned<Tag> d;
  const hn::Rebind<uint16_t, Tag> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, 1u), below_half = hn::Set(d, 0x7fffu), quiet = hn::Set(d, 0x40u);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V x = hn::LoadU(Tag(), from + i);
    const auto bits = hn::BitCast(d, x), upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::Add(hn::And(upper, one), below_half);
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, odd));
    const auto is_nan = hn::RebindMask(d, hn::IsNaN(x));
    hn::StoreU(hn::TruncateTo(half, hn::IfThenElse(is_nan, hn::Or(upper, quiet), rounded)), half,
               to + i);
  }
  for (; i < count; ++i) to[i] = float_to_bfloat16(from[i]);
}

// `count` elements of `source`, from element `at`, as floats.
HWY_INLINE void convert(const Source& source, int64_t at, int64_t count, float* to) {
  switch (source.dtype) {
    case DType::kBool: {
      const uint8_t* x = static_cast<const uint8_t*>(source.data) + at;
      for (int64_t i = 0; i < count; ++i) to[i] = x[i] != 0 ? 1.0f : 0.0f;
      return;
    }
    case DType::kFloat16:
      return convert_halves(static_cast<const uint16_t*>(source.data) + at, count, to);
    case DType::kBFloat16:
      return convert_brains(static_cast<const uint16_t*>(source.data) + at, count, to);
    case DType::kInt8:
      return convert_from<int8_t>(source, at, count, to);
    case DType::kInt16:
      return convert_from<int16_t>(source, at, count, to);
    case DType::kInt32:
      return convert_from<int32_t>(source, at, count, to);
    case DType::kInt64:
      return convert_from<int64_t>(source, at, count, to);
    case DType::kUInt8:
      return convert_from<uint8_t>(source, at, count, to);
    case DType::kUInt16:
      return convert_from<uint16_t>(source, at, count, to);
    case DType::kUInt32:
      return convert_from<uint32_t>(source, at, count, to);
    case DType::kUInt64:
      return convert_from<uint64_t>(source, at, count, to);
    default:
      return convert_from<float>(source, at, count, to);
  }
}

// Through a type that holds what is truncated; whatever is beyond the range has no value.
template <typename T, typename Through>
HWY_INLINE void store_through(const float* from, int64_t count, void* data, int64_t at) {
  T* to = static_cast<T*>(data) + at;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(static_cast<Through>(from[i]));
}

HWY_INLINE void store_as(DType dtype, const float* from, int64_t count, void* data, int64_t at) {
  switch (dtype) {
    case DType::kBool:
      for (int64_t i = 0; i < count; ++i) {
        static_cast<uint8_t*>(data)[at + i] = from[i] != 0 ? 1 : 0;
      }
      return;
    case DType::kFloat16:
      return store_halves(from, count, static_cast<uint16_t*>(data) + at);
    case DType::kBFloat16:
      return store_brains(from, count, static_cast<uint16_t*>(data) + at);
    case DType::kInt8:
      return store_through<int8_t, int32_t>(from, count, data, at);
    case DType::kInt16:
      return store_through<int16_t, int32_t>(from, count, data, at);
    case DType::kInt32:
      return store_through<int32_t, int32_t>(from, count, data, at);
    case DType::kUInt8:
      return store_through<uint8_t, int32_t>(from, count, data, at);
    case DType::kUInt16:
      return store_through<uint16_t, int32_t>(from, count, data, at);
    case DType::kUInt32:
      return store_through<uint32_t, int64_t>(from, count, data, at);
    case DType::kUInt64:
      return store_through<uint64_t, int64_t>(from, count, data, at);
    default:
      return store_through<int64_t, int64_t>(from, count, data, at);
  }
}

// The operand for elements [begin, begin + count) of row `row`, or of several whole rows from
// there.
HWY_INLINE Operand bind(const elementwise::Rows& r, const Source& s, int64_t row, int64_t begin,
                        int64_t count, float* slot, float* splat) {
  const bool is_float = s.dtype == DType::kFloat32;
  if (s.whole) {
    const int64_t at = row * r.inner + begin;
    if (is_float) return {static_cast<const float*>(s.data) + at, 1};
    convert(s, at, count, slot);
    return {slot, 1};
  }
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  const int64_t rows = HWY_MAX(int64_t{1}, count / HWY_MAX(r.inner, int64_t{1}));
  if (rows == 1 || (s.period == 1 && elementwise::is_one_value(r, s))) {
    const int64_t at = elementwise::row_offset(r, s, row);
    if (s.period == 1) {
      float value;
      convert(s, at, 1, &value);
      for (int64_t i = 0; i < lanes; ++i) splat[i] = value;
      return {splat, 0};
    }
    if (s.period < r.inner) return {static_cast<const float*>(s.data) + at, 0};
    if (is_float) return {static_cast<const float*>(s.data) + at + begin, 1};
    convert(s, at + begin, count, slot);
    return {slot, 1};
  }
  elementwise::RowWalk walk(r, s, row);
  float* to = slot;
  if (is_float && (s.period == 1 || s.period == r.inner)) {  // rows may be of a few elements only
    const int64_t step = s.period == 1 ? 0 : 1;
    for (int64_t i = 0; i < rows; ++i, walk.next(r, s), to += r.inner) {
      const float* from = static_cast<const float*>(s.data) + walk.at;
      for (int64_t j = 0; j < r.inner; ++j) to[j] = from[j * step];
    }
  } else if (s.dtype == DType::kBool && s.period == 1) {
    for (int64_t i = 0; i < rows; ++i, walk.next(r, s), to += r.inner) {
      const float value = static_cast<const uint8_t*>(s.data)[walk.at] != 0 ? 1.0f : 0.0f;
      for (int64_t j = 0; j < r.inner; ++j) to[j] = value;
    }
  } else {
    for (int64_t i = 0; i < rows; ++i, walk.next(r, s), to += r.inner) {
      for (int64_t j = 0; j < r.inner; j += s.period) convert(s, walk.at, s.period, to + j);
    }
  }
  return {slot, 1};
}

}  // namespace elementwise_strips

void elementwise_run(const ElementwiseProblem& p, const Args& args, const Worker& worker) {
  using namespace elementwise_strips;
  using elementwise::kLanesMax, elementwise::kSlots, elementwise::kStrip;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Tag()));
  const elementwise::Rows r = elementwise::make_rows(p, lanes);
  Source sources[ElementwiseProblem::kMaxInputs];
  for (int i = 0; i < p.inputs; ++i) {
    sources[i] = elementwise::make_source(p, r, lanes, i, args.inputs[i]);
  }
  uint8_t slot_of[kSlots] = {};
  elementwise::assign_slots(p, slot_of);
  float* slots = reinterpret_cast<float*>(args.scratch) + worker.thread * kSlots * kStrip;
  HWY_ALIGN float splats[kSlots * kLanesMax];
  Operand values[kSlots] = {};
  for (int i = 0; i < p.instructions; ++i) {
    if (p.program[i].op != ElementOp::kConstant) continue;
    float* splat = splats + (p.inputs + i) * kLanesMax;
    for (int64_t l = 0; l < kLanesMax; ++l) splat[l] = p.program[i].alpha;
    values[p.inputs + i] = {splat, 0};
  }

  // A cast needs no loop between its conversions, and at most one of them writes to memory.
  const bool casts = p.instructions == 1 && p.program[0].op == ElementOp::kCopy &&
                     sources[p.program[0].a].whole &&
                     (p.output != DType::kFloat32 || p.input_dtype[p.program[0].a] != p.output);
  const elementwise::Strips strips(r);
  const Range work = split(strips.count, worker);
  for (int64_t strip = work.begin; strip < work.end; ++strip) {
    const auto [row, begin, count] = elementwise::strip_at(strips, strip);
    const int64_t out_at = row * r.inner + begin;
    if (casts) {
      const bool direct = p.output == DType::kFloat32;
      float* const to = direct ? static_cast<float*>(args.outputs[0]) + out_at : slots;
      const Operand x = bind(r, sources[p.program[0].a], row, begin, count, to, splats);
      if (!direct) store_as(p.output, x.data, count, args.outputs[0], out_at);
      continue;
    }
    for (int i = 0; i < p.inputs; ++i) {
      values[i] = bind(r, sources[i], row, begin, count, slots + slot_of[i] * kStrip,
                       splats + i * kLanesMax);
    }
    for (int i = 0; i < p.instructions; ++i) {
      const Instruction& s = p.program[i];
      const bool last = i + 1 == p.instructions;
      if (s.op == ElementOp::kConstant && !last) continue;
      const bool direct = last && p.output == DType::kFloat32;
      float* to = direct ? static_cast<float*>(args.outputs[0]) + out_at
                         : slots + slot_of[p.inputs + i] * kStrip;
      const Operand operands[3] = {values[s.a], values[s.b], values[s.c]};
      kLoops[static_cast<size_t>(s.op)](operands, s.alpha, s.beta, to, count);
      values[p.inputs + i] = {to, 1};
      if (last && !direct) store_as(p.output, to, count, args.outputs[0], out_at);
    }
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::elementwise {
namespace {

Fit fits(const ElementwiseProblem& p) {
  if (p.compute != DType::kFloat32) return Fit::no("not in float32");
  if (p.instructions == 0) return Fit::no("no instruction");
  for (int i = 0; i < p.inputs && p.layout == Layout::kBlocked; ++i) {
    const unsigned bits = p.input_broadcast[i];
    if (p.input_dtype[i] != DType::kFloat32) return Fit::no("blocked and not float32");
    const bool scalar = (bits & 2) != 0;
    const auto unit = [&](int k) { return (bits >> k & 1) || p.dims[k] == 1; };
    if (scalar && !(unit(0) && unit(2) && unit(3))) return Fit::no("a map without channels");
    if (!scalar && (bits & 12) && !(unit(2) && unit(3))) return Fit::no("a row or a column");
  }
  return Fit::yes(0.6);
}

size_t scratch_bytes(const ElementwiseProblem& p) {
  return static_cast<size_t>(p.target.threads) * kSlots * kStrip * sizeof(float);
}

void run(const ElementwiseProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, elementwise_run)(p, args, worker);
}

}  // namespace

const Row kStrips{.name = "strips", .fits = fits, .scratch_bytes = scratch_bytes, .run = run};

}  // namespace stretto::kernels::elementwise
#endif
