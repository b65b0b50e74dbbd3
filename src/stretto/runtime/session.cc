#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>

#include "stretto/base/error.h"
#include "stretto/runtime/executor_pool.h"
#include "stretto/runtime/lengths.h"
#include "stretto/runtime/model_state.h"
#include "stretto/runtime/stateful_programs.h"
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
  struct Runner {
    explicit Runner(std::shared_ptr<const runtime::Program> p,
                    std::shared_ptr<runtime::ArenaShelf> s = nullptr)
        : program(std::move(p)), shelf(std::move(s)), pool(*program, shelf.get()) {}

    std::shared_ptr<const runtime::Program> program;
    std::shared_ptr<runtime::ArenaShelf> shelf;
    runtime::ExecutorPool pool;
  };

  State(Model m, std::shared_ptr<runtime::Staged> s) : model(std::move(m)), staged(std::move(s)) {}
  State(Model m, std::shared_ptr<const runtime::Program> program)
      : model(std::move(m)),
        shelf(has_lengths() ? std::make_shared<runtime::ArenaShelf>(program->arena_bytes)
                            : nullptr),
        first(std::make_shared<Runner>(std::move(program), shelf)),
        stateful(std::in_place, model, first->program->target) {
    if (has_lengths()) {
      mask_input = runtime::find_mask(model.state().by_shape->lengths(), first->program->inputs);
    }
  }

  // The one for these shapes and rows, of a model with open dimensions or lengths.
  std::shared_ptr<Runner> runner(std::span<const Shape> shapes, int64_t rows) {
    {
      const std::lock_guard lock(mutex);
      if (auto found = find(shapes, rows)) return found;
    }
    const kernels::Target& target = first->program->target;
    auto made =
        std::make_shared<Runner>(model.state().by_shape->program(shapes, target, rows), shelf);
    const std::lock_guard lock(mutex);
    if (auto found = find(shapes, rows)) return found;  // another thread was faster
    others.push_back(made);
    if (others.size() > kept()) others.erase(others.begin());
    return made;
  }

  std::shared_ptr<Runner> find(std::span<const Shape> shapes, int64_t rows) {
    const auto at = std::find_if(others.begin(), others.end(), [&](const auto& runner) {
      return runtime::has_shapes(*runner->program, shapes, rows);
    });
    if (at == others.end()) return nullptr;
    std::rotate(at, at + 1, others.end());
    return others.back();
  }

  bool has_lengths() const {
    return model.state().by_shape && !model.state().by_shape->lengths().empty();
  }

  // Rows for the tokens of a mask, or 0 where all places hold one: then padded samples are as good.
  int64_t rows_for(const Shape& shape, const void* mask) const {
    const TensorSpec& spec = first->program->inputs[static_cast<size_t>(mask_input)];
    const int64_t places = element_count(shape);
    const int64_t tokens = runtime::count_tokens(spec.name, spec.dtype, shape, mask);
    return tokens == places ? 0 : runtime::rounded_rows(tokens, places);
  }

  // Each has activations and threads of its own; with lengths they share activations, and threads,
  // which sleep between runs, are the limit.
  size_t kept() const {
    constexpr size_t kKept = runtime::ProgramsByShape::kKept, kMost = 40, kSleepers = 1024;
    if (!shelf) return kKept;
    return std::clamp(kSleepers / static_cast<size_t>(first->program->target.threads), kKept,
                      kMost);
  }

  const Model model;
  const std::shared_ptr<runtime::ArenaShelf> shelf;  // of a model with lengths
  const std::shared_ptr<Runner> first;               // for the shapes of model.inputs()
  const std::shared_ptr<runtime::Staged> staged;     // instead of it
  int mask_input = -1;                               // of a model with lengths
  std::mutex mutex;
  std::vector<std::shared_ptr<Runner>> others;  // the one used last is the last
  std::optional<runtime::StatefulPrograms> stateful;
};

Session::Session(Model model, int threads) {
  if (threads < 0 || threads > 1024) {
    throw_invalid("threads: expected 0 (as optimised) to 1024, got {}", threads);
  }
  std::shared_ptr<const runtime::Program> program = model.state().program;
  if (std::shared_ptr<runtime::Staged> staged = model.state().staged) {
    if (threads != 0 && threads != program->target.threads) {
      runtime::Staged::Options how = staged->options();
      how.target.threads = threads;
      staged = std::make_shared<runtime::Staged>(staged->source(), staged->inputs(),
                                                 staged->siblings(), how);
    }
    state_ = std::make_unique<State>(std::move(model), std::move(staged));
    return;
  }
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
  if (const auto* pictures = model().state().pictures.get()) {
    if (inputs.size() != model().inputs().size()) {
      throw_invalid("run: {} has {} inputs, got {}", model().name(), model().inputs().size(),
                    inputs.size());
    }
    const TensorSpec& spec = pictures->inputs[pictures->index];
    const Tensor made =
        prepared_input(*pictures, Tensor(spec.dtype, spec.shape, inputs[pictures->index], nullptr));
    std::vector<const void*> tensors(inputs.begin(), inputs.end());
    tensors[pictures->index] = made.data();
    return run_tensors(tensors, outputs);
  }
  run_tensors(inputs, outputs);
}

Tensor Session::prepared_input(const runtime::Pictures& pictures, const Tensor& given) const {
  const runtime::Program& program = *state_->first->program;
  return runtime::prepared(pictures, program.inputs[pictures.index], given, program.target.threads);
}

void Session::run_tensors(std::span<const void* const> inputs, std::span<void* const> outputs) {
  if (state_->staged) return run_staged(inputs, outputs);
  const runtime::Program& program = *state_->first->program;
  if (inputs.size() != program.inputs.size() || outputs.size() != program.outputs.size()) {
    throw_invalid("run: expected {} inputs and {} outputs, got {} and {}", program.inputs.size(),
                  program.outputs.size(), inputs.size(), outputs.size());
  }
  std::shared_ptr<State::Runner> runner = state_->first;
  if (state_->mask_input >= 0) {
    const auto mask = static_cast<size_t>(state_->mask_input);
    if (const int64_t rows = state_->rows_for(program.inputs[mask].shape, inputs[mask])) {
      std::vector<Shape> shapes;
      for (const TensorSpec& input : program.inputs) shapes.push_back(input.shape);
      runner = state_->runner(shapes, rows);
    }
  }
  runtime::ExecutorPool::Lease(runner->pool).run(inputs, outputs);
}

// Shapes are known after the run only, so the outputs are copied.
void Session::run_staged(std::span<const void* const> inputs, std::span<void* const> outputs) {
  const std::vector<TensorSpec>&from = model().inputs(), &to = model().outputs();
  if (inputs.size() != from.size() || outputs.size() != to.size()) {
    throw_invalid("run: expected {} inputs and {} outputs, got {} and {}", from.size(), to.size(),
                  inputs.size(), outputs.size());
  }
  std::vector<AnyValue> given;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!from[i].other.empty()) {
      throw_unsupported("run: input {} takes {}, which plain memory cannot hold", from[i].name,
                        from[i].other);
    }
    given.emplace_back(Tensor(from[i].dtype, from[i].shape, inputs[i], nullptr));
  }
  const std::vector<AnyValue> made = run_values(given);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!made[i].is_tensor() || made[i].tensor().shape() != to[i].shape ||
        made[i].tensor().dtype() != to[i].dtype) {
      throw_invalid(
          "run: output {} is {} in this run, and the memory is for {} of shape {}; run on tensors",
          to[i].name, made[i].kind(), dtype_name(to[i].dtype), shape_text(to[i].shape));
    }
    const Tensor& tensor = made[i].tensor();
    if (tensor.bytes() > 0) std::memcpy(outputs[i], tensor.data(), tensor.bytes());
  }
}

std::vector<AnyValue> Session::run_values(std::span<const AnyValue> inputs) {
  if (state_->staged) return state_->staged->run(inputs);
  std::vector<Tensor> tensors;
  for (const AnyValue& input : inputs) tensors.push_back(input.tensor());
  std::vector<AnyValue> outputs;
  for (Tensor& tensor : run(tensors)) outputs.emplace_back(std::move(tensor));
  return outputs;
}

std::vector<Tensor> Session::run(std::span<const Tensor> inputs) {
  if (state_->staged) {
    const std::vector<AnyValue> given(inputs.begin(), inputs.end());
    std::vector<Tensor> outputs;
    for (const AnyValue& value : run_values(given)) {
      if (!value.is_tensor()) {
        throw_unsupported("run: output {} is {}; run_values gives it",
                          model().outputs()[outputs.size()].name, value.kind());
      }
      outputs.push_back(value.tensor());
    }
    return outputs;
  }
  std::shared_ptr<State::Runner> runner = state_->first;
  if (inputs.size() != runner->program->inputs.size()) {
    throw_invalid("run: {} has {} inputs, got {}", state_->model.name(),
                  runner->program->inputs.size(), inputs.size());
  }
  std::vector<Tensor> with_pictures;
  if (const auto* pictures = model().state().pictures.get()) {
    with_pictures.assign(inputs.begin(), inputs.end());
    Tensor& pictured = with_pictures[pictures->index];
    pictured = prepared_input(*pictures, pictured);
    inputs = with_pictures;
  }
  const bool open = model().state().by_shape && !model().state().by_shape->fixed();
  const auto has_other_shape = [&](size_t i) {
    return inputs[i].shape() != runner->program->inputs[i].shape;
  };
  bool other = false;
  for (size_t i = 0; i < inputs.size(); ++i) other |= has_other_shape(i);
  int64_t rows = 0;
  if (state_->mask_input >= 0 && (!other || open)) {
    const auto at = static_cast<size_t>(state_->mask_input);
    const TensorSpec& mask = runner->program->inputs[at];
    if (inputs[at].dtype() == mask.dtype && inputs[at].rank() == 2) {  // else refused below
      rows = state_->rows_for(inputs[at].shape(), inputs[at].data());
    }
  }
  if ((other && open) || rows > 0) {
    std::vector<Shape> shapes;
    for (const Tensor& input : inputs) shapes.push_back(input.shape());
    runner = state_->runner(shapes, rows);
  }
  const runtime::Program& program = *runner->program;
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
  runtime::ExecutorPool::Lease(runner->pool).run(from, to);
  return results;
}

std::vector<Tensor> Session::run(const std::map<std::string, Tensor>& inputs, Context& context,
                                 const ContextRunOptions& options) {
  if (!state_->stateful) runtime::refuse_context(state_->model);
  return state_->stateful->run(inputs, context.state(), options);
}

}  // namespace stretto
