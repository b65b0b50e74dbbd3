#include <cstring>

#include "stretto/comm/codec/rows.h"
#include "stretto/comm/reduce/scan.h"

namespace stretto::comm {

int64_t plain_bytes(int64_t count) { return 4 * count; }

NonFinite plain_encode(Isa isa, const float* in, float*, int64_t count, std::byte* out) {
  if (count == 0) return {};
  std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
  return scan_non_finite(isa, DType::kFloat32, in, count);
}

void plain_decode(Isa, const std::byte* in, int64_t count, float* out) {
  if (count > 0) std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
}

void plain_decode_add(Isa, const std::byte* in, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, in + 4 * i, sizeof value);
    out[i] += value;
  }
}

}  // namespace stretto::comm
