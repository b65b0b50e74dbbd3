// What the inputs and outputs of a model mean for a context, and the form of its memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stretto/runtime/state_pairs.h"
#include "stretto/stretto.h"
#include "stretto/tensor/shape_range.h"

namespace stretto::runtime {

// What the inputs of a model mean for a context: the same for all contexts with these pairs.
struct StateLayout {
  std::vector<StatePair> pairs;
  std::vector<std::string> names;  // of all inputs, in model order
  std::vector<ShapeRange> ranges;  // their shapes
  std::vector<DType> dtypes;
  std::vector<std::string> inputs, optional, outputs;  // see Context
  std::vector<int> output_indices;                     // of `outputs`, in model order
  int tokens = -1;     // input whose second dimension counts the new places; -1: nothing grows
  int mask = -1;       // attention_mask [batch, places before and new]
  int positions = -1;  // position_ids [batch, new places]
  bool grows = false;

  const StatePair* pair_of(int input) const;
};
// Looked at when it is first asked for with these pairs; the model then keeps it. Throws
// InvalidArgument naming the input or output at fault.
std::shared_ptr<const StateLayout> describe_state(const Model& model,
                                                  const std::map<std::string, std::string>& pairs);
// Throws Unsupported: the model runs in stages, which keep no state.
[[noreturn]] void refuse_context(const Model& model);

// The memory of one pair. One that grows is [outer, rows, inner]: `outer` are the dimensions before
// its axis, of which the batch is the first, and `inner` those behind. One that does not has two
// tensors that change places.
struct StateMemory {
  Shape shape;  // with 0 along the axis that grows
  DType dtype = DType::kFloat32;
  int64_t outer = 1, inner_bytes = 0;
  int batch_axis = 0;  // -1: it has none
  Tensor data, other;
};
// The form for a batch, and the memory of a pair that does not grow. Throws InvalidArgument for a
// batch that the pair cannot have, and Unsupported for one that does not fit into memory.
StateMemory make_memory(const StateLayout& layout, const StatePair& pair, int64_t batch);

}  // namespace stretto::runtime
