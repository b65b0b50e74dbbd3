#include <algorithm>
#include <atomic>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/base/fork.h"
#include "stretto/import/onnx/schema.h"
#include "stretto/runtime/direct/engine.h"

namespace stretto::ops {
namespace {

using runtime::direct::Argument;
using runtime::direct::ArgumentKind;
using runtime::direct::DirectOperator;
using runtime::direct::Key;
using runtime::direct::Prepared;

struct Call {
  std::shared_ptr<const Prepared> prepared;
  std::vector<const void*> inputs;
};

Argument argument_of(const DirectOperator& op, size_t i, const Input& input) {
  if (!input.tensor.defined()) return {};
  Argument argument{.kind = ArgumentKind::kArray,
                    .dtype = input.tensor.dtype(),
                    .shape = input.tensor.shape(),
                    .data = input.tensor.data()};
  if (input.constant) {
    argument.kind = ArgumentKind::kConstant;
    argument.constant = &input.constant->state();
  } else if (op.reads_value(i)) {
    argument.kind = ArgumentKind::kValue;
  }
  return argument;
}

Call prepare(runtime::direct::Engine& engine, std::string_view name, std::span<const Input> inputs,
             const Attributes& given, const CallOptions& options) {
  const DirectOperator& op = runtime::direct::direct_operator(name);
  if (options.opset != 0 &&
      (options.opset < onnx::kOldestOpset || options.opset > onnx::kNewestOpset)) {
    throw_invalid("{}: opset: expected {} to {}, got {}", name, onnx::kOldestOpset,
                  onnx::kNewestOpset, options.opset);
  }
  ir::Attributes attributes;
  for (const auto& [key, value] : given) attributes.set(key, value);
  int outputs = options.outputs;
  if (outputs == 0) outputs = onnx::default_outputs(*op.signature, attributes);
  if (outputs < 1 || outputs > 1024) {
    throw_invalid("{}: outputs: say how many, from 1 to 1024", name);
  }
  Key key(op, outputs, options.opset);
  std::vector<Argument> arguments;
  Call call;
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(argument_of(op, i, inputs[i]));
    key.add(arguments.back());
    call.inputs.push_back(arguments.back().data);
  }
  add_attributes(key, op, attributes, options.opset);
  call.prepared = engine.cache().find(key.bytes());
  if (!call.prepared) {
    call.prepared = engine.prepare(key, op, arguments, attributes, outputs, options.opset);
  }
  return call;
}

std::atomic<uint64_t> last_constant{0}, gone_constants{0};

}  // namespace

Constant::State::~State() {
  const Made* made = made_.load();
  // In a child whose parent was using it, a lock may be locked for ever: it is leaked.
  if (made != nullptr && made->forks == forks()) delete made;
  gone_constants.fetch_add(1, std::memory_order_release);
}

Constant::State::Made& Constant::State::made() const {
  Made* made = made_.load(std::memory_order_acquire);
  if (made != nullptr && made->forks == forks()) return *made;
  auto fresh = std::make_unique<Made>();
  if (made_.compare_exchange_strong(made, fresh.get())) return *fresh.release();
  return *made;
}

const Tensor& Constant::State::wide() const {
  Made& m = made();
  const std::lock_guard lock(m.mutex);
  if (!m.wide.defined()) m.wide = tensor.converted(DType::kFloat32);
  return m.wide;
}

Constant::Constant(const Tensor& values) {
  if (!values.defined()) throw_invalid("Constant: the tensor is empty");
  auto state = std::make_shared<State>();
  state->tensor = Tensor(values.dtype(), values.shape());
  if (values.bytes() > 0) {
    std::memcpy(state->tensor.mutable_data(), values.data(), values.bytes());
  }
  state->id = ++last_constant;
  state_ = std::move(state);
}

const Tensor& Constant::tensor() const { return state_->tensor; }

Context::Context(const ContextOptions& options) : state_(std::make_unique<State>(options)) {}
Context::~Context() = default;

std::vector<Tensor> Context::run(std::string_view op, std::span<const Input> inputs,
                                 const Attributes& attributes, const CallOptions& options) {
  const Call call = prepare(state_->engine, op, inputs, attributes, options);
  std::vector<Tensor> results;
  std::vector<void*> outputs;
  for (const TensorSpec& spec : call.prepared->program.outputs) {
    results.emplace_back(spec.dtype, spec.shape);
    outputs.push_back(results.back().mutable_data());
  }
  state_->engine.run(*call.prepared, call.inputs, outputs);
  return results;
}

void Context::run_into(std::string_view op, std::span<const Input> inputs,
                       const Attributes& attributes, std::span<Tensor> outputs,
                       const CallOptions& options) {
  CallOptions counted = options;
  if (counted.outputs == 0) counted.outputs = static_cast<int>(outputs.size());
  const Call call = prepare(state_->engine, op, inputs, attributes, counted);
  const auto& specs = call.prepared->program.outputs;
  if (outputs.size() != specs.size()) {
    throw_invalid("{}: expected {} tensors for the outputs, got {}", op, specs.size(),
                  outputs.size());
  }
  std::vector<void*> to;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (outputs[i].dtype() != specs[i].dtype || outputs[i].shape() != specs[i].shape) {
      throw_invalid("{}: output {} is {} {}, the tensor for it is {} {}", op, i,
                    dtype_name(specs[i].dtype), shape_text(specs[i].shape),
                    dtype_name(outputs[i].dtype()), shape_text(outputs[i].shape()));
    }
    to.push_back(outputs[i].mutable_data());
  }
  state_->engine.run(*call.prepared, call.inputs, to);
}

CacheStatistics Context::statistics() const { return state_->engine.cache().statistics(); }
void Context::clear() { state_->engine.clear(); }

std::vector<std::string_view> operators() {
  std::vector<std::string_view> names;
  for (const DirectOperator& op : runtime::direct::direct_operators()) {
    names.push_back(op.signature->op);
  }
  return names;
}

}  // namespace stretto::ops

uint64_t stretto::runtime::direct::constants_gone() {
  return stretto::ops::gone_constants.load(std::memory_order_acquire);
}
