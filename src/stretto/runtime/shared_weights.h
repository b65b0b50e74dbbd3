// The packed weights of all programs of one model: those that need the same bytes share them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "stretto/tensor/tensor.h"

namespace stretto::runtime {

class SharedWeights {
 public:
  struct Packed {
    const std::byte* data = nullptr;
    int64_t bytes = 0;
    std::shared_ptr<const void> owner;
    std::vector<Tensor> constants;  // what was packed: the key names their memory
  };

  // By a key that names form and constants. Safe to call from several threads.
  std::optional<Packed> find(const std::string& key) const;
  void add(const std::string& key, Packed packed);

  void clear();
  int64_t bytes() const;  // of all of them

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Packed> packed_;
};

}  // namespace stretto::runtime
