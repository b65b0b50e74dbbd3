#include "stretto/runtime/context_programs.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/passes/pass_list.h"
#include "stretto/passes/run_passes.h"
#include "stretto/runtime/last_place.h"
#include "stretto/runtime/model_state.h"
#include "stretto/runtime/siblings.h"

namespace stretto::runtime {

struct ContextPrograms::Runner {
  const std::vector<StatePair> pairs;
  const std::vector<Shape> shapes;  // of the model's inputs, before memory stood for some
  const int64_t rows;
  const int last;
  Ready ready;  // without a pool when others have been used since
};

ContextPrograms::ContextPrograms(Model model, const kernels::Target& target)
    : model_(std::move(model)), target_(target) {}
ContextPrograms::~ContextPrograms() = default;

namespace {

// Memory may be passed from any place on only to programs that append to it, and what no program
// appends would be lost.
void check_appends(const Program& program, const StateLayout& layout) {
  for (const StatePair& pair : layout.pairs) {
    bool written = false;
    for (const Instruction& instruction : program.instructions) {
      const auto& out = instruction.outputs;
      written = written || std::any_of(out.begin(), out.end(), [&](const Location& at) {
                  return at.place == Place::kInput && at.index == pair.input_index;
                });
    }
    if (pair.axis < 0 || written) continue;
    throw_unsupported("state: {} {} cannot be appended to in place", pair.input,
                      shape_text(program.inputs[static_cast<size_t>(pair.input_index)].shape));
  }
}

}  // namespace

std::shared_ptr<const Program> ContextPrograms::make(const StateLayout& layout,
                                                     const std::vector<Shape>& shapes, int64_t rows,
                                                     int last) {
  if (layout.grows) {
    ImportedModel imported = model_.state().by_shape->import_in_turn(shapes);
    const passes::Pass* const once[] = {&passes::kDeduplicate};
    passes::run_passes(once, imported.graph);
    const int64_t places = shapes[static_cast<size_t>(layout.tokens)][1];
    if (last >= 0) {
      const auto output = static_cast<size_t>(last);
      const Shape& shape = *imported.graph.value(imported.graph.outputs[output]).shape;
      if (shape.size() == 3 && shape[1] == places) keep_last_place(imported.graph, output);
    }
    append_in_place(imported.graph, layout.pairs, rows, places);
    auto program =
        model_.state().siblings->compile(std::move(imported), target_, {.append_in_place = true});
    check_appends(*program, layout);
    return program;
  }
  if (has_shapes(*model_.state().program, shapes) &&
      model_.state().program->target.threads == target_.threads) {
    return model_.state().program;
  }
  if (model_.open()) return model_.state().by_shape->program(shapes, target_);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const TensorSpec& spec = model_.inputs()[i];
    if (spec.shape == shapes[i]) continue;
    throw_invalid("input {}: expected shape {}, got {}", spec.name, shape_text(spec.shape),
                  shape_text(shapes[i]));
  }
  return compile_for(model_.state(), target_);
}

ContextPrograms::Ready ContextPrograms::get(const StateLayout& layout,
                                            const std::vector<Shape>& shapes, int64_t rows,
                                            int last) {
  const auto find = [&]() -> Runner* {
    const auto at = std::find_if(runners_.begin(), runners_.end(), [&](const auto& r) {
      return r->rows == rows && r->last == last && r->shapes == shapes && r->pairs == layout.pairs;
    });
    if (at == runners_.end()) return nullptr;
    std::rotate(at, at + 1, runners_.end());
    return runners_.back().get();
  };
  Ready ready;
  {
    const std::lock_guard lock(mutex_);
    if (const Runner* found = find()) ready = found->ready;
  }
  if (ready.pool) return ready;
  if (!ready.program) ready.program = make(layout, shapes, rows, last);
  ready.pool = std::make_shared<ExecutorPool>(*ready.program);
  std::vector<std::shared_ptr<ExecutorPool>> dropped;  // their threads end when others may go on
  const std::lock_guard lock(mutex_);
  if (Runner* found = find()) {
    if (found->ready.pool) return found->ready;  // another thread was faster
    found->ready = ready;
  } else {
    runners_.push_back(std::make_unique<Runner>(Runner{layout.pairs, shapes, rows, last, ready}));
    if (runners_.size() > kKept) runners_.erase(runners_.begin());
  }
  dropped = limit_executors();
  return ready;
}

// Activations and threads of the programs that were used last are kept, and those of the others
// made again when they are needed: much faster than the program.
std::vector<std::shared_ptr<ExecutorPool>> ContextPrograms::limit_executors() {
  constexpr int64_t kMostBytes = int64_t{256} << 20;
  constexpr int kMostThreads = 128;
  constexpr int kLeast = 2;  // that of the prompts, and that of the steps
  int64_t bytes = 0;
  int threads = 0, count = 0;
  std::vector<std::shared_ptr<ExecutorPool>> dropped;
  for (auto runner = runners_.rbegin(); runner != runners_.rend(); ++runner) {
    Ready& ready = (*runner)->ready;
    if (!ready.pool) continue;
    bytes += ready.program->arena_bytes;
    threads += ready.program->target.threads;
    if (++count <= kLeast || (bytes <= kMostBytes && threads <= kMostThreads)) continue;
    dropped.push_back(std::move(ready.pool));
  }
  return dropped;
}

}  // namespace stretto::runtime
