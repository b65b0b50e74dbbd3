#include "tensors.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "stretto/tensor/narrow.h"

namespace nb = nanobind;

namespace stretto::python {
namespace {

DType dtype_of(const Array& array) {
  const std::optional<DType> dtype = find_dtype(array.dtype());
  if (!dtype || *dtype == DType::kBFloat16)
    throw_invalid("array: element type with code {} and {} bits is not supported",
                  array.dtype().code, array.dtype().bits);
  return *dtype;
}

}  // namespace

nb::dlpack::dtype dlpack_type(DType dtype) {
  const auto code = [&] {
    if (dtype == DType::kBool) return nb::dlpack::dtype_code::Bool;
    if (dtype == DType::kBFloat16) return nb::dlpack::dtype_code::Bfloat;
    if (is_float(dtype)) return nb::dlpack::dtype_code::Float;
    const bool is_unsigned = dtype_name(dtype).starts_with('u');
    return is_unsigned ? nb::dlpack::dtype_code::UInt : nb::dlpack::dtype_code::Int;
  }();
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * dtype_bytes(dtype)), 1};
}

std::optional<DType> find_dtype(nb::dlpack::dtype type) {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                              DType::kInt8,    DType::kInt16,   DType::kInt32,   DType::kInt64,
                              DType::kUInt8,   DType::kUInt16,  DType::kUInt32,  DType::kUInt64,
                              DType::kBool};
  for (DType dtype : kTypes) {
    if (type == dlpack_type(dtype)) return dtype;
  }
  return std::nullopt;
}

Tensor tensor_view(const Array& array) {
  Shape shape;
  for (size_t axis = 0; axis < array.ndim(); ++axis) {
    shape.push_back(static_cast<int64_t>(array.shape(axis)));
  }
  const auto drop = [](Array* kept) {
    nb::gil_scoped_acquire gil;
    delete kept;
  };
  std::shared_ptr<Array> owner(new Array(array), drop);
  return Tensor(dtype_of(array), std::move(shape), array.data(), std::move(owner));
}

DType numpy_type(DType dtype) {
  if (dtype == DType::kBFloat16) return DType::kFloat32;
  return is_narrow(dtype) ? wide_type(dtype) : dtype;
}

nb::object numpy_array(const Tensor& tensor) {
  const DType numpy = numpy_type(tensor.dtype());
  if (numpy != tensor.dtype()) return numpy_array(tensor.converted(numpy));
  auto kept = std::make_unique<Tensor>(tensor);
  void* const data = kept->mutable_data();
  nb::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  kept.release();
  std::vector<size_t> shape(tensor.shape().begin(), tensor.shape().end());
  return nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr,
                                         dlpack_type(tensor.dtype())));
}

AnyValue any_value(nb::handle object) {
  if (object.is_none()) return {};
  if (nb::isinstance<nb::list>(object)) {
    Sequence sequence;
    for (nb::handle element : object) sequence.push_back(any_value(element));
    return sequence;
  }
  if (nb::isinstance<nb::tuple>(object)) {
    const auto pair = nb::borrow<nb::tuple>(object);
    return Strings{nb::cast<Shape>(pair[0]), nb::cast<std::vector<std::string>>(pair[1])};
  }
  return tensor_view(nb::cast<Array>(object));
}

// Files may hold bytes that are no UTF-8.
static nb::object text_of(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

nb::object python_value(const AnyValue& value) {
  if (value.is_none()) return nb::none();
  if (value.is_tensor()) return numpy_array(value.tensor());
  if (value.is_strings()) {
    nb::list texts;
    for (const std::string& text : value.strings().values) texts.append(text_of(text));
    return nb::make_tuple(nb::cast(value.strings().shape), texts);
  }
  if (value.is_map()) {
    const Map& map = value.map();
    const bool texts = !map.keys->texts.empty();
    nb::dict row;
    for (size_t i = 0; i < map.values.size(); ++i) {
      const nb::object key = texts ? text_of(map.keys->texts[i]) : nb::cast(map.keys->integers[i]);
      row[key] = nb::cast(map.values[i]);
    }
    return row;
  }
  nb::list list;
  for (const AnyValue& element : value.sequence()) list.append(python_value(element));
  return list;
}

}  // namespace stretto::python
