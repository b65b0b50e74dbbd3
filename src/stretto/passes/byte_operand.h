// Operands of 8 bits in products that the importer writes down in int32.
#pragma once

#include <optional>

#include "stretto/passes/rewriter.h"

namespace stretto::passes {

// 65536 products of bytes are less than 2^31.
constexpr int64_t kMostByteSteps = 65536;

inline bool is_byte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUInt8; }

// Bytes and their zero point, kNone for 0.
struct ByteOperand {
  ValueId x = kNone, zero = kNone;
};

// What `id` is: Cast(bytes) or Cast(bytes) - Cast(zero), with one zero point for all.
std::optional<ByteOperand> bytes_of(Rewriter& graph, ValueId id);

}  // namespace stretto::passes
