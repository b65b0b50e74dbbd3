#include "stretto/ir/ops/table.h"

namespace stretto::ir {
namespace {

constexpr const Operator* kSingles[] = {
    &ops::kArgMax,
    &ops::kArgMin,
    &ops::kAttention,
    &ops::kAveragePool,
    &ops::kBatchNormalization,
    &ops::kCast,
    &ops::kCastLike,
    &ops::kClip,
    &ops::kConcat,
    &ops::kConv,
    &ops::kConvTranspose,
    &ops::kCumSum,
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
    &ops::kIdentity,
    &ops::kLinear,
    &ops::kLRN,
    &ops::kMatMul,
    &ops::kMaxPool,
    &ops::kMod,
    &ops::kPad,
    &ops::kPow,
    &ops::kPRelu,
    &ops::kReshape,
    &ops::kResize,
    &ops::kScatterElements,
    &ops::kScatterND,
    &ops::kSplit,
    &ops::kSqueeze,
    &ops::kTopK,
    &ops::kTrilu,
    &ops::kUnsqueeze,
    &ops::kWhere,
};

constexpr std::span<const Operator> (*kGroups[])() = {
    ops::activations,       ops::elementwise_binary,
    ops::elementwise_unary, ops::elementwise_variadic,
    ops::generators,        ops::normalizations,
    ops::rearrangements,    ops::recurrent,
    ops::reductions,        ops::softmax,
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
