// Rows of the operator table, declared one per line. Definitions live in the file named after the
// operator (or its group of siblings); table.cc lists them.
#pragma once

#include "stretto/ir/operator.h"

namespace stretto::ir::ops {

// Groups of siblings that share their schema and loop.
std::span<const Operator> elementwise_binary();
std::span<const Operator> elementwise_unary();
std::span<const Operator> softmax();

extern const Operator kAveragePool;
extern const Operator kBatchNormalization;
extern const Operator kConv;
extern const Operator kFlatten;
extern const Operator kGemm;
extern const Operator kGlobalAveragePool;
extern const Operator kGlobalMaxPool;
extern const Operator kIdentity;
extern const Operator kMaxPool;
extern const Operator kReshape;
extern const Operator kSqueeze;
extern const Operator kUnsqueeze;

// Stretto's own, see ir/fused.h.
extern const Operator kFusedConv;

}  // namespace stretto::ir::ops
