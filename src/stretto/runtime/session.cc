#include "stretto/base/error.h"
#include "stretto/runtime/executor_pool.h"
#include "stretto/runtime/model_state.h"
#include "stretto/stretto.h"

namespace stretto {
namespace {

void check_tensor(const char* kind, const TensorSpec& spec, const Tensor& tensor) {
  if (tensor.dtype() != spec.dtype) {
    throw_invalid("{} {}: expected {}, got {}", kind, spec.name, dtype_name(spec.dtype),
                  dtype_name(tensor.dtype()));
  }
  if (tensor.shape() != spec.shape) {
    throw_invalid("{} {}: expected shape {}, got {}", kind, spec.name, shape_text(spec.shape),
                  shape_text(tensor.shape()));
  }
}

}  // namespace

struct Session::State {
  State(Model m, std::shared_ptr<const runtime::Program> p)
      : model(std::move(m)),
        program(std::move(p)),
        pool(*program, runtime::executor_limit(program->target.threads)) {}

  Model model;
  std::shared_ptr<const runtime::Program> program;
  runtime::ExecutorPool pool;
};

Session::Session(Model model, int threads) {
  if (threads < 0 || threads > 1024) {
    throw_invalid("threads: expected 0 (as optimised) to 1024, got {}", threads);
  }
  std::shared_ptr<const runtime::Program> program = model.state().program;
  if (threads != 0 && threads != program->target.threads) {
    kernels::Target target = program->target;
    target.threads = threads;
    program = runtime::compile_for(model.state(), target);
  }
  state_ = std::make_unique<State>(std::move(model), std::move(program));
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;

const Model& Session::model() const { return state_->model; }

void Session::run(std::span<const void* const> inputs, std::span<void* const> outputs) {
  const runtime::Program& program = *state_->program;
  if (inputs.size() != program.inputs.size() || outputs.size() != program.outputs.size()) {
    throw_invalid("run: expected {} inputs and {} outputs, got {} and {}", program.inputs.size(),
                  program.outputs.size(), inputs.size(), outputs.size());
  }
  runtime::ExecutorPool::Lease(state_->pool).executor().run(inputs, outputs);
}

std::vector<Tensor> Session::run(std::span<const Tensor> inputs) {
  const runtime::Program& program = *state_->program;
  if (inputs.size() != program.inputs.size()) {
    throw_invalid("run: {} has {} inputs, got {}", state_->model.name(), program.inputs.size(),
                  inputs.size());
  }
  std::vector<const void*> from;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_tensor("input", program.inputs[i], inputs[i]);
    from.push_back(inputs[i].data());
  }
  std::vector<Tensor> results;
  std::vector<void*> to;
  for (const TensorSpec& spec : program.outputs) {
    results.emplace_back(spec.dtype, spec.shape);
    to.push_back(results.back().mutable_data());
  }
  run(from, to);
  return results;
}

}  // namespace stretto
