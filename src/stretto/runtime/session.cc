#include <array>
#include <atomic>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/runtime/executor.h"
#include "stretto/runtime/model_state.h"
#include "stretto/stretto.h"

namespace stretto {
namespace {

// Concurrent callers of one session. More than this many wait for a free slot.
constexpr size_t kMaxCallers = 64;

struct Slot {
  std::atomic<bool> busy{false};
  std::unique_ptr<runtime::Executor> executor;  // touched only by the slot's holder
};

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
      : model(std::move(m)), program(std::move(p)) {}

  Model model;
  std::shared_ptr<const runtime::Program> program;
  std::array<Slot, kMaxCallers> slots;

  // The first free slot, so that a single caller always meets the same warm executor.
  Slot& acquire() {
    for (;;) {
      for (Slot& slot : slots) {
        if (!slot.busy.exchange(true, std::memory_order_acquire)) return slot;
      }
      std::this_thread::yield();
    }
  }
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
  // The first caller's memory and threads exist before the first run, so that it is a fast one too.
  state_->slots[0].executor = std::make_unique<runtime::Executor>(*state_->program);
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
  Slot& slot = state_->acquire();
  struct Release {
    Slot& slot;
    ~Release() { slot.busy.store(false, std::memory_order_release); }
  } release{slot};
  if (!slot.executor) slot.executor = std::make_unique<runtime::Executor>(program);
  slot.executor->run(inputs, outputs);
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
