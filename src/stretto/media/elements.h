// The element types that results may have.
#pragma once

#include <string_view>

#include "stretto/tensor/dtype.h"

namespace stretto::media {

// Throws InvalidArgument, which names `what` has it, for other types than float32, float16,
// bfloat16 and uint8.
void check_element_type(std::string_view what, DType dtype);

// Element `at` of float32, float16 or bfloat16, rounded to nearest.
void store_float(void* data, DType dtype, int64_t at, float value);

}  // namespace stretto::media
