#include "stretto/media/elements.h"

#include "stretto/base/error.h"

namespace stretto::media {

void check_element_type(std::string_view what, DType dtype) {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kBFloat16 &&
      dtype != DType::kUInt8) {
    throw_invalid("{}: expected float32, float16, bfloat16 or uint8, got {}", what,
                  dtype_name(dtype));
  }
}

void store_float(void* data, DType dtype, int64_t at, float value) {
  switch (dtype) {
    case DType::kFloat16:
      static_cast<uint16_t*>(data)[at] = float_to_half(value);
      break;
    case DType::kBFloat16:
      static_cast<uint16_t*>(data)[at] = float_to_bfloat16(value);
      break;
    default:
      static_cast<float*>(data)[at] = value;
  }
}

}  // namespace stretto::media
