// What a Context holds: memory of the caches, in which runs append in place, and which places of it
// each sample uses.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stretto/runtime/state_layout.h"
#include "stretto/stretto.h"

namespace stretto::runtime {

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
  void clear_places();  // of what grows only
  std::map<std::string, Tensor> save() const;
};

namespace runtime {

// An empty one. Throws what make_memory() throws.
std::unique_ptr<Context::State> new_state(const Model& model,
                                          std::shared_ptr<const StateLayout> layout, int64_t batch,
                                          int64_t max_length);

}  // namespace runtime

}  // namespace stretto
