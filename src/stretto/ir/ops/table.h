// Rows of the operator table, declared one per line. Definitions live in the file named after the
// operator (or its group of siblings); table.cc lists them.
//
// Each row has the ports and attributes of the newest ONNX form, with these differences:
//   BitCast: attribute `from` names the input's type.
//   Types in attributes (`to`, `dtype`, `output_dtype`, `precision`) are names ("float32"), not
//   ONNX's
//     numbers for them.
//   Constant: only the attribute `value` (a tensor).
//   BatchNormalization: inference only (one output); the importer makes training_mode 1 of parts.
//   RandomNormal, RandomUniform and their forms with Like: attribute `node`, a number that tells
//     nodes of one graph apart.
//   Resize: align_corners counts with the output's integer length, as exporters and runtimes do.
// Element types are float32, float64, integers and bool; data movement also takes 16-bit floats.
#pragma once

#include "stretto/ir/operator.h"

namespace stretto::ir::ops {

// Groups of siblings that share their schema and loop.
std::span<const Operator> activations();
std::span<const Operator> elementwise_binary();
std::span<const Operator> elementwise_unary();
std::span<const Operator> elementwise_variadic();
std::span<const Operator> generators();
std::span<const Operator> normalizations();
std::span<const Operator> random_generators();
std::span<const Operator> rearrangements();
std::span<const Operator> recurrent();
std::span<const Operator> reductions();
std::span<const Operator> softmax();

extern const Operator kAppend;
extern const Operator kArgMax;
extern const Operator kArgMin;
extern const Operator kAveragePool;
extern const Operator kBatchNormalization;
extern const Operator kBitCast;
extern const Operator kBitShift;
extern const Operator kCast;
extern const Operator kCastLike;
extern const Operator kClip;
extern const Operator kCol2Im;
extern const Operator kCompress;
extern const Operator kConcat;
extern const Operator kConv;
extern const Operator kConvTranspose;
extern const Operator kCumProd;
extern const Operator kCumSum;
extern const Operator kDeformConv;
extern const Operator kDequantizeLinear;
extern const Operator kDet;
extern const Operator kDFT;
extern const Operator kEinsum;
extern const Operator kFlatten;
extern const Operator kGather;
extern const Operator kGatherElements;
extern const Operator kGatherND;
extern const Operator kGemm;
extern const Operator kGlobalAveragePool;
extern const Operator kGlobalMaxPool;
extern const Operator kGridSample;
extern const Operator kIdentity;
extern const Operator kIsInf;
extern const Operator kLinearAttention;
extern const Operator kLpPool;
extern const Operator kLRN;
extern const Operator kMatMul;
extern const Operator kMaxPool;
extern const Operator kMaxUnpool;
extern const Operator kMod;
extern const Operator kNegativeLogLikelihoodLoss;
extern const Operator kNonMaxSuppression;
extern const Operator kNonZero;
extern const Operator kPad;
extern const Operator kPow;
extern const Operator kPRelu;
extern const Operator kQuantizeLinear;
extern const Operator kReshape;
extern const Operator kResize;
extern const Operator kReverseSequence;
extern const Operator kRoiAlign;
extern const Operator kScatterElements;
extern const Operator kScatterND;
extern const Operator kSplit;
extern const Operator kSqueeze;
extern const Operator kSTFT;
extern const Operator kTensorScatter;
extern const Operator kTfIdfVectorizer;
extern const Operator kTopK;
extern const Operator kTrilu;
extern const Operator kUnique;
extern const Operator kUnsqueeze;
extern const Operator kWhere;

// Stretto's own, see ir/fused.h. stretto.TreeEnsemble is that of ai.onnx.ml.
extern const Operator kAttention;
extern const Operator kFusedConv;
extern const Operator kFusedConvTranspose;
extern const Operator kFusedElementwise;
extern const Operator kFusedMatMul;
extern const Operator kIntegerLinear;
extern const Operator kLinear;
extern const Operator kRowIndex;
extern const Operator kTakeRows;
extern const Operator kTreeEnsemble;

}  // namespace stretto::ir::ops
