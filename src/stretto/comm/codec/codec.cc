#include "stretto/comm/codec/codec.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/comm/codec/rows.h"

namespace stretto::comm {
namespace {

constexpr Codec kCodecs[] = {
    {"none", 1, false, true, plain_bytes, plain_encode, plain_decode, plain_decode_add},
    {"fp16", 1, false, true, float16_bytes, half_encode, half_decode, half_decode_add},
    {"bf16", 1, false, true, float16_bytes, bfloat16_encode, bfloat16_decode, bfloat16_decode_add},
    {"int8", kInt8Block, true, false, int8_bytes, int8_encode, int8_decode, int8_decode_add},
};

}  // namespace

std::span<const Codec> codecs() { return kCodecs; }

bool is_codec(std::string_view name) {
  return std::any_of(std::begin(kCodecs), std::end(kCodecs),
                     [&](const Codec& codec) { return codec.name == name; });
}

const Codec& find_codec(std::string_view name) {
  std::string names;
  for (const Codec& codec : kCodecs) {
    if (codec.name == name) return codec;
    names += names.empty() ? "" : ", ";
    names += codec.name;
  }
  throw_invalid("codec: expected one of {}, got '{}'", names, name);
}

}  // namespace stretto::comm
