#include "attributes.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/import/onnx/schema.h"
#include "stretto/import/onnx/tensor.h"
#include "tensors.h"

namespace nb = nanobind;

namespace stretto::python {
namespace {

using ir::AttributeKind;

constexpr const char* kExpected[] = {"an integer",         "a number",          "a string",
                                     "a list of integers", "a list of numbers", "a list of strings",
                                     "an array of numbers"};

// "float32" of a string, of numpy.float32, of numpy.dtype("float32") and of torch.float32; nothing
// of other values.
std::optional<int64_t> element_type(nb::handle value) {
  if (PyLong_Check(value.ptr()) != 0) return std::nullopt;
  std::string name;
  if (PyUnicode_Check(value.ptr()) != 0) {
    name = nb::cast<std::string>(value);
  } else if (PyType_Check(value.ptr()) != 0) {
    name = nb::cast<std::string>(value.attr("__name__"));
  } else {
    name = nb::cast<std::string>(nb::str(value));
  }
  if (name.starts_with("torch.")) name = name.substr(6);
  try {
    return static_cast<int64_t>(onnx::data_type(parse_dtype(name)));
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

bool is_type(std::string_view attribute) {
  const auto& names = onnx::kTypeAttributes;
  return std::find(std::begin(names), std::end(names), attribute) != std::end(names);
}

[[noreturn]] void refuse(std::string_view op, std::string_view name, AttributeKind kind,
                         nb::handle value) {
  throw_invalid("{}: attribute {}: expected {}, got {}", op, name,
                kExpected[static_cast<size_t>(kind)], nb::cast<std::string>(nb::repr(value)));
}

bool add_integer(runtime::direct::Key& key, PyObject* value) {
  if (!PyLong_Check(value)) return false;
  const long long number = PyLong_AsLongLong(value);
  if (number == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  key.value(static_cast<int64_t>(number));
  return true;
}

// Lists of plain integers only.
bool is_integers(PyObject* value, Py_ssize_t& size) {
  const bool tuple = PyTuple_CheckExact(value);
  if (!tuple && !PyList_CheckExact(value)) return false;
  size = tuple ? PyTuple_Size(value) : PyList_Size(value);
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = tuple ? PyTuple_GetItem(value, i) : PyList_GetItem(value, i);
    if (!PyLong_CheckExact(item)) return false;
    if (PyLong_AsLongLong(item) == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      return false;
    }
  }
  return true;
}

}  // namespace

ir::Attribute attribute_value(AttributeKind kind, nb::handle value) {
  switch (kind) {
    case AttributeKind::kInt:
      return nb::cast<int64_t>(value);
    case AttributeKind::kFloat:
      return nb::cast<double>(value);
    case AttributeKind::kString:
      return nb::cast<std::string>(value);
    case AttributeKind::kInts:
      return nb::cast<std::vector<int64_t>>(value);
    case AttributeKind::kFloats:
      return nb::cast<std::vector<double>>(value);
    case AttributeKind::kStrings:
      return nb::cast<std::vector<std::string>>(value);
    case AttributeKind::kTensor:
      return tensor_view(nb::cast<Array>(value));
  }
  STRETTO_CHECK(false, "no attribute of kind {}", static_cast<int>(kind));
}

ir::Attribute operator_attribute(std::string_view op, const onnx::SignatureAttribute& spec,
                                 nb::handle value) {
  if (!spec.kind) throw_unsupported("{}: attribute {} is not a plain value", op, spec.name);
  if (*spec.kind == AttributeKind::kInt && is_type(spec.name)) {
    if (const auto type = element_type(value)) return *type;
  }
  try {
    if (*spec.kind == AttributeKind::kTensor) {
      const nb::object arrays = nb::module_::import_("stretto._arrays");
      const Tensor view = tensor_view(nb::cast<Array>(arrays.attr("as_array")(value)));
      return view.converted(view.dtype());  // a copy
    }
    return attribute_value(*spec.kind, value);
  } catch (const nb::cast_error&) {
  } catch (nb::python_error&) {
  }
  refuse(op, spec.name, *spec.kind, value);
}

ir::Attribute guessed_attribute(std::string_view op, std::string_view name, nb::handle value) {
  for (const AttributeKind kind :
       {AttributeKind::kInt, AttributeKind::kFloat, AttributeKind::kString, AttributeKind::kInts,
        AttributeKind::kFloats, AttributeKind::kStrings}) {
    try {
      return attribute_value(kind, value);
    } catch (const nb::cast_error&) {
    }
  }
  throw_invalid("{}: attribute {}: expected numbers or strings, got {}", op, name,
                nb::cast<std::string>(nb::repr(value)));
}

void add_attribute(runtime::direct::Key& key, std::string_view op,
                   const onnx::SignatureAttribute& spec, nb::handle value) {
  PyObject* object = value.ptr();
  if (spec.kind == AttributeKind::kInt && add_integer(key, object)) return;
  if (spec.kind == AttributeKind::kFloat && PyFloat_CheckExact(object)) {
    return key.value(PyFloat_AsDouble(object));
  }
  if (spec.kind == AttributeKind::kString && PyUnicode_Check(object)) {
    Py_ssize_t size = 0;
    if (const char* text = PyUnicode_AsUTF8AndSize(object, &size)) {
      return key.value(std::string_view(text, static_cast<size_t>(size)));
    }
    PyErr_Clear();
  }
  if (Py_ssize_t size = 0; spec.kind == AttributeKind::kInts && is_integers(object, size)) {
    const bool tuple = PyTuple_CheckExact(object);
    key.list(static_cast<size_t>(size));
    for (Py_ssize_t i = 0; i < size; ++i) {
      PyObject* item = tuple ? PyTuple_GetItem(object, i) : PyList_GetItem(object, i);
      key.value(static_cast<int64_t>(PyLong_AsLongLong(item)));
    }
    return;
  }
  std::visit([&](const auto& v) { key.value(v); }, operator_attribute(op, spec, value));
}

}  // namespace stretto::python
