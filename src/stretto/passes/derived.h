// Constants that passes compute from constants, remembered for other graphs of the same model.
//
// A model with open dimensions is optimised once for every size that comes. What does not depend on
// the size, such as weights with a batch norm multiplied in, is computed for the first one only,
// and has the same memory in all: so packed weights are shared too.
#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "stretto/tensor/tensor.h"

namespace stretto::passes {

class Derived {
 public:
  Derived() = default;
  Derived(const Derived& other);  // shares the tensors

  using Make = std::function<std::vector<Tensor>()>;

  // What `make` returned first for this recipe and these tensors (tensor/identity.h), which are
  // kept alive. The recipe names the computation and everything else that it depends on. Safe to
  // call from several threads; two of them may then make the same, and all get one of both.
  std::vector<Tensor> get(const std::string& recipe, std::span<const Tensor> from,
                          const Make& make);

  // From now on may_make() is true only of what was made before.
  void settle();
  // Asked by rules whose constants depend on sizes and can be done without.
  bool may_make(const std::string& recipe, std::span<const Tensor> from);

 private:
  struct Entry {
    std::vector<Tensor> from, made;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  bool settled_ = false;
};

// float32 tensors that differ in their first dimension only, joined along it.
Tensor in_a_row(std::span<const Tensor> parts);

}  // namespace stretto::passes
