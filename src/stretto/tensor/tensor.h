// Tensors: dense row-major data with a type and a shape.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/tensor/dtype.h"
#include "stretto/tensor/shape.h"

namespace stretto {

// Alignment of every buffer and of every packed weight, in bytes: a cache line and a 512-bit
// vector.
constexpr size_t kAlignment = 64;

// Zero-initialised memory of `bytes`, aligned to kAlignment. Throws Unsupported when the machine
// does not have it (base/memory.h).
std::shared_ptr<std::byte[]> allocate(size_t bytes);

// A dense row-major tensor. Copies share the memory (it may also lie in a mapped file or belong to
// the caller: `owner` keeps it alive). Treat a Tensor that others hold as read-only.
class Tensor {
 public:
  Tensor() = default;
  // Zeros.
  Tensor(DType dtype, Shape shape);
  // Memory that somebody else owns, alive as long as `owner`.
  Tensor(DType dtype, Shape shape, const void* data, std::shared_ptr<const void> owner);

  template <typename T>
  static Tensor of(Shape shape, std::span<const T> values);
  template <typename T>
  static Tensor scalar(T value) {
    return of<T>({}, std::span<const T>(&value, 1));
  }
  static Tensor int64s(std::span<const int64_t> values) {  // rank 1
    return of<int64_t>({static_cast<int64_t>(values.size())}, values);
  }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t dim(int64_t axis) const { return shape_[axis]; }
  int64_t count() const { return count_; }
  size_t bytes() const { return static_cast<size_t>(count_) * dtype_bytes(dtype_); }
  bool defined() const { return dtype_ != DType::kUndefined; }

  const void* data() const { return data_; }
  void* mutable_data() { return const_cast<void*>(data_); }
  template <typename T>
  std::span<const T> values() const;
  template <typename T>
  std::span<T> mutable_values();

  // The same memory under another shape of equal element count.
  Tensor reshaped(Shape shape) const;
  // Any numeric or bool tensor converted; floats to integers truncate. A copy even when equal.
  Tensor converted(DType dtype) const;
  // All values as int64 / double. Throws InvalidArgument for a float tensor in as_int64s.
  std::vector<int64_t> as_int64s() const;
  std::vector<double> as_doubles() const;

 private:
  void check_type(DType dtype) const;
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  int64_t count_ = 0;
  const void* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

template <typename T>
std::span<const T> Tensor::values() const {
  check_type(kDTypeOf<T>);
  return {static_cast<const T*>(data_), static_cast<size_t>(count_)};
}

template <typename T>
std::span<T> Tensor::mutable_values() {
  check_type(kDTypeOf<T>);
  return {static_cast<T*>(mutable_data()), static_cast<size_t>(count_)};
}

template <typename T>
Tensor Tensor::of(Shape shape, std::span<const T> values) {
  Tensor tensor(kDTypeOf<T>, std::move(shape));
  STRETTO_CHECK(static_cast<int64_t>(values.size()) == tensor.count(),
                "tensor: {} values for shape {}", values.size(), shape_text(tensor.shape()));
  std::copy(values.begin(), values.end(), static_cast<T*>(tensor.mutable_data()));
  return tensor;
}

}  // namespace stretto
