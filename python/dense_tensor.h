// The memory of a framework's tensor, without a call into the interpreter for each of its
// properties.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "stretto/tensor/dtype.h"

namespace stretto::python {

// Dense, in main memory, of a type that Stretto has. Valid until the tensor changes.
struct DenseTensor {
  void* data;
  DType dtype;
  std::span<const int64_t> shape;
};

// A class of tensors and its table of C functions: DLPack's "C exchange API", which PyTorch has
// from 2.10 on.
class TensorClass {
 public:
  // Of `type`; nothing when it has no table that Stretto can read.
  static std::optional<TensorClass> of(nanobind::type_object type);

  bool has(nanobind::handle tensor) const {
    return reinterpret_cast<PyObject*>(Py_TYPE(tensor.ptr())) == type_.ptr();
  }
  // Nothing when the memory of `tensor`, one of this class, is not what DenseTensor describes.
  std::optional<DenseTensor> dense(nanobind::handle tensor) const;

 private:
  // DLTensor of one tensor, whose owner keeps the memory. Non-zero and a Python error on failure.
  using Describe = int (*)(void* tensor, nanobind::dlpack::dltensor* out);

  TensorClass(nanobind::type_object type, Describe describe)
      : type_(std::move(type)), describe_(describe) {}

  nanobind::type_object type_;
  Describe describe_;
};

// Those that have been met.
class TensorClasses {
 public:
  // Whether it could be added, or was before.
  bool add(nanobind::handle tensor);
  // Nothing as well for tensors of other classes than those that were added.
  std::optional<DenseTensor> dense(nanobind::handle tensor) const;

 private:
  std::vector<TensorClass> classes_;
};

}  // namespace stretto::python
