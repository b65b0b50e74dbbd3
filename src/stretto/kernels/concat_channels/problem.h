// Ranges of channels of several blocked tensors, one after the other: concatenation along C, or
// (with one input) a slice of it.
#pragma once

#include <span>

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Input i: [n, channels[i], h, w], blocked fp32, of which channels [first[i], first[i] + count[i])
// are taken. Output: [n, sum of count, h, w], blocked.
struct ConcatChannelsProblem {
  static constexpr int kMaxInputs = 32;

  Target target{};
  int64_t n = 1, h = 1, w = 1;
  int32_t inputs = 0;
  int32_t channels[kMaxInputs] = {}, first[kMaxInputs] = {}, count[kMaxInputs] = {};
  int32_t reserved = 0;

  int64_t out_channels() const;
};

std::string problem_key(const ConcatChannelsProblem& p);
Signature problem_signature(const ConcatChannelsProblem& p);
double problem_flops(const ConcatChannelsProblem& p);

extern const Family kConcatChannels;

}  // namespace stretto::kernels
