// Codecs encode fp32 values for the wire. Each is one row of codecs(). The size of an encoding
// depends on the count only, so both sides know it in advance.
//
// Error feedback (Karimireddy et al., "Error Feedback Fixes SignSGD", 2019): given a residual,
// encode sends in + residual and leaves in `residual` what the encoding lost, to be sent the next
// time.
//
// Inf and NaN survive every codec, so that a loss scaler still sees them. In blocks that hold any,
// the residual is not used and does not change, so it stays finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "stretto/base/cpu.h"
#include "stretto/comm/reduce/scan.h"

namespace stretto::comm {

struct Codec {
  std::string_view name;  // "none", "fp16", "bf16", "int8"
  // Elements that are encoded together. The encoding of several blocks is the concatenation of
  // their encodings, so cutting at multiples of it changes nothing.
  int64_t block;
  bool feedback;  // it loses so much that it needs error feedback
  // Each value is rounded by itself, and again to the same bits. So sums of many ranks may be
  // encoded at every level of a tree.
  bool sums;
  int64_t (*encoded_bytes)(int64_t count);
  double wire_bytes() const {  // of each element, in whole blocks
    return static_cast<double>(encoded_bytes(block)) / static_cast<double>(block);
  }
  // `residual` (count values, or null) is read and written. `out` takes encoded_bytes(count); it
  // overlaps nothing, and needs no alignment. Deterministic: the same bits with every `isa`.
  NonFinite (*encode)(Isa isa, const float* in, float* residual, int64_t count, std::byte* out);
  void (*decode)(Isa isa, const std::byte* in, int64_t count, float* out);      // out = values
  void (*decode_add)(Isa isa, const std::byte* in, int64_t count, float* out);  // out += values
};

std::span<const Codec> codecs();
bool is_codec(std::string_view name);            // whether a row has this name
const Codec& find_codec(std::string_view name);  // throws InvalidArgument that lists the names

}  // namespace stretto::comm
