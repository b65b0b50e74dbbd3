#include "stretto/runtime/shared_weights.h"

#include <fmt/format.h>

#include "stretto/tensor/identity.h"

namespace stretto::runtime {

std::string constants_name(std::span<const Tensor> constants) {
  std::string text;
  for (const Tensor& tensor : constants) text += " " + identity(tensor);
  return text;
}

std::string weights_name(const kernels::Family& family, int row, const void* problem,
                         const std::string& constants) {
  return fmt::format("{} {} {}{}", family.row_name(row), family.packing(row, problem),
                     family.weights_key(problem), constants);
}

SharedWeights::SharedWeights(const SharedWeights& other) {
  const std::lock_guard lock(other.mutex_);
  packed_ = other.packed_;
}

bool SharedWeights::has(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return packed_.contains(key);
}

std::optional<SharedWeights::Packed> SharedWeights::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto at = packed_.find(key);
  if (at == packed_.end()) return std::nullopt;
  return at->second;
}

void SharedWeights::add(const std::string& key, Packed packed) {
  const std::lock_guard lock(mutex_);
  packed_.try_emplace(key, std::move(packed));
}

void SharedWeights::clear() {
  const std::lock_guard lock(mutex_);
  packed_.clear();
}

int64_t SharedWeights::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [key, packed] : packed_) sum += packed.bytes;
  return sum;
}

}  // namespace stretto::runtime
