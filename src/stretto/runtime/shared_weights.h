// The packed weights of all programs of one model: those that need the same bytes share them.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "stretto/kernels/family.h"
#include "stretto/tensor/tensor.h"

namespace stretto::runtime {

// Names packed weights: two with one name hold the same bytes. `constants` is what constants_name()
// says of what is packed.
std::string weights_name(const kernels::Family& family, int row, const void* problem,
                         const std::string& constants);
std::string constants_name(std::span<const Tensor> constants);

class SharedWeights {
 public:
  struct Packed {
    const std::byte* data = nullptr;
    int64_t bytes = 0;
    std::shared_ptr<const void> owner;
    std::vector<Tensor> constants;  // what was packed: the key names their memory
  };

  SharedWeights() = default;
  SharedWeights(const SharedWeights& other);  // shares the memory

  // By a key that names form and constants. Safe to call from several threads.
  std::optional<Packed> find(const std::string& key) const;
  bool has(const std::string& key) const;
  void add(const std::string& key, Packed packed);

  void clear();
  int64_t bytes() const;  // of all of them

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Packed> packed_;
};

}  // namespace stretto::runtime
