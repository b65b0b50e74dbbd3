#include "frameworks.h"

#include <nanobind/stl/string.h>

#include <cstring>

#include "stretto/base/error.h"
#include "stretto/tensor/narrow.h"
#include "tensors.h"

namespace nb = nanobind;

namespace stretto::python {
namespace {

PyObject* lasting(nb::object object) { return object.release().ptr(); }
PyObject* name_of(const char* text) { return PyUnicode_InternFromString(text); }

}  // namespace

NumpyNames::NumpyNames() {
  const nb::object numpy = nb::module_::import_("numpy");
  array = lasting(numpy.attr("ndarray"));
  empty = lasting(numpy.attr("empty"));
  dense = lasting(numpy.attr("ascontiguousarray"));
}

PyObject* NumpyNames::type(DType dtype) {
  PyObject*& found = types_[static_cast<int>(dtype)];
  if (found == nullptr) {
    const std::string name(dtype_name(dtype));
    found = lasting(nb::module_::import_("numpy").attr("dtype")(name));
  }
  return found;
}

// Not made in the initialiser of a static object, whose guard would be held while imports let go of
// the interpreter's lock: whoever waited for one of both would have the other.
NumpyNames& numpy() {
  static NumpyNames* names = nullptr;
  if (names == nullptr) {
    auto* made = new NumpyNames;
    if (names == nullptr) names = made;
  }
  return *names;
}

TorchNames::TorchNames()
    : requires_grad(name_of("requires_grad")),
      is_neg(name_of("is_neg")),
      contiguous(name_of("contiguous")) {
  const nb::object torch = nb::module_::import_("torch");
  tensor = lasting(torch.attr("Tensor"));
  parameter = lasting(torch.attr("nn").attr("Parameter"));
  gradients_on = lasting(torch.attr("is_grad_enabled"));
  module = lasting(torch);
  const nb::object graph =
      nb::getattr(nb::getattr(torch, "autograd", nb::none()), "graph", nb::none());
  if (nb::hasattr(graph, "increment_version")) {
    increment_version = lasting(graph.attr("increment_version"));
  }
  const nb::object capsule =
      nb::getattr(nb::handle(tensor), "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_CheckExact(capsule.ptr())) return;
  auto* table =
      static_cast<DlExchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (table == nullptr) PyErr_Clear();
  while (table != nullptr && table->major > 1) table = table->older;
  if (table != nullptr && table->tensor_from_object != nullptr) exchange = table;
}

TorchNames* torch() {
  static TorchNames* names = nullptr;
  if (names == nullptr) {
    const nb::object loaded = nb::module_::import_("sys").attr("modules");
    if (!nb::cast<bool>(loaded.attr("__contains__")("torch"))) return nullptr;
    const nb::object module = loaded["torch"];
    // While it is imported, a part of it is there.
    if (!nb::hasattr(module, "is_grad_enabled") || !nb::hasattr(module, "nn")) return nullptr;
    auto* made = new TorchNames;
    if (names == nullptr) names = made;
  }
  return names;
}

void mark_written(nb::handle tensor) {
  TorchNames& names = *torch();
  if (names.increment_version == nullptr) return;
  PyObject* const arguments[] = {tensor.ptr()};
  const nb::object done =
      nb::steal(PyObject_Vectorcall(names.increment_version, arguments, 1, nullptr));
  if (!done.is_valid()) throw nb::python_error();
}

bool has_type(Framework framework, DType dtype) {
  if (dtype == DType::kBFloat16) return framework == Framework::kTorch;
  return !is_narrow(dtype);
}

namespace {

// Memory of NumPy lies at multiples of 16 bytes. A large result that is not aligned would be
// computed elsewhere and copied, so a piece of a larger array is taken instead.
constexpr int64_t kWorthAligning = 32 << 10;

nb::object shape_tuple(const Shape& shape) {
  nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (size_t i = 0; i < shape.size(); ++i) {
    PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
  }
  return tuple;
}

void* memory_of(nb::handle array) {
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_WRITABLE | PyBUF_STRIDES) != 0) {
    throw nb::python_error();
  }
  void* data = view.buf;
  PyBuffer_Release(&view);  // the array keeps it
  return data;
}

NewArray new_numpy(DType dtype, const Shape& shape) {
  NumpyNames& names = numpy();
  const nb::object dims = shape_tuple(shape);
  const int64_t bytes = element_count(shape) * static_cast<int64_t>(dtype_bytes(dtype));
  if (bytes < kWorthAligning) {
    PyObject* arguments[] = {dims.ptr(), names.type(dtype)};
    nb::object array = nb::steal(PyObject_Vectorcall(names.empty, arguments, 2, nullptr));
    if (!array.is_valid()) throw nb::python_error();
    void* data = memory_of(array);
    return {std::move(array), data};
  }
  const nb::object room = nb::handle(names.empty)(bytes + static_cast<int64_t>(kAlignment),
                                                  nb::handle(names.type(DType::kUInt8)));
  const auto start = reinterpret_cast<uintptr_t>(memory_of(room));
  const uintptr_t offset = (kAlignment - start % kAlignment) % kAlignment;
  return {nb::handle(names.array)(dims, nb::handle(names.type(dtype)), room, offset),
          reinterpret_cast<void*>(start + offset)};
}

NewArray new_torch(DType dtype, const Shape& shape) {
  TorchNames& names = *torch();
  const std::string name(dtype_name(dtype));
  if (names.exchange == nullptr) {
    nb::object made =
        nb::handle(names.module)
            .attr("empty")(shape_tuple(shape),
                           nb::arg("dtype") = nb::handle(names.module).attr(name.c_str()));
    const auto address = nb::cast<uintptr_t>(made.attr("data_ptr")());
    return {std::move(made), reinterpret_cast<void*>(address)};
  }
  DlTensor prototype{.device_type = kDlpackCpu,
                     .ndim = static_cast<int32_t>(shape.size()),
                     .dtype = dlpack_type(dtype),
                     .shape = const_cast<int64_t*>(shape.data())};
  DlManaged* made = nullptr;
  std::string problem;
  const auto failed = [](void* context, const char*, const char* message) {
    *static_cast<std::string*>(context) = message;
  };
  if (names.exchange->allocate(&prototype, &made, &problem, failed) != 0) {
    throw_unsupported("PyTorch cannot allocate {} {}: {}", name, shape_text(shape), problem);
  }
  void* data = static_cast<std::byte*>(made->tensor.data) + made->tensor.byte_offset;
  void* object = nullptr;
  if (names.exchange->object_from_managed(made, &object) != 0) throw nb::python_error();
  return {nb::steal(static_cast<PyObject*>(object)), data};
}

}  // namespace

NewArray new_array(Framework framework, DType dtype, const Shape& shape) {
  return framework == Framework::kTorch ? new_torch(dtype, shape) : new_numpy(dtype, shape);
}

nb::object framework_array(Framework framework, const Tensor& tensor) {
  if (framework != Framework::kTorch) return numpy_array(tensor);
  const Tensor wide =
      has_type(framework, tensor.dtype()) ? tensor : tensor.converted(numpy_type(tensor.dtype()));
  NewArray array = new_array(framework, wide.dtype(), wide.shape());
  if (wide.bytes() > 0) std::memcpy(array.data, wide.data(), wide.bytes());
  return std::move(array.object);
}

}  // namespace stretto::python
