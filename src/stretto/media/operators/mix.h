// MixUp (Zhang et al., arXiv:1710.09412) and CutMix (Yun et al., arXiv:1905.04899): what a batch
// is mixed from is drawn once per batch, and is the same on whatever thread it is carried out.
#pragma once

#include <vector>

#include "stretto/media/operators/operator.h"

namespace stretto::media::operators {

enum class Mix : uint8_t { kMixUp, kCutMix };

// Sample i becomes lambda * sample i + (1 - lambda) * sample partner[i]; of CutMix, `box` of it is
// the partner's, and lambda is the share of the rest. The labels of sample i are its own with
// weight lambda and its partner's with weight 1 - lambda.
struct MixPlan {
  Mix mix = Mix::kMixUp;
  double lambda = 1;
  Region box;                    // empty for MixUp
  std::vector<int64_t> partner;  // a permutation of the batch
};

// Of batch number `key.sample` of the epoch. lambda is drawn from Beta(alpha, alpha). Throws
// InvalidArgument for an alpha that is not in 0.001 .. 1000, or sizes below 1.
MixPlan draw_mix(Mix mix, double alpha, int64_t count, Size size, const SampleKey& key);

// Mixes `count` pictures of 3 channels of float32, which follow each other without gaps, in place.
// Channels are planes (C, H, W) or lie side by side (H, W, C). Throws InvalidArgument for
// partners that are no permutation, a box that is not inside, or sizes below 1.
void apply_mix(const MixPlan& plan, float* batch, Size size, bool planar);

}  // namespace stretto::media::operators
