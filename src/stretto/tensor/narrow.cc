#include "stretto/tensor/narrow.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "stretto/base/error.h"

namespace stretto {
namespace {

// A float format with a sign bit: codes without it count up with the magnitude.
struct Format {
  DType dtype;
  int bits;
  int mantissa_bits;
  int bias;
  uint8_t largest;   // the code of the largest number
  uint8_t nan;       // 0: the format has none
  uint8_t infinity;  // 0: the format has none
  bool minus_zero;
};

constexpr Format kFormats[] = {
    {DType::kFloat8E4M3FN, 8, 3, 7, 0x7e, 0x7f, 0, true},
    {DType::kFloat8E4M3FNUZ, 8, 3, 8, 0x7f, 0x80, 0, false},
    {DType::kFloat8E5M2, 8, 2, 15, 0x7b, 0x7f, 0x7c, true},
    {DType::kFloat8E5M2FNUZ, 8, 2, 16, 0x7f, 0x80, 0, false},
    {DType::kFloat4E2M1, 4, 1, 1, 0x07, 0, 0, true},
};

const Format* find_format(DType dtype) {
  const auto* format = std::find_if(std::begin(kFormats), std::end(kFormats),
                                    [&](const Format& f) { return f.dtype == dtype; });
  return format == std::end(kFormats) ? nullptr : format;
}

float magnitude(const Format& f, int code) {
  const int exponent = code >> f.mantissa_bits;
  const int fraction = code & ((1 << f.mantissa_bits) - 1);
  const int implied = exponent == 0 ? 0 : 1 << f.mantissa_bits;
  return std::ldexp(static_cast<float>(implied + fraction),
                    std::max(exponent, 1) - f.bias - f.mantissa_bits);
}

uint8_t encode(const Format& f, float value, bool saturate) {
  const auto sign = static_cast<uint8_t>(std::signbit(value) ? 1 << (f.bits - 1) : 0);
  if (std::isnan(value)) return f.nan;  // 0 where the format has none
  const float x = std::fabs(value);
  // The codes of two neighbours around x; beyond the largest, the one that would come next.
  int low = 0, high = f.largest + 1;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (magnitude(f, middle) <= x ? low : high) = middle;
  }
  // Bits beyond the format's may be needed for `high`; its magnitude follows the same rule.
  const float down = x - magnitude(f, low), up = magnitude(f, high) - x;
  const int code = down < up || (down == up && low % 2 == 0) ? low : high;
  if (code > f.largest) {
    if (saturate || f.nan == 0) return sign | f.largest;
    if (f.infinity != 0) return sign | f.infinity;
    return f.minus_zero ? sign | f.nan : f.nan;
  }
  return code == 0 && !f.minus_zero ? 0 : static_cast<uint8_t>(sign | code);
}

float decode(const Format& f, uint8_t bits) {
  const int sign = 1 << (f.bits - 1), code = bits & (sign - 1);
  const bool negative = (bits & sign) != 0;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (!f.minus_zero && bits == f.nan) return nan;
  if (code > f.largest) {
    if (f.infinity == 0 || code != f.infinity) return nan;
    return negative ? -std::numeric_limits<float>::infinity()
                    : std::numeric_limits<float>::infinity();
  }
  return negative ? -magnitude(f, code) : magnitude(f, code);
}

// The exponent of float32 with its bias, so that 0 stands for 2^-127. The sign is dropped.
uint8_t encode_power(float value, const NarrowOptions& options) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = (bits >> 23) & 0xff, fraction = bits & 0x7fffff;
  if (exponent == 0xff) return 0xff;
  if (exponent == 0 && fraction <= 0x400000) return 0;  // up to 2^-127, the smallest
  bool up = false;
  if (options.rounding == PowerRounding::kUp) up = fraction != 0;
  if (options.rounding == PowerRounding::kNearest) {
    up = fraction > 0x400000 || (fraction == 0x400000 && exponent > 0);
  }
  if (up && exponent == 0xfe && options.saturate) up = false;
  return static_cast<uint8_t>(exponent + (up ? 1 : 0));
}

float decode_power(uint8_t bits) {
  return bits == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, bits - 127);
}

bool is_signed(DType dtype) { return dtype == DType::kInt4 || dtype == DType::kInt2; }

}  // namespace

bool is_narrow(DType dtype) { return dtype >= DType::kFloat8E4M3FN && dtype <= DType::kUInt2; }

int narrow_bits(DType dtype) {
  switch (dtype) {
    case DType::kInt2:
    case DType::kUInt2:
      return 2;
    case DType::kFloat4E2M1:
    case DType::kInt4:
    case DType::kUInt4:
      return 4;
    default:
      return 8;
  }
}

DType wide_type(DType dtype) {
  if (is_float(dtype)) return DType::kFloat32;
  return is_signed(dtype) ? DType::kInt8 : DType::kUInt8;
}

Tensor narrowed(const Tensor& tensor, DType dtype, const NarrowOptions& options) {
  Tensor out(dtype, tensor.shape());
  auto* to = static_cast<uint8_t*>(out.mutable_data());
  if (!is_float(dtype)) {
    const Tensor wide = tensor.converted(DType::kInt64);
    const auto values = wide.values<int64_t>();
    const auto mask = static_cast<int64_t>((1 << narrow_bits(dtype)) - 1);
    for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<uint8_t>(values[i] & mask);
    return out;
  }
  const Tensor wide = tensor.converted(DType::kFloat32);
  const auto values = wide.values<float>();
  const Format* format = find_format(dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    to[i] = format == nullptr ? encode_power(values[i], options)
                              : encode(*format, values[i], options.saturate);
  }
  return out;
}

Tensor unnarrowed(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  Tensor out(wide_type(dtype), tensor.shape());
  const auto* from = static_cast<const uint8_t*>(tensor.data());
  if (!is_float(dtype)) {
    auto* to = static_cast<uint8_t*>(out.mutable_data());
    const int shift = 8 - narrow_bits(dtype);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const auto high = static_cast<uint8_t>(from[i] << shift);
      to[i] = is_signed(dtype) ? static_cast<uint8_t>(static_cast<int8_t>(high) >> shift)
                               : static_cast<uint8_t>(high >> shift);
    }
    return out;
  }
  const Format* format = find_format(dtype);
  auto to = out.mutable_values<float>();
  for (int64_t i = 0; i < tensor.count(); ++i) {
    to[i] = format == nullptr ? decode_power(from[i]) : decode(*format, from[i]);
  }
  return out;
}

std::pair<double, double> integer_range(DType dtype) {
  const int bits = is_narrow(dtype) ? narrow_bits(dtype) : 8 * static_cast<int>(dtype_bytes(dtype));
  const bool is_signed = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt4 ||
                         dtype == DType::kInt2;
  const double half = std::ldexp(1.0, bits - 1);
  return is_signed ? std::pair(-half, half - 1) : std::pair(0.0, 2 * half - 1);
}

}  // namespace stretto
