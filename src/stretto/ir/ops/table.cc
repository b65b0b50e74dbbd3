#include "stretto/ir/ops/table.h"

namespace stretto::ir {
namespace {

constexpr const Operator* kSingles[] = {
    &ops::kAppend,
    &ops::kArgMax,
    &ops::kArgMin,
    &ops::kAttention,
    &ops::kAveragePool,
    &ops::kBatchNormalization,
    &ops::kBitCast,
    &ops::kBitShift,
    &ops::kCast,
    &ops::kCastLike,
    &ops::kClip,
    &ops::kCol2Im,
    &ops::kCompress,
    &ops::kConcat,
    &ops::kConv,
    &ops::kConvTranspose,
    &ops::kCumProd,
    &ops::kCumSum,
    &ops::kDeformConv,
    &ops::kDequantizeLinear,
    &ops::kDet,
    &ops::kDFT,
    &ops::kEinsum,
    &ops::kFlatten,
    &ops::kFusedConv,
    &ops::kFusedConvTranspose,
    &ops::kFusedElementwise,
    &ops::kFusedMatMul,
    &ops::kGather,
    &ops::kGatherElements,
    &ops::kGatherND,
    &ops::kGemm,
    &ops::kGlobalAveragePool,
    &ops::kGlobalMaxPool,
    &ops::kGridSample,
    &ops::kIdentity,
    &ops::kIsInf,
    &ops::kIntegerLinear,
    &ops::kLinear,
    &ops::kLinearAttention,
    &ops::kLpPool,
    &ops::kLRN,
    &ops::kMatMul,
    &ops::kMaxPool,
    &ops::kMaxUnpool,
    &ops::kMod,
    &ops::kNegativeLogLikelihoodLoss,
    &ops::kNonMaxSuppression,
    &ops::kNonZero,
    &ops::kPad,
    &ops::kPow,
    &ops::kPRelu,
    &ops::kQuantizeLinear,
    &ops::kReshape,
    &ops::kResize,
    &ops::kReverseSequence,
    &ops::kRoiAlign,
    &ops::kRowIndex,
    &ops::kScatterElements,
    &ops::kScatterND,
    &ops::kSplit,
    &ops::kSqueeze,
    &ops::kSTFT,
    &ops::kTakeRows,
    &ops::kTensorScatter,
    &ops::kTfIdfVectorizer,
    &ops::kTopK,
    &ops::kTreeEnsemble,
    &ops::kTrilu,
    &ops::kUnique,
    &ops::kUnsqueeze,
    &ops::kWhere,
};

constexpr std::span<const Operator> (*kGroups[])() = {
    ops::activations, ops::elementwise_binary, ops::elementwise_unary, ops::elementwise_variadic,
    ops::generators,  ops::normalizations,     ops::random_generators, ops::rearrangements,
    ops::recurrent,   ops::reductions,         ops::softmax,
};

}  // namespace

std::span<const Operator* const> operators() {
  static const std::vector<const Operator*> all = [] {
    std::vector<const Operator*> rows(std::begin(kSingles), std::end(kSingles));
    for (const auto group : kGroups) {
      for (const Operator& op : group()) rows.push_back(&op);
    }
    return rows;
  }();
  return all;
}

}  // namespace stretto::ir
