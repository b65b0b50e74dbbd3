// What a Context holds: memory of the caches, in which runs append in place, and which places of it
// each sample uses.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stretto/runtime/model_state.h"
#include "stretto/runtime/state_pairs.h"
#include "stretto/stretto.h"

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

// Sample `from_sample` of `from` becomes `to_sample` of `to`, along `axis`; the rest of their
// shapes is equal.
void copy_sample(const Tensor& from, int64_t from_sample, Tensor& to, int64_t to_sample, int axis);

}  // namespace stretto::runtime

namespace stretto {

// The places that are used are [end - used, end) of `rows`, and programs see [end - capacity, end):
// a window that moves by what is appended, and back to the front when it has reached the end. The
// shortest samples are padded on the left, which `visible` says.
struct Context::State {
  Model model;
  std::shared_ptr<const runtime::StateLayout> layout;
  int64_t batch = 1, max_length = 0;
  int64_t capacity = 0, rows = 0, end = 0, used = 0;
  std::vector<std::vector<uint8_t>> visible;  // [batch][used]
  std::vector<runtime::StateMemory> memory;   // parallel to layout->pairs

  // Held by whoever uses the context. Throws InvalidArgument while another one does.
  class Turn {
   public:
    explicit Turn(State& of);
    ~Turn() { of_.taken.flag = false; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    State& of_;
  };
  struct Taken {
    std::atomic<bool> flag = false;
    Taken() = default;
    Taken(const Taken&) {}  // a copy is free
  };
  Taken taken;

  // Room for `count` new places: behind end, or, where none is used, before it. Moves the window
  // and grows as needed.
  void make_room(int64_t count);
  void clear();
};

}  // namespace stretto
