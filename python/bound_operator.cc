// One operator of one context, as a function: what a call of stretto.ops runs through.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "attributes.h"
#include "given_arrays.h"
#include "operators.h"
#include "python_signals.h"
#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/import/onnx/schema.h"
#include "stretto/ir/operator.h"
#include "stretto/runtime/direct/engine.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

using runtime::direct::Argument;
using runtime::direct::ArgumentKind;
using runtime::direct::DirectOperator;
using runtime::direct::Key;
using runtime::direct::Prepared;

PyObject* interned(std::string_view text) {
  PyObject* name = PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  PyUnicode_InternInPlace(&name);
  return name;
}

// A name given by the caller, mostly the very object: names in source code are interned.
bool is_name(PyObject* given, PyObject* name) {
  return given == name || PyUnicode_Compare(given, name) == 0;
}

class BoundOperator {
 public:
  BoundOperator(nb::object owner, OperatorContext& context, std::string_view name)
      : owner_(std::move(owner)),
        engine_(context.context.state().engine),
        op_(runtime::direct::direct_operator(name)),
        row_(ir::find_operator(op_.signature->op)) {
    for (const auto& port : op_.signature->inputs) input_names_.push_back(interned(port.name));
    for (const auto& a : op_.signature->attributes) attribute_names_.push_back(interned(a.name));
    outputs_ = onnx::default_outputs(*op_.signature, {});
  }

  const onnx::Signature& signature() const { return *op_.signature; }

  nb::object call(const nb::args& args, const nb::kwargs& kwargs) const {
    Call call;
    call.attributes.resize(attribute_names_.size());
    read_inputs(call, args);
    read_keywords(call, kwargs);
    type_numbers(call);
    if (call.framework == Framework::kNone) call.framework = call.of_constants;
    count_outputs(call);

    Key key(op_, call.outputs, call.opset);
    std::vector<const void*> inputs;
    inputs.reserve(call.given.size());
    for (const GivenArray& given : call.given) {
      key.add(given.argument);
      inputs.push_back(given.argument.data);
    }
    add_to_key(key, call);
    std::shared_ptr<const Prepared> prepared = engine_.cache().find(key.bytes());
    if (!prepared) prepared = prepare(key, call);
    return run(call, *prepared, inputs);
  }

 private:
  struct Call {
    std::vector<GivenArray> given;
    std::vector<nb::handle> attributes;  // by index, invalid where they are not given
    std::vector<std::pair<nb::handle, nb::handle>> others;  // name and value, of an older opset
    Framework framework = Framework::kNone;
    Framework of_constants = Framework::kNone;  // where no array says what results are
    DType dtype = DType::kUndefined;            // of the first array
    nb::handle out;
    int outputs = 0;
    int64_t opset = 0;
  };

  std::string_view op() const { return op_.signature->op; }

  std::string input_name(size_t i) const {
    const auto& ports = op_.signature->inputs;
    if (i < ports.size() && ports[i].arity != ir::Arity::kVariadic) return ports[i].name;
    return std::to_string(i);
  }

  void read_inputs(Call& call, const nb::args& args) const {
    const auto count = static_cast<size_t>(PyTuple_Size(args.ptr()));
    const auto& ports = op_.signature->inputs;
    const bool variadic = !ports.empty() && ports.back().arity == ir::Arity::kVariadic;
    if (count > ports.size() && !variadic) {
      throw_invalid("{}: at most {} inputs, got {}; attributes are given by name", op(),
                    ports.size(), count);
    }
    call.given.reserve(std::max(count, ports.size()));
    for (size_t i = 0; i < count; ++i) {
      call.given.emplace_back();
      read_input(call, i, PyTuple_GetItem(args.ptr(), static_cast<Py_ssize_t>(i)));
    }
  }

  void read_input(Call& call, size_t i, nb::handle value) const {
    GivenArray& given = call.given[i];
    if (value.is_none()) return;
    static auto* const kConstantType =
        reinterpret_cast<PyTypeObject*>(nb::type<OperatorConstant>().ptr());
    if (PyType_IsSubtype(Py_TYPE(value.ptr()), kConstantType) != 0) {
      if (!nb::inst_ready(value)) {
        throw_invalid("{}: the constant was not initialised; call super().__init__(values)",
                      Label(*this, i).text());
      }
      const auto& constant = *nb::inst_ptr<OperatorConstant>(value);
      const Tensor& tensor = constant.constant.tensor();
      given.argument = {.kind = ArgumentKind::kConstant,
                        .dtype = tensor.dtype(),
                        .shape = tensor.shape(),
                        .data = tensor.data(),
                        .constant = &constant.constant.state()};
      if (call.dtype == DType::kUndefined) call.dtype = tensor.dtype();
      if (call.of_constants == Framework::kNone) call.of_constants = constant.framework;
      return;
    }
    given.read(value, Label(*this, i));
    if (given.numbers.is_valid()) return;
    if (call.framework == Framework::kNone) {
      call.framework = given.framework;
    }
    if (call.dtype == DType::kUndefined) call.dtype = given.argument.dtype;
    if (op_.reads_value(i)) given.argument.kind = ArgumentKind::kValue;
  }

  // The text is made when somebody wants it, which is in an error.
  struct Label : GivenArray::What {
    Label(const BoundOperator& o, size_t index) : of(o), i(index) {}
    std::string text() const override {
      return fmt::format("{}: input {}", of.op(), of.input_name(i));
    }
    const BoundOperator& of;
    size_t i;
  };

  static int find(const std::vector<PyObject*>& names, PyObject* name) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == name) return static_cast<int>(i);
    }
    for (size_t i = 0; i < names.size(); ++i) {
      if (PyUnicode_Compare(names[i], name) == 0) return static_cast<int>(i);
    }
    return -1;
  }

  void read_keywords(Call& call, const nb::kwargs& kwargs) const {
    static PyObject *const kOut = interned("out"), *const kOutputs = interned("outputs"),
                           *const kOpset = interned("opset");
    if (PyObject* opset = PyDict_GetItemWithError(kwargs.ptr(), kOpset)) {
      if (opset != Py_None) {
        call.opset = integer(opset, "opset", onnx::kOldestOpset, onnx::kNewestOpset);
      }
    }
    // What is an input now may have been an attribute then.
    const bool names_inputs = call.opset == 0 || call.opset == onnx::kNewestOpset;
    PyObject *name = nullptr, *value = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(kwargs.ptr(), &at, &name, &value)) {
      if (const int attribute = find(attribute_names_, name); attribute >= 0) {
        if (value != Py_None) call.attributes[attribute] = value;
      } else if (is_name(name, kOut)) {
        if (value != Py_None) call.out = value;
      } else if (is_name(name, kOutputs)) {
        if (value != Py_None) call.outputs = integer(value, "outputs", 1, 1024);
      } else if (is_name(name, kOpset)) {
        continue;
      } else if (const int input = names_inputs ? find(input_names_, name) : -1; input >= 0) {
        if (op_.signature->inputs[static_cast<size_t>(input)].arity == ir::Arity::kVariadic) {
          throw_invalid("{}: inputs are given one by one, as {}(a, b)", op(), op());
        }
        take_named_input(call, static_cast<size_t>(input), value);
      } else {
        call.others.emplace_back(name, value);
      }
    }
    for (const auto& [other, unused] : call.others) {
      check_attribute(op_, nb::cast<std::string>(other), call.opset);
    }
  }

  int integer(PyObject* value, std::string_view name, int64_t least, int64_t most) const {
    const long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred() != nullptr) PyErr_Clear();
    if (number < least || number > most) {
      throw_invalid("{}: {}: expected an integer from {} to {}, got {}", op(), name, least, most,
                    nb::cast<std::string>(nb::repr(value)));
    }
    return static_cast<int>(number);
  }

  void take_named_input(Call& call, size_t i, PyObject* value) const {
    while (call.given.size() <= i) call.given.emplace_back();
    const bool taken =
        call.given[i].argument.kind != ArgumentKind::kAbsent || call.given[i].numbers.is_valid();
    if (taken) throw_invalid("{}: input {} is given twice", op(), input_name(i));
    read_input(call, i, value);
  }

  // Numbers have the type of the other inputs where the input takes that, else one that it takes.
  void type_numbers(Call& call) const {
    for (size_t i = 0; i < call.given.size(); ++i) {
      GivenArray& given = call.given[i];
      if (!given.numbers.is_valid()) continue;
      given.make_numbers(type_of_numbers(call, i), Label(*this, i));
      if (op_.reads_number(i)) given.argument.kind = ArgumentKind::kValue;
    }
  }

  // Whether a number or a list, of lists too, has floats, NumPy's too.
  bool has_floats(nb::handle value, size_t i) const {
    if (PyFloat_Check(value.ptr())) return true;
    if (PyLong_Check(value.ptr())) return false;
    if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) {
      bool floats = false;
      for (nb::handle item : value) floats |= has_floats(item, i);
      return floats;
    }
    const nb::object shape = nb::getattr(value, "shape", nb::none());
    const bool is_array = !shape.is_none() && nb::len(shape) > 0;
    if (is_array || PyNumber_Check(value.ptr()) == 0) {
      throw_invalid(
          "{}: expected an array, numbers or lists of numbers, got a list with {}; inputs "
          "are given one by one, as {}(a, b)",
          Label(*this, i).text(), nb::cast<std::string>(nb::str(value.type())), op());
    }
    return PyIndex_Check(value.ptr()) == 0;
  }

  const ir::Port* port_of(size_t i) const {
    const auto& ports = row_->inputs;
    return i < ports.size() ? &ports[i] : ports.empty() ? nullptr : &ports.back();
  }

  // The inputs that have one type, by the operator's table. Arrays among them say which; numbers
  // alone say it together. An input without such a group follows the first array.
  DType type_of_numbers(const Call& call, size_t i) const {
    bool floats = has_floats(call.given[i].numbers, i);
    if (row_ == nullptr) {  // made of others: integers are shapes
      if (!floats) return DType::kInt64;
      return stretto::is_float(call.dtype) ? call.dtype : DType::kFloat32;
    }
    const ir::Port* port = port_of(i);
    const char variable = port == nullptr ? '\0' : port->type_variable;
    DType of_arrays = variable == '\0' ? call.dtype : DType::kUndefined;
    for (size_t other = 0; variable != '\0' && other < call.given.size(); ++other) {
      const GivenArray& given = call.given[other];
      if (port_of(other)->type_variable != variable) continue;
      // What was a number became an array of the type that is looked for.
      if (given.numbers.is_valid() && given.argument.kind == ArgumentKind::kAbsent) {
        floats = floats || has_floats(given.numbers, other);
      } else if (of_arrays == DType::kUndefined && given.argument.dtype != DType::kUndefined) {
        of_arrays = given.argument.dtype;
      }
    }
    const auto takes = [&](DType dtype) {
      return dtype != DType::kUndefined &&
             (port == nullptr || (port->types & ir::type_bit(dtype)) != 0);
    };
    if (takes(of_arrays) && (!floats || stretto::is_float(of_arrays))) return of_arrays;
    const DType natural = floats ? DType::kFloat32 : DType::kInt64;
    if (takes(natural)) return natural;
    return takes(DType::kFloat32) ? DType::kFloat32 : natural;
  }

  void count_outputs(Call& call) const {
    if (call.outputs > 0) return;
    call.outputs = outputs_;
    if (outputs_ == 0) {  // Split, as often as its attribute or its second input says
      const int parts = onnx::find_attribute(*op_.signature, "num_outputs");
      if (parts >= 0 && call.attributes[parts].is_valid()) {
        call.outputs = integer(call.attributes[parts].ptr(), "num_outputs", 1, 1024);
      } else if (call.given.size() > 1 &&
                 (call.given[1].argument.kind == ArgumentKind::kValue ||
                  call.given[1].argument.kind == ArgumentKind::kConstant)) {
        call.outputs = static_cast<int>(element_count(call.given[1].argument.shape));
      }
    }
    if (call.out.is_valid() && PyTuple_Check(call.out.ptr())) {
      call.outputs = static_cast<int>(PyTuple_Size(call.out.ptr()));
    }
    if (call.outputs < 1 || call.outputs > 1024) {
      throw_invalid("{}: say how many outputs it has, as outputs=2", op());
    }
  }

  void add_to_key(Key& key, const Call& call) const {
    for (size_t i = 0; i < call.attributes.size(); ++i) {
      if (!call.attributes[i].is_valid()) continue;
      key.attribute(static_cast<int>(i));
      add_attribute(key, op(), op_.signature->attributes[i], call.attributes[i]);
    }
    if (call.others.empty()) return;
    const ir::Attributes others = ordered_others(call);
    for (const auto& [name, value] : others.all()) {
      key.named_attribute(name);
      std::visit([&](const auto& v) { key.value(v); }, value);
    }
  }

  ir::Attributes ordered_others(const Call& call) const {
    ir::Attributes attributes;
    for (const auto& [name, value] : call.others) {
      const auto text = nb::cast<std::string>(name);
      attributes.set(text, guessed_attribute(op(), text, value));
    }
    return attributes;
  }

  std::shared_ptr<const Prepared> prepare(const Key& key, const Call& call) const {
    ir::Attributes attributes = ordered_others(call);
    for (size_t i = 0; i < call.attributes.size(); ++i) {
      if (!call.attributes[i].is_valid()) continue;
      const onnx::SignatureAttribute& spec = op_.signature->attributes[i];
      attributes.set(spec.name, operator_attribute(op(), spec, call.attributes[i]));
    }
    std::vector<Argument> arguments;
    for (const GivenArray& given : call.given) arguments.push_back(given.argument);
    nb::gil_scoped_release released;
    const InterruptScope interrupt(check_signals);
    return engine_.prepare(key, op_, arguments, attributes, call.outputs, call.opset);
  }

  void run_engine(const Prepared& prepared, std::span<const void* const> inputs,
                  std::span<void* const> outputs) const {
    if (prepared.brief) return engine_.run(prepared, inputs, outputs);
    nb::gil_scoped_release released;
    const InterruptScope interrupt(check_signals);
    engine_.run(prepared, inputs, outputs);
  }

  nb::object run(const Call& call, const Prepared& prepared,
                 std::span<const void* const> inputs) const {
    const auto& specs = prepared.program.outputs;
    if (call.out.is_valid()) return run_into(call, prepared, inputs);
    for (const TensorSpec& spec : specs) {
      if (!has_type(call.framework, spec.dtype)) return run_converted(call, prepared, inputs);
    }
    std::vector<nb::object> objects;
    std::vector<void*> outputs;
    objects.reserve(specs.size());
    outputs.reserve(specs.size());
    for (const TensorSpec& spec : specs) {
      NewArray array = new_array(call.framework, spec.dtype, spec.shape);
      objects.push_back(std::move(array.object));
      outputs.push_back(array.data);
    }
    run_engine(prepared, inputs, outputs);
    return result(objects);
  }

  static nb::object result(std::vector<nb::object>& objects) {
    if (objects.size() == 1) return std::move(objects[0]);
    nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(objects.size())));
    for (size_t i = 0; i < objects.size(); ++i) {
      PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), objects[i].release().ptr());
    }
    return tuple;
  }

  // Results of types that the framework lacks become wider ones.
  nb::object run_converted(const Call& call, const Prepared& prepared,
                           std::span<const void* const> inputs) const {
    std::vector<Tensor> tensors;
    std::vector<void*> outputs;
    for (const TensorSpec& spec : prepared.program.outputs) {
      tensors.emplace_back(spec.dtype, spec.shape);
      outputs.push_back(tensors.back().mutable_data());
    }
    run_engine(prepared, inputs, outputs);
    std::vector<nb::object> objects;
    for (const Tensor& tensor : tensors) objects.push_back(framework_array(call.framework, tensor));
    return result(objects);
  }

  struct OutLabel : GivenArray::What {
    OutLabel(const BoundOperator& o, size_t index) : of(o), i(index) {}
    std::string text() const override { return fmt::format("{}: out {}", of.op(), i); }
    const BoundOperator& of;
    size_t i;
  };

  nb::object run_into(const Call& call, const Prepared& prepared,
                      std::span<const void* const> inputs) const {
    const auto& specs = prepared.program.outputs;
    const bool several = PyTuple_Check(call.out.ptr()) != 0;
    const size_t count = several ? static_cast<size_t>(PyTuple_Size(call.out.ptr())) : 1;
    if (count != specs.size()) {
      throw_invalid("{}: out: expected a tuple of {} arrays, got {}", op(), specs.size(), count);
    }
    std::vector<GivenArray> given(count);
    std::vector<void*> outputs;
    for (size_t i = 0; i < count; ++i) {
      const nb::handle array =
          several ? nb::handle(PyTuple_GetItem(call.out.ptr(), static_cast<Py_ssize_t>(i)))
                  : call.out;
      given[i].read(array, OutLabel(*this, i), true);
      const Argument& to = given[i].argument;
      if (to.dtype != specs[i].dtype || !std::ranges::equal(to.shape, specs[i].shape)) {
        throw_invalid("{}: out {}: expected {} {}, got {} {}", op(), i, dtype_name(specs[i].dtype),
                      shape_text(specs[i].shape), dtype_name(to.dtype), shape_text(to.shape));
      }
      outputs.push_back(const_cast<void*>(to.data));
    }
    run_engine(prepared, inputs, outputs);
    for (size_t i = 0; i < count; ++i) {
      if (given[i].framework != Framework::kTorch) continue;
      mark_written(several ? PyTuple_GetItem(call.out.ptr(), static_cast<Py_ssize_t>(i))
                           : call.out.ptr());
    }
    return nb::borrow(call.out);
  }

  const nb::object owner_;  // of the engine
  runtime::direct::Engine& engine_;
  const DirectOperator& op_;
  const ir::Operator* const row_;  // null of one that is made of others
  // For ever: there are few hundred names.
  std::vector<PyObject*> input_names_, attribute_names_;
  int outputs_ = 1;
};

}  // namespace

void bind_bound_operator(nb::module_& m) {
  nb::class_<BoundOperator>(m, "BoundOperator")
      .def(
          "__init__",
          [](BoundOperator* self, nb::handle context, const std::string& name) {
            new (self)
                BoundOperator(nb::borrow(context), nb::cast<OperatorContext&>(context), name);
          },
          "context"_a, "name"_a)
      .def("__call__", &BoundOperator::call, "args"_a, "kwargs"_a)
      .def_prop_ro("name", [](const BoundOperator& o) { return std::string(o.signature().op); });
}

}  // namespace stretto::python
