#include "stretto/ir/ops/table.h"

namespace stretto::ir {
namespace {

constexpr const Operator* kSingles[] = {
    &ops::kAveragePool,
    &ops::kBatchNormalization,
    &ops::kConv,
    &ops::kFlatten,
    &ops::kFusedConv,
    &ops::kGemm,
    &ops::kGlobalAveragePool,
    &ops::kGlobalMaxPool,
    &ops::kIdentity,
    &ops::kMaxPool,
    &ops::kReshape,
    &ops::kSqueeze,
    &ops::kUnsqueeze,
};

constexpr std::span<const Operator> (*kGroups[])() = {
    ops::elementwise_binary,
    ops::elementwise_unary,
    ops::softmax,
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
