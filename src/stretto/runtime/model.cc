#include <algorithm>
#include <nlohmann/json.hpp>

#include "stretto/base/cpu.h"
#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/machine_rates.h"
#include "stretto/kernels/packing.h"
#include "stretto/report/report.h"
#include "stretto/runtime/artefact.h"
#include "stretto/runtime/compile.h"
#include "stretto/runtime/memory_check.h"
#include "stretto/runtime/model_state.h"
#include "stretto/stretto.h"
#include "stretto/tune/cache_file.h"

namespace stretto {

const std::string& Model::name() const { return state_->name; }
const std::vector<TensorSpec>& Model::inputs() const {
  return state_->pictures ? state_->pictures->inputs : state_->program->inputs;
}
const std::vector<TensorSpec>& Model::outputs() const { return state_->program->outputs; }
const std::string& Model::preprocess() const {
  static const std::string none;
  return state_->pictures ? state_->pictures->text : none;
}
std::vector<ShapeRange> Model::input_ranges() const {
  if (state_->pictures) return state_->pictures->ranges;
  std::vector<ShapeRange> ranges;
  if (state_->staged) {
    for (size_t i = 0; i < inputs().size(); ++i) {
      const auto& shape = state_->staged->inputs()[i].shape;
      ranges.push_back(shape ? *shape : ShapeRange());
    }
  } else if (state_->by_shape) {
    for (const runtime::OpenInput& input : state_->by_shape->inputs()) {
      ranges.push_back(input.shape);
    }
  } else {
    for (const TensorSpec& input : inputs()) ranges.push_back(fixed_range(input.shape));
  }
  return ranges;
}
bool Model::open() const {
  return (state_->by_shape != nullptr && !state_->by_shape->fixed()) || staged() ||
         state_->pictures != nullptr;
}
bool Model::staged() const { return state_->staged != nullptr; }
int Model::threads() const { return state_->program->target.threads; }
int64_t Model::weight_bytes() const {
  return staged() ? state_->siblings->weights().bytes() : state_->program->weight_bytes();
}
int64_t Model::memory_bytes() const {
  return staged() ? state_->staged->memory_bytes() : state_->program->arena_bytes;
}
const std::vector<std::string>& Model::notes() const { return state_->notes; }
std::string Model::report_json() const { return state_->report_json; }
std::string Model::report_html() const { return report::report_html(state_->report_json); }

void Model::save(const std::string& path) const {
  STRETTO_CHECK(state_->graph != nullptr, "{} is for other shapes and cannot be saved", name());
  for (const std::string& source : state_->sources) {
    if (!same_file(path, source)) continue;
    throw_invalid("save: {} is a file of the model that was optimised ({}); name another file",
                  path, source);
  }
  runtime::save_artefact(*state_, path);
}

namespace runtime {

namespace {

// The tuning cache and built-in order decide; `used` becomes what they decided.
std::shared_ptr<const Program> compile_anew(const Model::State& model,
                                            const kernels::Target& target,
                                            tune::TuningCache& used) {
  tune::TuningCache known = tune::TuningCache::shipped();
  known.merge(tune::load_tuning_cache(tune::tuning_cache_path()));
  known.merge(model.choices);
  Selector selector({.known = std::move(known)});
  SharedWeights* shared = model.siblings ? &model.siblings->weights() : nullptr;
  auto program =
      std::make_shared<Program>(compile(model.graph, target, selector, {.shared = shared}).program);
  used = selector.used();
  return program;
}

// The target of the file, changed where this machine or the caller demands another; `notes` says
// where.
kernels::Target usable_target(const ArtefactContent& content, const LoadOptions& options,
                              std::vector<std::string>& notes) {
  const kernels::Target& asked = content.target;
  kernels::Target target = asked;
  target.isa = usable_isa();
  if (target.isa != asked.isa || content.architecture != kernels::architecture()) {
    notes.push_back(fmt::format(
        "optimised for {} {}, compiled for this machine's {} {} when loaded; optimise it on this "
        "machine for its best speed",
        content.architecture, isa_name(asked.isa), kernels::architecture(), isa_name(target.isa)));
  }
  if (options.threads != 0) {
    target.threads = options.threads;
  } else if (const int cores = cpu_info().cores; asked.threads > cores) {
    target.threads = cores;
    notes.push_back(
        fmt::format("optimised for {} threads, runs with {}: this machine has {} "
                    "usable {}; optimise it on this machine for its best speed",
                    asked.threads, cores, cores, cores == 1 ? "core" : "cores"));
  }
  return target;
}

// Compiles with the file's choices: the same graph and the same choices give the same program, and
// its weights are already packed. Those in another form are packed anew.
std::shared_ptr<const Program> compile_with_blobs(const Model::State& model,
                                                  const ArtefactContent& content,
                                                  std::vector<std::string>& notes) {
  Selector selector({.known = model.choices});
  int other_forms = 0;
  const CompileOptions options{
      .packed =
          [&](const std::string& key, const std::string& form) {
            const auto at = std::lower_bound(
                content.blobs.begin(), content.blobs.end(), key,
                [](const Blob& blob, const std::string& k) { return blob.key < k; });
            if (at == content.blobs.end() || at->key != key) return Blob{};
            if (at->form == form) return *at;
            ++other_forms;
            return Blob{};
          },
      .packed_owner = content.owner,
      .shared = model.siblings ? &model.siblings->weights() : nullptr};
  const WithoutMeasuring start_at_once;
  auto program =
      std::make_shared<Program>(compile(model.graph, content.target, selector, options).program);
  if (other_forms > 0) {
    notes.push_back(
        fmt::format("{} of {} packed weights are in the layout of another version of Stretto and "
                    "were packed anew; save the model again to load it faster",
                    other_forms, program->blobs.size()));
  }
  return program;
}

Model make_model(ArtefactContent content, const LoadOptions& options) {
  auto state = std::make_shared<Model::State>();
  state->name = content.name;
  state->report_json = content.report_json;
  state->graph = content.graph;
  state->samples = content.samples;
  state->constant_inputs = content.constant_inputs;
  state->by_shape = content.by_shape;
  state->siblings = siblings_of(content.by_shape);
  const kernels::Target target = usable_target(content, options, state->notes);
  if (content.staged_source) {
    state->siblings = content.siblings;
    state->choices = content.choices;
    auto program = std::make_shared<Program>();
    program->target = target;
    program->inputs = content.inputs;
    program->outputs = content.outputs;
    state->program = std::move(program);
    state->staged = std::make_shared<Staged>(content.staged_source, content.staged_inputs,
                                             content.siblings, Staged::Options{.target = target});
    return Model(std::move(state));
  }
  if (content.architecture == kernels::architecture() && target.isa == content.target.isa &&
      target.threads == content.target.threads) {
    state->choices = content.choices;
    state->program = compile_with_blobs(*state, content, state->notes);
  } else {
    // The choices and packed weights in the file are for another target.
    state->program = compile_anew(*state, target, state->choices);
  }
  if (state->by_shape) state->by_shape->keep(state->program);
  if (content.preprocess) add_pictures(*state, *content.preprocess);
  return Model(std::move(state));
}

}  // namespace

void add_pictures(Model::State& state, const Preprocessing& how) {
  const Model tensors(std::make_shared<const Model::State>(state));
  state.pictures = make_pictures(how.steps, how.index, how.channels_last, tensors.inputs(),
                                 tensors.input_ranges());
}

std::shared_ptr<const Program> compile_for(const Model::State& model,
                                           const kernels::Target& target) {
  tune::TuningCache used;
  return compile_anew(model, target, used);
}

Model load_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                 const std::string& file, const LoadOptions& options, const MappedFile* map) {
  if (options.threads < 0 || options.threads > 1024) {
    throw_invalid("threads: expected 0 (as optimised) to 1024, got {}", options.threads);
  }
  usable_isa();  // what it throws is no fault of the file
  const auto compiled = [&](ArtefactContent content) {
    try {
      check_memory(*content.graph);
      Model model = make_model(std::move(content), options);
      if (!model.staged()) check_memory(*model.state().program);
      return model;
    } catch (const Unsupported& error) {
      throw Unsupported(fmt::format("{}: {}", file, error.what()));
    } catch (const std::logic_error& error) {
      // The graph passed every check, but no kernel or reference can run it.
      throw FormatError(file, -1, fmt::format("the model does not compile: {}", error.what()));
    }
  };
  Model model = compiled(read_artefact(bytes, std::move(owner), file, map));
  if (options.verify) {
    const Model::State& state = model.state();
    verify_samples(*state.graph, *state.program, state.samples, file);
  }
  return model;
}

}  // namespace runtime

namespace {

const runtime::Pictures& pictures_of(const Model& model) {
  const auto* pictures = model.state().pictures.get();
  if (pictures == nullptr) {
    throw_invalid("prepare: {} takes tensors; optimise it with preprocess to give it pictures",
                  model.name());
  }
  return *pictures;
}

}  // namespace

Tensor prepare(const Model& model, const Tensor& pictures) {
  const runtime::Pictures& how = pictures_of(model);
  const TensorSpec& taken = model.state().program->inputs[how.index];
  return runtime::prepared(*how.steps, how.channels_last, taken.dtype, pictures,
                           "input " + taken.name, model.threads());
}

Tensor prepare_file(const Model& model, const std::string& path) {
  const runtime::Pictures& how = pictures_of(model);
  const DType dtype = model.state().program->inputs[how.index].dtype;
  const runtime::GivenPicture file{.path = path};
  return runtime::prepared(*how.steps, how.channels_last, dtype, {&file, 1}, path, 1);
}

Tensor runtime::prepare_all(const Model& model, std::span<const GivenPicture> pictures) {
  const Pictures& how = pictures_of(model);
  const TensorSpec& taken = model.state().program->inputs[how.index];
  return prepared(*how.steps, how.channels_last, taken.dtype, pictures, "input " + taken.name,
                  model.threads());
}

Model load(const std::string& path, const LoadOptions& options) {
  const auto file = MappedFile::open(path);
  return runtime::load_bytes(file->bytes(), file, path, options, file.get());
}

std::string_view version() { return STRETTO_VERSION; }

}  // namespace stretto
