#include "dense_tensor.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "tensors.h"

namespace nb = nanobind;

namespace stretto::python {
namespace {

// The first functions of DLPackExchangeAPI, version 1 of dlpack.h. Later versions of the same major
// number only add to its end.
struct ExchangeTable {
  struct {
    uint32_t major, minor;
  } version;
  ExchangeTable* older;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*describe)(void* tensor, nb::dlpack::dltensor* out);  // null: not offered
};

constexpr uint32_t kMajor = 1;
constexpr const char* kCapsule = "dlpack_exchange_api";

// PyTorch describes its integers of 1 to 7 bits as bytes. Their names end in their number of bits.
bool whole_bytes(nb::handle tensor, DType dtype) {
  if (dtype != DType::kInt8 && dtype != DType::kUInt8) return true;
  const nb::object type = tensor.attr("dtype");
  return std::string_view(nb::str(type).c_str()).ends_with("int8");
}

bool contiguous(const nb::dlpack::dltensor& t) {
  if (!t.strides) return true;
  int64_t step = 1;
  for (int32_t axis = t.ndim - 1; axis >= 0; --axis) {
    if (t.shape[axis] != 1 && t.strides[axis] != step) return false;
    step *= t.shape[axis];
  }
  return true;
}

}  // namespace

std::optional<TensorClass> TensorClass::of(nb::type_object type) {
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), kCapsule)) return std::nullopt;
  const auto* table =
      static_cast<const ExchangeTable*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
  while (table && table->version.major != kMajor) table = table->older;
  if (!table || !table->describe) return std::nullopt;
  return TensorClass(std::move(type), table->describe);
}

std::optional<DenseTensor> TensorClass::dense(nb::handle tensor) const {
  nb::dlpack::dltensor t;
  if (describe_(tensor.ptr(), &t) != 0) {  // sparse, for example
    PyErr_Clear();
    return std::nullopt;
  }
  const std::optional<DType> dtype = find_dtype(t.dtype);
  if (!dtype || t.device.device_type != nb::device::cpu::value || !contiguous(t) ||
      !whole_bytes(tensor, *dtype)) {
    return std::nullopt;
  }
  // A view of negated values, which the table does not mention.
  static PyObject* const is_neg = PyUnicode_InternFromString("is_neg");
  PyObject* const self = tensor.ptr();
  const nb::object negated = nb::steal(PyObject_VectorcallMethod(is_neg, &self, 1, nullptr));
  if (!negated.is_valid()) throw nb::python_error();
  if (negated.ptr() != Py_False) return std::nullopt;
  return DenseTensor{static_cast<std::byte*>(t.data) + t.byte_offset,
                     *dtype,
                     {t.shape, static_cast<size_t>(t.ndim)}};
}

bool TensorClasses::add(nb::handle tensor) {
  const auto has = [&](const TensorClass& c) { return c.has(tensor); };
  if (std::any_of(classes_.begin(), classes_.end(), has)) return true;
  std::optional<TensorClass> fresh = TensorClass::of(nb::borrow<nb::type_object>(tensor.type()));
  if (fresh) classes_.push_back(*std::move(fresh));
  return fresh.has_value();
}

std::optional<DenseTensor> TensorClasses::dense(nb::handle tensor) const {
  for (const TensorClass& c : classes_) {
    if (c.has(tensor)) return c.dense(tensor);
  }
  return std::nullopt;
}

}  // namespace stretto::python
