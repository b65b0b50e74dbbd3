// Element types of 8, 4 and 2 bits that no C++ type stores: each element takes a byte, whose low
// bits are the element's as ONNX and the OCP formats define them (float8: OFP8, doi:10.48550/
// arXiv.2209.05433; float8 FNUZ: arXiv:2206.02915; float4 and float8_e8m0: OCP MX 1.0).
#pragma once

#include <cstdint>

#include "stretto/tensor/tensor.h"

namespace stretto {

// Whether the type is one of these.
bool is_narrow(DType dtype);
// The bits of one element: 8, 4 or 2.
int narrow_bits(DType dtype);
// The type that holds every value of it, which code computes in: float32, int8 or uint8.
DType wide_type(DType dtype);

// How float8_e8m0fnu, which only has powers of two, rounds.
enum class PowerRounding : uint8_t { kUp, kDown, kNearest };

struct NarrowOptions {
  // Numbers too large for float8 become the largest one; else infinity, or NaN where the type has
  // none. Other types always do the former (float4) or drop high bits (integers).
  bool saturate = true;
  PowerRounding rounding = PowerRounding::kUp;
};

// The least and the largest value of an integer type of at most 16 bits, narrow ones included.
std::pair<double, double> integer_range(DType dtype);

// Any tensor to a narrow type; floats round to nearest, ties to even, integers truncate. NaN
// becomes 0 where the type has none.
Tensor narrowed(const Tensor& tensor, DType dtype, const NarrowOptions& options = {});
// A tensor of a narrow type to its wide_type().
Tensor unnarrowed(const Tensor& tensor);

}  // namespace stretto
