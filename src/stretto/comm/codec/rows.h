// The codecs in the list of codec.cc.
#pragma once

#include "stretto/comm/codec/codec.h"

namespace stretto::comm {

// fp32, not encoded.
int64_t plain_bytes(int64_t count);
NonFinite plain_encode(Isa, const float* in, float* residual, int64_t count, std::byte* out);
void plain_decode(Isa, const std::byte* in, int64_t count, float* out);
void plain_decode_add(Isa, const std::byte* in, int64_t count, float* out);

// IEEE binary16 and bfloat16, rounded to nearest even. Values beyond fp16's range become infinite.
int64_t float16_bytes(int64_t count);
NonFinite half_encode(Isa, const float* in, float* residual, int64_t count, std::byte* out);
void half_decode(Isa, const std::byte* in, int64_t count, float* out);
void half_decode_add(Isa, const std::byte* in, int64_t count, float* out);
NonFinite bfloat16_encode(Isa, const float* in, float* residual, int64_t count, std::byte* out);
void bfloat16_decode(Isa, const std::byte* in, int64_t count, float* out);
void bfloat16_decode_add(Isa, const std::byte* in, int64_t count, float* out);

// Blocks of kInt8Block values: an fp32 scale (16 bits of mantissa), then a signed byte for each.
// value = scale * byte, and the greatest magnitude of a block becomes 127 (or -127). In a block
// that holds inf or NaN the scale is negative, finite values go to +-126, and 127, -127 and -128
// mean +inf, -inf and NaN. So every block has the same size, and inf and NaN arrive.
constexpr int64_t kInt8Block = 256;
int64_t int8_bytes(int64_t count);
NonFinite int8_encode(Isa, const float* in, float* residual, int64_t count, std::byte* out);
void int8_decode(Isa, const std::byte* in, int64_t count, float* out);
void int8_decode_add(Isa, const std::byte* in, int64_t count, float* out);

}  // namespace stretto::comm
