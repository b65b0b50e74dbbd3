#include "given_arrays.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/tensor/narrow.h"
#include "tensors.h"

namespace nb = nanobind;

namespace stretto::python {
namespace {

// By the letter of the struct module.
DType type_of(const Py_buffer& view) {
  const char* format = view.format == nullptr ? "B" : view.format;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (format[0] == '\0' || format[1] != '\0') return DType::kUndefined;
  const auto sized = [&](DType one, DType two, DType four, DType eight) {
    switch (view.itemsize) {
      case 1:
        return one;
      case 2:
        return two;
      case 4:
        return four;
      case 8:
        return eight;
      default:
        return DType::kUndefined;
    }
  };
  switch (format[0]) {
    case '?':
      return DType::kBool;
    case 'e':
    case 'f':
    case 'd':
      return sized(DType::kUndefined, DType::kFloat16, DType::kFloat32, DType::kFloat64);
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
      return sized(DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
      return sized(DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64);
    default:
      return DType::kUndefined;
  }
}

// `unit`: what a stride of one element is.
template <typename T>
bool is_dense(int rank, const T* shape, const T* strides, int64_t unit) {
  if (strides == nullptr) return true;
  bool dense = true;
  for (int axis = rank - 1; axis >= 0; --axis) {
    if (shape[axis] == 0) return true;
    dense = dense && (shape[axis] == 1 || strides[axis] == unit);
    unit *= shape[axis];
  }
  return dense;
}

bool is_number(nb::handle value) {
  return PyFloat_CheckExact(value.ptr()) || PyLong_CheckExact(value.ptr()) ||
         PyBool_Check(value.ptr()) || PyList_CheckExact(value.ptr()) ||
         PyTuple_CheckExact(value.ptr());
}

}  // namespace

GivenArray::GivenArray(GivenArray&& other) noexcept
    : argument(other.argument),
      framework(other.framework),
      numbers(std::move(other.numbers)),
      view_(other.view_),
      has_view_(std::exchange(other.has_view_, false)),
      kept_(std::move(other.kept_)),
      values_(std::move(other.values_)) {}

void GivenArray::release() {
  if (has_view_) PyBuffer_Release(&view_);
  has_view_ = false;
}

void GivenArray::read(nb::handle value, const What& what, bool written) {
  if (read_numpy(value, what, written) || read_torch(value, what, written)) return;
  if (!written && is_number(value)) {
    numbers = nb::borrow(value);
    return;
  }
  read_other(value, what, written);
}

bool GivenArray::read_numpy(nb::handle value, const What& what, bool written) {
  NumpyNames& names = numpy();
  if (reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())) != names.array) return false;
  const int flags = written ? PyBUF_RECORDS : PyBUF_RECORDS_RO;
  if (PyObject_GetBuffer(value.ptr(), &view_, flags) != 0) {
    PyErr_Clear();
    if (written) return write_bits(value, what);
    read_other(value, what, written);  // element types that buffers cannot describe
    return true;
  }
  has_view_ = true;
  framework = Framework::kNumpy;
  argument.dtype = type_of(view_);
  if (argument.dtype == DType::kUndefined) {
    release();
    if (written) {
      throw_invalid("{}: element type {} is not one that results have", what.text(),
                    nb::cast<std::string>(nb::str(nb::object(value.attr("dtype")))));
    }
    read_other(value, what, written);
    return true;
  }
  if (!is_dense(view_.ndim, view_.shape, view_.strides, view_.itemsize)) {
    if (written) {
      throw_invalid("{}: the array is not C-contiguous; give numpy.empty(shape, dtype)",
                    what.text());
    }
    release();
    kept_ = nb::steal(PyObject_CallFunctionObjArgs(names.dense, value.ptr(), nullptr));
    if (!kept_.is_valid()) throw nb::python_error();
    if (PyObject_GetBuffer(kept_.ptr(), &view_, flags) != 0) throw nb::python_error();
    has_view_ = true;
  }
  static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
  argument.shape = {reinterpret_cast<const int64_t*>(view_.shape), static_cast<size_t>(view_.ndim)};
  argument.data = view_.buf;
  argument.kind = runtime::direct::ArgumentKind::kArray;
  return true;
}

bool GivenArray::read_torch(nb::handle value, const What& what, bool written) {
  TorchNames* names = torch();
  if (names == nullptr) return false;
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(value.ptr()));
  if (type != names->tensor && type != names->parameter) return false;
  framework = Framework::kTorch;
  const nb::object requires_grad = nb::steal(PyObject_GetAttr(value.ptr(), names->requires_grad));
  if (!requires_grad.is_valid()) throw nb::python_error();
  if (requires_grad.ptr() == Py_True) {
    const nb::object on = nb::steal(PyObject_CallNoArgs(names->gradients_on));
    if (on.ptr() == Py_True) {
      throw_invalid(
          "{} requires a gradient, which operators do not compute; call them under "
          "torch.no_grad(), or detach the tensor",
          what.text());
    }
  }
  const nb::object negative =
      nb::steal(PyObject_CallMethodObjArgs(value.ptr(), names->is_neg, nullptr));
  if (!negative.is_valid()) throw nb::python_error();
  if (negative.ptr() == Py_True) {
    if (written) throw_invalid("{}: the tensor is a negated view", what.text());
    kept_ = value.attr("resolve_neg")();
    value = kept_;
  }
  if (names->exchange == nullptr) {
    read_other(value, what, written);
    return true;
  }
  DlTensor tensor{};
  const auto view = [&] {
    if (names->exchange->tensor_from_object(value.ptr(), &tensor) == 0) return;
    nb::python_error error;
    throw_invalid("{}: cannot be read: {}", what.text(), error.what());
  };
  view();
  if (tensor.device_type != kDlpackCpu) {
    throw_invalid("{}: the tensor is on another device; move it with .cpu()", what.text());
  }
  if (!is_dense(tensor.ndim, tensor.shape, tensor.strides, 1)) {
    if (written)
      throw_invalid("{}: the tensor is not contiguous; give torch.empty(shape)", what.text());
    kept_ = nb::steal(PyObject_CallMethodObjArgs(value.ptr(), names->contiguous, nullptr));
    if (!kept_.is_valid()) throw nb::python_error();
    value = kept_;
    view();
  }
  const auto dtype = find_dtype(tensor.dtype);
  if (!dtype) {
    throw_invalid("{}: element type {} is not supported", what.text(),
                  nb::cast<std::string>(nb::str(nb::object(value.attr("dtype")))));
  }
  argument.dtype = *dtype;
  argument.shape = {tensor.shape, static_cast<size_t>(tensor.ndim)};
  argument.data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  argument.kind = runtime::direct::ArgumentKind::kArray;
  return true;
}

// An array whose elements buffers cannot describe, where results go: bfloat16 and float8 of the
// package ml_dtypes, as bytes. Those of fewer bits have no form that NumPy and Stretto share.
bool GivenArray::write_bits(nb::handle value, const What& what) {
  if (!nb::cast<bool>(value.attr("flags").attr("writeable"))) {
    throw_invalid("{}: the array is read-only", what.text());
  }
  const std::string name = nb::cast<std::string>(nb::str(nb::object(value.attr("dtype"))));
  DType dtype = DType::kUndefined;
  try {
    dtype = parse_dtype(name);
  } catch (const InvalidArgument&) {
  }
  const bool bytes = is_narrow(dtype) && narrow_bits(dtype) == 8;
  if (dtype != DType::kBFloat16 && !bytes) {
    throw_invalid("{}: element type {} is not one that results have", what.text(), name);
  }
  if (!nb::cast<bool>(value.attr("flags").attr("c_contiguous"))) {
    throw_invalid("{}: the array is not C-contiguous; give numpy.empty(shape, dtype)", what.text());
  }
  kept_ = value.attr("view")(bytes ? "uint8" : "uint16");
  if (PyObject_GetBuffer(kept_.ptr(), &view_, PyBUF_RECORDS) != 0) throw nb::python_error();
  has_view_ = true;
  framework = Framework::kNumpy;
  argument = {
      .kind = runtime::direct::ArgumentKind::kArray,
      .dtype = dtype,
      .shape = {reinterpret_cast<const int64_t*>(view_.shape), static_cast<size_t>(view_.ndim)},
      .data = view_.buf};
  return true;
}

// NumPy's arrays of element types that the package ml_dtypes adds, from their bits.
bool GivenArray::read_bits(nb::handle value) {
  if (!nb::hasattr(value, "dtype")) return false;
  DType dtype = DType::kUndefined;
  try {
    dtype = parse_dtype(nb::cast<std::string>(nb::str(nb::object(value.attr("dtype")))));
  } catch (const InvalidArgument&) {
    return false;
  }
  const bool narrow = is_narrow(dtype);
  if (!narrow && dtype != DType::kBFloat16) return false;
  const nb::object dense = nb::handle(numpy().dense)(value);
  const nb::object shape = value.attr("shape");  // that of a scalar becomes (1,)
  nb::object bits = dense.attr("view")(narrow ? "uint8" : "uint16").attr("reshape")(shape);
  // The high bits of elements that have fewer than eight mean nothing.
  if (narrow) bits = bits.attr("__and__")((1 << narrow_bits(dtype)) - 1);
  const Tensor view = tensor_view(nb::cast<Array>(nb::handle(numpy().dense)(bits)));
  values_ = Tensor(dtype, nb::cast<Shape>(shape));
  if (values_.bytes() > 0) std::memcpy(values_.mutable_data(), view.data(), values_.bytes());
  framework = Framework::kNumpy;
  argument = {.kind = runtime::direct::ArgumentKind::kArray,
              .dtype = dtype,
              .shape = values_.shape(),
              .data = values_.data()};
  return true;
}

// Whatever else is an array, by way of one of NumPy's or of the dlpack protocol.
void GivenArray::read_other(nb::handle value, const What& what, bool written) {
  if (written || framework == Framework::kTorch) {
    nb::ndarray<nb::c_contig, nb::device::cpu> array;
    // Results must not go to a copy.
    if (!nb::try_cast(value, array, !written)) {
      throw_invalid("{}: expected a dense NumPy array or PyTorch tensor in main memory, got {}",
                    what.text(), nb::cast<std::string>(nb::str(value.type())));
    }
    const auto dtype = find_dtype(array.dtype());
    if (!dtype) throw_invalid("{}: its element type is not supported", what.text());
    const Shape shape(array.shape_ptr(), array.shape_ptr() + array.ndim());
    auto* kept = new nb::ndarray<nb::c_contig, nb::device::cpu>(array);
    values_ = Tensor(*dtype, shape, array.data(), std::shared_ptr<const void>(nullptr));
    kept_ = nb::make_tuple(kept_.is_valid() ? kept_ : nb::none(),
                           nb::capsule(kept, [](void* p) noexcept {
                             delete static_cast<nb::ndarray<nb::c_contig, nb::device::cpu>*>(p);
                           }));
  } else if (read_bits(value)) {
    return;
  } else {
    const nb::object arrays = nb::module_::import_("stretto._arrays");
    const nb::object array = arrays.attr("as_array")(value, nb::none(), what.text());
    values_ = tensor_view(nb::cast<Array>(array));
    framework = Framework::kNumpy;
  }
  argument = {.kind = runtime::direct::ArgumentKind::kArray,
              .dtype = values_.dtype(),
              .shape = values_.shape(),
              .data = values_.data()};
}

void GivenArray::make_numbers(DType dtype, const What& what) {
  const nb::object arrays = nb::module_::import_("stretto._arrays");
  const DType numpy = numpy_type(dtype);
  const nb::object array =
      arrays.attr("as_array")(numbers, std::string(dtype_name(numpy)), what.text());
  values_ = tensor_view(nb::cast<Array>(array));
  if (values_.dtype() != dtype) values_ = values_.converted(dtype);
  argument = {.kind = runtime::direct::ArgumentKind::kArray,
              .dtype = values_.dtype(),
              .shape = values_.shape(),
              .data = values_.data()};
}

}  // namespace stretto::python
