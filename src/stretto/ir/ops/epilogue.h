// What the fused operators do to their sums (see ir/fused.h).
#pragma once

#include <algorithm>
#include <array>

#include "stretto/ir/operator.h"

namespace stretto::ir::ops {

// The epilogue's attributes, to be appended to an operator's own.
constexpr AttributeSpec kEpilogueAttributes[] = {
    {"activation", AttributeKind::kString},
    {"alpha", AttributeKind::kFloat},
    {"beta", AttributeKind::kFloat},
    {"residual_after_activation", AttributeKind::kInt},
};

// Own attributes followed by the epilogue's.
template <size_t kCount>
constexpr auto with_epilogue(const AttributeSpec (&own)[kCount]) {
  std::array<AttributeSpec, kCount + std::size(kEpilogueAttributes)> all{};
  std::copy(std::begin(own), std::end(own), all.begin());
  std::copy(std::begin(kEpilogueAttributes), std::end(kEpilogueAttributes), all.begin() + kCount);
  return all;
}

// Checks the epilogue's attributes, the bias [channels] at input 2 and the residual (of the
// output's shape) at input 3, where present.
void check_bias(const Inference& c, int64_t channels);
void check_epilogue(const Inference& c, const Shape& output, int64_t channels);

// Output 0 = epilogue(sums), where sums are float64 of the output's shape. Inputs 2 and 3 as above;
// the bias runs along `channel_axis`. Without epilogue attributes: sums + bias.
void finish(Evaluation& c, Tensor sums, int64_t channel_axis);

}  // namespace stretto::ir::ops
