// Attributes of ONNX's operators from Python's values.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "stretto/import/onnx/signature.h"
#include "stretto/ir/operator.h"
#include "stretto/runtime/direct/arguments.h"

namespace stretto::python {

// A Python value as the kind that an operator's table asks for. Throws nanobind::cast_error.
ir::Attribute attribute_value(ir::AttributeKind kind, nanobind::handle value);

// The same for single operators; element types may be given by name or as types of NumPy and
// PyTorch. Throws InvalidArgument beginning with the operator.
ir::Attribute operator_attribute(std::string_view op, const onnx::SignatureAttribute& spec,
                                 nanobind::handle value);

// An attribute of an older opset, whose kind is that of the value.
ir::Attribute guessed_attribute(std::string_view op, std::string_view name, nanobind::handle value);

// Adds the value to a key. Most kinds go without objects being made.
void add_attribute(runtime::direct::Key& key, std::string_view op,
                   const onnx::SignatureAttribute& spec, nanobind::handle value);

}  // namespace stretto::python
