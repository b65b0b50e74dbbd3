// MixUp (Zhang et al., arXiv:1710.09412) and CutMix (Yun et al., arXiv:1905.04899) of pairs of
// samples. What a pair is mixed by depends on nothing but seed, epoch and the pair's place, so that
// it is the same on whatever thread and rank it is carried out.
#pragma once

#include <vector>

#include "stretto/media/operators/operator.h"

namespace stretto::media::operators {

enum class Mix : uint8_t { kNone, kMixUp, kCutMix };

// Sample a of a pair becomes lambda * a + (1 - lambda) * b, and b likewise; of CutMix the two swap
// `box`, and lambda is the share of the rest. The labels of a are its own with weight lambda and
// those of b with weight 1 - lambda.
struct MixPlan {
  Mix mix = Mix::kNone;
  double lambda = 1;
  Region box;  // of CutMix
};

// The rows "mixup" and "cutmix" of a list of operators, by how often each is taken. They mix pairs
// behind all other operators, wherever they stand. Of both, one is drawn for a pair, with the
// chances of both divided by their sum where it is above 1.
struct Mixing {
  double mixup = 0, cutmix = 0;              // chances
  double mixup_alpha = 1, cutmix_alpha = 1;  // lambda is drawn from Beta(alpha, alpha)
  bool any() const { return mixup > 0 || cutmix > 0; }
};
// Throws InvalidArgument if one of them is there twice.
Mixing mixing_of(const Operators& operators);

// Of the pair whose first sample is at place `key.sample` of the epoch.
MixPlan draw_mix(const Mixing& mixing, Size size, const SampleKey& key);

// Mixes two pictures of 3 channels, in place. Channels are planes (C, H, W) or lie side by side (H,
// W, C); elements are float32, float16, bfloat16 or uint8, each rounded once. Throws
// InvalidArgument for other elements, a box that is not inside, or sizes below 1.
void apply_mix(const MixPlan& plan, void* a, void* b, DType dtype, Size size, bool planar);

}  // namespace stretto::media::operators
