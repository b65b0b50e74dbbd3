// Inputs to check and time a model with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/ir/graph.h"

namespace stretto::runtime {

struct SampleInput {
  Tensor tensor;
  bool made_up = false;
  bool rounded = false;  // given as float64, where the model takes float32
};

// Thrown where the model refuses inputs that were made up, or the sizes that were guessed for them:
// it may take others.
class SampleRefused : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

constexpr uint64_t kSampleSeed = 20;

// One per graph input: the given one, checked (InvalidArgument naming it on a wrong type or shape,
// or a name the model does not have; float64 is rounded where float32 is expected, because NumPy
// makes float64 by default), else made up from kSampleSeed: images (rank 4, one or three
// channels) smooth waves of order one, other floats normal(0, 1); integers that index an axis
// uniform over its size, other integers and bools 1.
std::vector<SampleInput> sample_inputs(const ir::Graph& graph,
                                       const std::map<std::string, Tensor>& given);

}  // namespace stretto::runtime
