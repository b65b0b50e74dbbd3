// Models whose work follows the real tokens of a batch (OptimizeOptions::lengths): how many a mask
// has, and for how many a program is made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/passes/ragged.h"
#include "stretto/runtime/program.h"
#include "stretto/stretto.h"

namespace stretto::runtime {

// Index of the input that `lengths` names. Throws InvalidArgument when there is none, or it is no
// [batch, length] of numbers or bools.
int find_mask(const std::string& lengths, const std::vector<TensorSpec>& inputs);

// Names, types and shapes of a graph's inputs.
std::vector<TensorSpec> input_specs(const ir::Graph& graph);

// The options with a mask of ones where the caller gives none and numbers drawn for other inputs
// would be no mask.
OptimizeOptions with_mask(const OptimizeOptions& options, const std::vector<TensorSpec>& inputs);

// Elements of a mask that are 1. Throws InvalidArgument naming the input when one is neither 0 nor
// 1.
int64_t count_tokens(const std::string& input, DType dtype, const Shape& shape, const void* mask);

// Rows of the program for so many tokens, at most `places`: 1.5 % more than tokens on average from
// 256 tokens on, so that 32 programs do for all batches within a factor of two.
int64_t rounded_rows(int64_t tokens, int64_t places);

// What optimize() says of a model with lengths.
std::string ragged_note(const passes::Ragged& ragged);

// Runs both programs on a batch of samples of several lengths, made of `inputs`, and compares what
// they give for real tokens. Throws InvalidArgument naming the output that depends on padding.
void verify_ragged(const Program& padded, const Program& ragged, int mask,
                   const std::vector<Tensor>& inputs, double bound, const std::string& file);

// An output of the model with zeros where `mask` has padding; as it is when it has no tokens.
Tensor without_padding(const Tensor& output, const Tensor& mask);

// The mask of that batch.
Tensor mixed_lengths(const TensorSpec& mask);

}  // namespace stretto::runtime
