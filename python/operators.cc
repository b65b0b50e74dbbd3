#include "operators.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "given_arrays.h"
#include "stretto/base/error.h"
#include "stretto/ir/operator.h"
#include "stretto/runtime/direct/arguments.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {

OperatorConstant::OperatorConstant(nb::handle values) : OperatorConstant(read(values)) {}

std::pair<Tensor, Framework> OperatorConstant::read(nb::handle values) {
  struct Label : GivenArray::What {
    std::string text() const override { return "constant"; }
  };
  GivenArray given;
  given.read(values, Label());
  if (given.numbers.is_valid()) {
    throw_invalid("constant: expected an array, got {}",
                  nb::cast<std::string>(nb::str(values.type())));
  }
  const runtime::direct::Argument& a = given.argument;
  const Tensor view(a.dtype, Shape(a.shape.begin(), a.shape.end()), a.data, nullptr);
  return {view.converted(a.dtype), given.framework};  // a copy
}

namespace {

using PortText = std::tuple<std::string, std::string, std::vector<std::string>>;

// Name, "required", "optional" or "variadic", and element types, which are not known of operators
// that are made of others.
std::vector<PortText> port_texts(const std::vector<onnx::SignaturePort>& ports,
                                 std::span<const ir::Port> known) {
  constexpr const char* kArities[] = {"required", "optional", "variadic"};
  std::vector<PortText> texts;
  for (size_t i = 0; i < ports.size(); ++i) {
    std::vector<std::string> types;
    for (int t = 1; i < known.size() && t <= static_cast<int>(DType::kUInt2); ++t) {
      if ((known[i].types & (1u << t)) != 0) {
        types.emplace_back(dtype_name(static_cast<DType>(t)));
      }
    }
    texts.emplace_back(ports[i].name, kArities[static_cast<size_t>(ports[i].arity)], types);
  }
  return texts;
}

std::vector<std::tuple<std::string, std::string, bool, std::string>> attribute_texts(
    const onnx::Signature& signature) {
  constexpr const char* kKinds[] = {"int",    "float",   "string", "ints",
                                    "floats", "strings", "tensor"};
  std::vector<std::tuple<std::string, std::string, bool, std::string>> texts;
  for (const onnx::SignatureAttribute& a : signature.attributes) {
    if (a.kind)
      texts.emplace_back(a.name, kKinds[static_cast<size_t>(*a.kind)], a.required, a.fallback);
  }
  return texts;
}

}  // namespace

void bind_operators(nb::module_& m) {
  nb::class_<OperatorConstant>(m, "OperatorConstant")
      .def(nb::init<nb::handle>(), "values"_a)
      .def_prop_ro("shape",
                   [](const OperatorConstant& c) {
                     return nb::tuple(nb::cast(c.constant.tensor().shape()));
                   })
      .def_prop_ro("dtype",
                   [](const OperatorConstant& c) {
                     return std::string(dtype_name(c.constant.tensor().dtype()));
                   })
      .def("array", [](const OperatorConstant& c) {
        const Tensor& t = c.constant.tensor();
        Tensor copy(t.dtype(), t.shape());
        if (t.bytes() > 0) std::memcpy(copy.mutable_data(), t.data(), t.bytes());
        return framework_array(c.framework, copy);
      });

  nb::class_<OperatorContext>(m, "OperatorContext")
      .def(
          "__init__",
          [](OperatorContext* self, int threads, const std::string& accuracy, int capacity,
             const std::string& tuning_cache) {
            new (self) OperatorContext({.threads = threads,
                                        .accuracy = accuracy,
                                        .capacity = capacity,
                                        .tuning_cache = tuning_cache});
          },
          "threads"_a, "accuracy"_a, "capacity"_a, "tuning_cache"_a)
      .def("statistics",
           [](const OperatorContext& c) {
             const ops::CacheStatistics s = c.context.statistics();
             return std::make_tuple(s.hits, s.misses, s.evictions, s.entries);
           })
      .def("clear", [](OperatorContext& c) {
        nb::gil_scoped_release released;
        c.context.clear();
      });

  bind_bound_operator(m);
  // Domain, inputs, outputs, attributes.
  m.def(
      "operator_schema",
      [](const std::string& name) {
        const onnx::Signature& s = *runtime::direct::direct_operator(name).signature;
        const ir::Operator* row = ir::find_operator(name);
        const std::span<const ir::Port> none;
        return std::make_tuple(
            std::string(s.domain), port_texts(s.inputs, row ? row->inputs : none),
            port_texts(s.outputs, row ? row->outputs : none), attribute_texts(s));
      },
      "name"_a);
  m.def("operator_names", [] {
    std::vector<std::string> names;
    for (std::string_view name : ops::operators()) names.emplace_back(name);
    return names;
  });
}

}  // namespace stretto::python
