#include "stretto/tensor/dtype.h"

#include <array>
#include <bit>
#include <cmath>

#include "stretto/base/error.h"

namespace stretto {
namespace {

struct Row {
  std::string_view name;
  size_t bytes;
};

// In the order of the enumeration.
constexpr std::array<Row, 24> kRows{
    {{"undefined", 0},       {"float32", 4},       {"float64", 8},
     {"float16", 2},         {"bfloat16", 2},      {"int8", 1},
     {"int16", 2},           {"int32", 4},         {"int64", 8},
     {"uint8", 1},           {"uint16", 2},        {"uint32", 4},
     {"uint64", 8},          {"bool", 1},          {"float8_e4m3fn", 1},
     {"float8_e4m3fnuz", 1}, {"float8_e5m2", 1},   {"float8_e5m2fnuz", 1},
     {"float8_e8m0fnu", 1},  {"float4_e2m1fn", 1}, {"int4", 1},
     {"uint4", 1},           {"int2", 1},          {"uint2", 1}}};

}  // namespace

size_t dtype_bytes(DType dtype) { return kRows[static_cast<size_t>(dtype)].bytes; }

std::string_view dtype_name(DType dtype) { return kRows[static_cast<size_t>(dtype)].name; }

DType parse_dtype(std::string_view name) {
  for (size_t i = 1; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  throw_invalid("dtype: unknown name '{}'", name);
}

bool is_float(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16 ||
         (dtype >= DType::kFloat8E4M3FN && dtype <= DType::kFloat4E2M1);
}

bool is_integer(DType dtype) { return dtype >= DType::kInt8 && dtype <= DType::kUInt64; }

float half_to_float(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // rounds past 65504
  if (magnitude < 0x38800000u) {                        // subnormal half: units of 2^-24
    const float scaled = std::ldexp(std::bit_cast<float>(magnitude), 24);
    return sign | static_cast<uint16_t>(std::nearbyint(scaled));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

}  // namespace stretto
