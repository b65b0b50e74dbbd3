// From an element type known at run time to a C++ type.
#pragma once

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"

namespace stretto::ir::ops {

// The float types that references compute in; float16 and bfloat16 models are converted first.
constexpr TypeSet kRealTypes = type_bit(DType::kFloat32) | type_bit(DType::kFloat64);
constexpr TypeSet kRealOrInteger = kRealTypes | kIntegerTypes;

// Returns f.template operator()<T>() with the type that stores `dtype`, which must be in kTypes.
template <TypeSet kTypes, typename F>
auto with_type(DType dtype, F&& f) {
#define STRETTO_TRY_TYPE(T)                                      \
  if constexpr ((kTypes & type_bit(kDTypeOf<T>)) != 0) {         \
    if (dtype == kDTypeOf<T>) return f.template operator()<T>(); \
  }
  STRETTO_TRY_TYPE(float)
  STRETTO_TRY_TYPE(double)
  STRETTO_TRY_TYPE(int8_t)
  STRETTO_TRY_TYPE(int16_t)
  STRETTO_TRY_TYPE(int32_t)
  STRETTO_TRY_TYPE(int64_t)
  STRETTO_TRY_TYPE(uint8_t)
  STRETTO_TRY_TYPE(uint16_t)
  STRETTO_TRY_TYPE(uint32_t)
  STRETTO_TRY_TYPE(uint64_t)
  STRETTO_TRY_TYPE(bool)
#undef STRETTO_TRY_TYPE
  throw_unsupported("the reference does not compute in {}", dtype_name(dtype));
}

// Calls f.template operator()<T>() with an unsigned integer as wide as an element of `dtype`: for
// operators that only move data.
template <typename F>
void with_width(DType dtype, F&& f) {
  switch (dtype_bytes(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

template <typename T>
const T* data_of(const Tensor& tensor) {
  return static_cast<const T*>(tensor.data());
}
template <typename T>
T* data_of(Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data());
}

// For operators that move data: output i gets the type of `like`, whatever inference declared (a
// reference run may have widened it).
inline Tensor& make_output_like(Evaluation& c, int i, const Tensor& like) {
  c.outputs[i] = Tensor(like.dtype(), c.output_shapes[i]);
  return c.outputs[i];
}

}  // namespace stretto::ir::ops
