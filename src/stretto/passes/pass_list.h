// Every pass, declared one per line; each lives in the file of its name. pipeline.cc has the order.
#pragma once

#include "stretto/passes/pass.h"

namespace stretto::passes {

extern const Pass kComputedConv;
extern const Pass kEinsumProducts;
extern const Pass kFoldConstants;
extern const Pass kMultiplyInFloats;
extern const Pass kMultiplyInIntegers;
extern const Pass kRemoveIdentity;
extern const Pass kRoundInFloats;
extern const Pass kDeduplicate;
extern const Pass kRecogniseActivation;
extern const Pass kRecogniseLayerNorm;
extern const Pass kSqueezeExcite;
extern const Pass kSplitRadix;
extern const Pass kSplitVolume;
extern const Pass kFourierProducts;
extern const Pass kGatherOneHot;
extern const Pass kEliminateTranspose;
extern const Pass kFuseConv;
extern const Pass kConcatConvs;
extern const Pass kFuseLinear;
extern const Pass kFoldBatchNorm;
extern const Pass kFuseAttention;
extern const Pass kMergeConvs;
extern const Pass kMergeLinears;
extern const Pass kFuseMatMul;
extern const Pass kFuseEpilogue;
extern const Pass kFuseAddLayerNorm;
extern const Pass kRagged;
extern const Pass kWidenRows;
extern const Pass kFuseElementwise;
extern const Pass kRemoveDead;

}  // namespace stretto::passes
