// What elementwise operations are for integers: the reference and the vectorised loops are made
// from this one list. Sums, differences, products and negation wrap around; division truncates.
#pragma once

#include <hwy/base.h>

#include <type_traits>

#include "stretto/kernels/elementwise/problem.h"

namespace stretto::kernels::elementwise {

// X(name) for every operation of the list.
// clang-format off
#define STRETTO_INTEGER_OPERATIONS(X)                                           \
  X(Copy) X(Constant) X(Add) X(Sub) X(Mul) X(Div) X(Min) X(Max) X(Neg) X(Abs)   \
  X(Sign) X(Where) X(Equal) X(Less) X(Greater) X(LessOrEqual) X(GreaterOrEqual) \
  X(And) X(Or) X(Xor) X(Not) X(ToBool) X(Relu)
// clang-format on

constexpr bool has_integers(ElementOp op) {
  switch (op) {
#define STRETTO_CASE(name) case ElementOp::k##name:
    STRETTO_INTEGER_OPERATIONS(STRETTO_CASE)
#undef STRETTO_CASE
    return true;
    default:
      return false;
  }
}

// `rest` has the sign of the dividend; on request that of the divisor.
template <typename T>
HWY_INLINE T remainder(T rest, T divisor, bool sign_of_divisor) {
  const bool other_sign = (rest < 0) != (divisor < 0);
  return sign_of_divisor && rest != 0 && other_sign ? static_cast<T>(rest + divisor) : rest;
}

// Inlined always, because it is compiled for several instruction sets. Wide: no product overflows.
template <typename T>
HWY_INLINE T apply_integer(ElementOp op, T a, T b, T c, T alpha) {
  using Wide = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;
  const auto wa = static_cast<Wide>(a), wb = static_cast<Wide>(b);
  const T none = static_cast<T>(Wide{0} - Wide{1});  // all bits set: -1 where T is signed
  switch (op) {
    case ElementOp::kConstant:
      return alpha;
    case ElementOp::kAdd:
      return static_cast<T>(wa + wb);
    case ElementOp::kSub:
      return static_cast<T>(wa - wb);
    case ElementOp::kMul:
      return static_cast<T>(wa * wb);
    case ElementOp::kDiv:  // by 0 both results are 0, and the least value by -1 wraps
      if (b == 0) return 0;
      if (std::is_signed_v<T> && b == none) return alpha == 0 ? static_cast<T>(Wide{0} - wa) : T{0};
      if (alpha == 0) return static_cast<T>(a / b);
      return remainder<T>(static_cast<T>(a % b), b, alpha == static_cast<T>(Instruction::kRestOfB));
    case ElementOp::kMin:
      return b < a ? b : a;
    case ElementOp::kMax:
      return a < b ? b : a;
    case ElementOp::kNeg:
      return static_cast<T>(Wide{0} - wa);
    case ElementOp::kAbs:
      return a < 0 ? static_cast<T>(Wide{0} - wa) : a;
    case ElementOp::kSign:
      return a > 0 ? T{1} : a < 0 ? none : T{0};
    case ElementOp::kWhere:
      return a != 0 ? b : c;
    case ElementOp::kEqual:
      return a == b;
    case ElementOp::kLess:
      return a < b;
    case ElementOp::kGreater:
      return a > b;
    case ElementOp::kLessOrEqual:
      return a <= b;
    case ElementOp::kGreaterOrEqual:
      return a >= b;
    case ElementOp::kAnd:
      return alpha != 0 ? static_cast<T>(wa & wb) : static_cast<T>(a != 0 && b != 0);
    case ElementOp::kOr:
      return alpha != 0 ? static_cast<T>(wa | wb) : static_cast<T>(a != 0 || b != 0);
    case ElementOp::kXor:
      return alpha != 0 ? static_cast<T>(wa ^ wb) : static_cast<T>((a != 0) != (b != 0));
    case ElementOp::kNot:
      return alpha != 0 ? static_cast<T>(~wa) : static_cast<T>(a == 0);
    case ElementOp::kToBool:
      return a != 0;
    case ElementOp::kRelu:
      return a < 0 ? T{0} : a;
    default:
      return a;  // kCopy
  }
}

}  // namespace stretto::kernels::elementwise
