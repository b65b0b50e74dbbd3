// Between NumPy arrays and tensors.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>

#include "stretto/tensor/any_value.h"
#include "stretto/tensor/tensor.h"

namespace stretto::python {

// Any read-only, C-contiguous array in main memory.
using Array = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;

// A view of the array's memory that keeps the array alive. Throws InvalidArgument for an element
// type Stretto lacks. Needs the GIL; the tensor may be used and dropped without it.
Tensor tensor_view(const Array& array);

// Nothing for an element type that Stretto lacks.
std::optional<DType> find_dtype(nanobind::dlpack::dtype type);
// The inverse; not for types of which two are in a byte, nor for those of 8-bit floats.
nanobind::dlpack::dtype dlpack_type(DType dtype);

// The type that NumPy has for tensors of this one: float32, int8 or uint8 for those it lacks.
DType numpy_type(DType dtype);

// A NumPy array of numpy_type() that shares the tensor's memory where the type is the same.
nanobind::object numpy_array(const Tensor& tensor);

// An array, None, a list of such values, or strings: a pair of shape and list.
AnyValue any_value(nanobind::handle object);
nanobind::object python_value(const AnyValue& value);

}  // namespace stretto::python
