// The same strips as strips.cc, for integers, float64 and bool: every instruction is one loop over
// dense operands in the type that the problem is computed in, which the compiler vectorises.
// Operands that are repeated, and bool ones, are written out for the strip first. Limit: memory
// bandwidth, for divisions the divider.
#include "stretto/kernels/elementwise/candidates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/kernels/elementwise/cpu/integers.cc"
#include "stretto/kernels/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/kernels/elementwise/cpu/rows.h"
#include "stretto/kernels/elementwise/doubles.h"
#include "stretto/kernels/elementwise/integers.h"
#include "stretto/tensor/element_formulas.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::kernels::HWY_NAMESPACE {
namespace elementwise_integers {

using elementwise::kSlots, elementwise::kStrip, elementwise::Rows, elementwise::Source;

template <ElementOp kOp, typename T>
void loop(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, const T* HWY_RESTRICT c, T alpha,
          T* HWY_RESTRICT to, int64_t count) {
  constexpr int kOperands = kOp == ElementOp::kWhere ? 3 : kOp == ElementOp::kConstant ? 0 : 2;
  for (int64_t i = 0; i < count; ++i) {
    const T x = kOperands > 0 ? a[i] : T{0}, y = kOperands > 1 ? b[i] : T{0};
    const T z = kOperands > 2 ? c[i] : T{0};
    to[i] = elementwise::apply_integer<T>(kOp, x, y, z, alpha);
  }
}

template <typename Element>
void loop(const double* HWY_RESTRICT a, const double* HWY_RESTRICT b, const double* HWY_RESTRICT c,
          double alpha, double* HWY_RESTRICT to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = Element::apply(a[i], b[i], c[i], alpha, 0);
}

HWY_INLINE void run_instruction(const Instruction& s, const double* a, const double* b,
                                const double* c, double* to, int64_t count) {
  switch (s.op) {
#define STRETTO_CASE(name) \
  case ElementOp::k##name: \
    return loop<elements::name>(a, b, c, s.alpha, to, count);
    STRETTO_DOUBLE_OPERATIONS(STRETTO_CASE)
#undef STRETTO_CASE
    default:
      return;
  }
}

template <typename T>
HWY_INLINE void run_instruction(const Instruction& s, const T* a, const T* b, const T* c, T* to,
                                int64_t count) {
  const T alpha = static_cast<T>(s.alpha);
  switch (s.op) {
#define STRETTO_CASE(name) \
  case ElementOp::k##name: \
    return loop<ElementOp::k##name, T>(a, b, c, alpha, to, count);
    STRETTO_INTEGER_OPERATIONS(STRETTO_CASE)
#undef STRETTO_CASE
    default:
      return;
  }
}

template <typename T>
HWY_INLINE void copy(const Source& s, int64_t at, int64_t count, T* to) {
  if (s.dtype == DType::kBool) {
    const uint8_t* x = static_cast<const uint8_t*>(s.data) + at;
    for (int64_t i = 0; i < count; ++i) to[i] = x[i] != 0;
  } else {
    const T* x = static_cast<const T*>(s.data) + at;
    for (int64_t i = 0; i < count; ++i) to[i] = x[i];
  }
}

// The operand of a strip as dense values of type T, in `slot` unless it lies like that in memory.
template <typename T>
HWY_INLINE const T* operand(const Rows& r, const Source& s, const elementwise::Strip& strip,
                            T* slot) {
  const int64_t rows = HWY_MAX(int64_t{1}, strip.count / r.inner);
  const bool dense = s.whole || (rows == 1 && s.period != 1);
  if (dense) {
    const int64_t at =
        (s.whole ? strip.row * r.inner : elementwise::row_offset(r, s, strip.row)) + strip.begin;
    if (s.dtype != DType::kBool) return static_cast<const T*>(s.data) + at;
    copy(s, at, strip.count, slot);
    return slot;
  }
  const int64_t width = rows == 1 ? strip.count : r.inner;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = elementwise::row_offset(r, s, strip.row + i);
    T* to = slot + i * width;
    if (s.period == 1) {
      T value;
      copy(s, at, 1, &value);
      for (int64_t j = 0; j < width; ++j) to[j] = value;
    } else {
      copy(s, at, width, to);
    }
  }
  return slot;
}

template <typename T, typename To>
HWY_INLINE void store_to(const T* from, int64_t count, void* data, int64_t at) {
  To* to = static_cast<To*>(data) + at;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
}

// Narrower types take the low bits, wider ones the value.
template <typename T>
HWY_INLINE void store_as(DType dtype, const T* from, int64_t count, void* data, int64_t at) {
  switch (dtype) {
    case DType::kBool:
      for (int64_t i = 0; i < count; ++i) static_cast<uint8_t*>(data)[at + i] = from[i] != 0;
      return;
    case DType::kInt8:
    case DType::kUInt8:
      return store_to<T, uint8_t>(from, count, data, at);
    case DType::kInt16:
    case DType::kUInt16:
      return store_to<T, uint16_t>(from, count, data, at);
    case DType::kInt32:
    case DType::kUInt32:
      return store_to<T, uint32_t>(from, count, data, at);
    default:
      return store_to<T, uint64_t>(from, count, data, at);
  }
}

template <typename T>
void run_as(const ElementwiseProblem& p, const Args& args, const Worker& worker) {
  const Rows r = elementwise::make_rows(p, 1);
  Source sources[ElementwiseProblem::kMaxInputs];
  for (int i = 0; i < p.inputs; ++i) {
    sources[i] = elementwise::make_source(p, r, 1, i, args.inputs[i]);
  }
  uint8_t slot_of[kSlots] = {};
  elementwise::assign_slots(p, slot_of);
  T* slots = reinterpret_cast<T*>(args.scratch + worker.thread * kSlots * kStrip *
                                                     static_cast<int64_t>(sizeof(int64_t)));
  const T* values[kSlots] = {};
  const bool direct = p.output == p.compute;
  const elementwise::Strips strips(r);
  const Range work = split(strips.count, worker);
  for (int64_t index = work.begin; index < work.end; ++index) {
    const elementwise::Strip strip = elementwise::strip_at(strips, index);
    const int64_t out_at = strip.row * r.inner + strip.begin;
    for (int i = 0; i < p.inputs; ++i) {
      values[i] = operand(r, sources[i], strip, slots + slot_of[i] * kStrip);
    }
    for (int i = 0; i < p.instructions; ++i) {
      const Instruction& s = p.program[i];
      const bool last = i + 1 == p.instructions;
      T* to = last && direct ? static_cast<T*>(args.outputs[0]) + out_at
                             : slots + slot_of[p.inputs + i] * kStrip;
      run_instruction(s, values[s.a], values[s.b], values[s.c], to, strip.count);
      values[p.inputs + i] = to;
      if (last && !direct) store_as(p.output, to, strip.count, args.outputs[0], out_at);
    }
  }
}

}  // namespace elementwise_integers

void elementwise_integers_run(const ElementwiseProblem& p, const Args& args, const Worker& worker) {
  using namespace elementwise_integers;
  switch (p.compute) {
    case DType::kInt8:
      return run_as<int8_t>(p, args, worker);
    case DType::kInt16:
      return run_as<int16_t>(p, args, worker);
    case DType::kInt32:
      return run_as<int32_t>(p, args, worker);
    case DType::kInt64:
      return run_as<int64_t>(p, args, worker);
    case DType::kUInt8:
      return run_as<uint8_t>(p, args, worker);
    case DType::kUInt16:
      return run_as<uint16_t>(p, args, worker);
    case DType::kUInt32:
      return run_as<uint32_t>(p, args, worker);
    case DType::kFloat64:
      return run_as<double>(p, args, worker);
    default:
      return run_as<uint64_t>(p, args, worker);
  }
}

}  // namespace stretto::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::kernels::elementwise {
namespace {

Fit fits(const ElementwiseProblem& p) {
  if (!is_integer(p.compute)) return Fit::no("floats");
  if (p.instructions == 0) return Fit::no("no instruction");
  if (p.layout != Layout::kPlain) return Fit::no("blocked");
  if (is_float(p.output)) return Fit::no("a float result");
  for (int i = 0; i < p.inputs; ++i) {
    if (p.input_dtype[i] != p.compute && p.input_dtype[i] != DType::kBool) {
      return Fit::no("operands of several types");
    }
  }
  for (int i = 0; i < p.instructions; ++i) {
    if (!has_integers(p.program[i].op)) return Fit::no("an operation on floats");
  }
  return Fit::yes(0.6);
}

Fit fits_doubles(const ElementwiseProblem& p) {
  if (p.compute != DType::kFloat64) return Fit::no("not in float64");
  if (p.instructions == 0) return Fit::no("no instruction");
  if (p.layout != Layout::kPlain) return Fit::no("blocked");
  return works_in_doubles(p) ? Fit::yes(0.6) : Fit::no("an operation or a type of others");
}

size_t scratch_bytes(const ElementwiseProblem& p) {
  return static_cast<size_t>(p.target.threads) * kSlots * kStrip * sizeof(int64_t);
}

void run(const ElementwiseProblem& p, const Args& args, const Worker& worker) {
  STRETTO_ISA_SELECT(p.target.isa, elementwise_integers_run)(p, args, worker);
}

}  // namespace

const Row kIntegers{.name = "integers", .fits = fits, .scratch_bytes = scratch_bytes, .run = run};
const Row kDoubles{
    .name = "doubles", .fits = fits_doubles, .scratch_bytes = scratch_bytes, .run = run};

}  // namespace stretto::kernels::elementwise
#endif
