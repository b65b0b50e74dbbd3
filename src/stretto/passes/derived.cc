#include "stretto/passes/derived.h"

#include <algorithm>

#include "stretto/tensor/identity.h"

namespace stretto::passes {
namespace {

std::string key_of(const std::string& recipe, std::span<const Tensor> from) {
  std::string key = recipe;
  for (const Tensor& tensor : from) key += " " + identity(tensor);
  return key;
}

}  // namespace

Derived::Derived(const Derived& other) {
  const std::lock_guard lock(other.mutex_);
  entries_ = other.entries_;
  settled_ = other.settled_;
}

void Derived::settle() {
  const std::lock_guard lock(mutex_);
  settled_ = true;
}

bool Derived::may_make(const std::string& recipe, std::span<const Tensor> from) {
  const std::string key = key_of(recipe, from);
  const std::lock_guard lock(mutex_);
  return !settled_ || entries_.contains(key);
}

std::vector<Tensor> Derived::get(const std::string& recipe, std::span<const Tensor> from,
                                 const Make& make) {
  std::string key = key_of(recipe, from);
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = entries_.find(key); at != entries_.end()) return at->second.made;
  }
  Entry entry{{from.begin(), from.end()}, make()};
  const std::lock_guard lock(mutex_);
  return entries_.try_emplace(std::move(key), std::move(entry)).first->second.made;
}

Tensor in_a_row(std::span<const Tensor> parts) {
  Shape shape = parts[0].shape();
  shape[0] = 0;
  for (const Tensor& part : parts) shape[0] += part.dim(0);
  Tensor whole(DType::kFloat32, shape);
  float* to = whole.mutable_values<float>().data();
  for (const Tensor& part : parts) to = std::ranges::copy(part.values<float>(), to).out;
  return whole;
}

}  // namespace stretto::passes
