#include <algorithm>
#include <nlohmann/json.hpp>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/report/report.h"
#include "stretto/runtime/artefact.h"
#include "stretto/runtime/compile.h"
#include "stretto/runtime/memory_check.h"
#include "stretto/runtime/model_state.h"
#include "stretto/stretto.h"

namespace stretto {

const std::string& Model::name() const { return state_->name; }
const std::vector<TensorSpec>& Model::inputs() const { return state_->program->inputs; }
const std::vector<TensorSpec>& Model::outputs() const { return state_->program->outputs; }
int Model::threads() const { return state_->program->target.threads; }
int64_t Model::weight_bytes() const { return state_->program->weight_bytes(); }
int64_t Model::memory_bytes() const { return state_->program->arena_bytes; }
std::string Model::report_json() const { return state_->report_json; }
std::string Model::report_html() const { return report::report_html(state_->report_json); }

void Model::save(const std::string& path) const { runtime::save_artefact(*state_, path); }

namespace runtime {

std::shared_ptr<const Program> compile_for(const Model::State& model,
                                           const kernels::Target& target) {
  tune::Record record = tune::Record::shipped();
  record.merge(tune::Record::load(tune::Record::default_path()));
  record.merge(model.choices);
  Selector selector({.record = std::move(record)});
  return std::make_shared<Program>(compile(model.graph, target, selector, {}).program);
}

namespace {

Model make_model(ArtefactContent content) {
  auto state = std::make_shared<Model::State>();
  state->name = std::move(content.name);
  state->report_json = std::move(content.report_json);
  state->graph = std::move(content.graph);
  state->choices = std::move(content.choices);
  kernels::Target target = content.target;
  const Isa usable = usable_isa();
  if (target.isa != usable) {
    // Made for another instruction set: compile the graph for this one, all cores of the request.
    target.isa = usable;
    state->program = compile_for(*state, target);
    return Model(std::move(state));
  }
  // The same graph and the same choices give the same program; its weights are already packed.
  Selector selector({.record = state->choices});
  const CompileOptions options{
      .packed =
          [&](const std::string& key) {
            const auto at = std::lower_bound(
                content.blobs.begin(), content.blobs.end(), key,
                [](const Blob& blob, const std::string& k) { return blob.key < k; });
            return at != content.blobs.end() && at->key == key ? *at : Blob{};
          },
      .packed_owner = content.owner};
  state->program =
      std::make_shared<Program>(compile(state->graph, target, selector, options).program);
  return Model(std::move(state));
}

}  // namespace

Model load_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                 const std::string& file, const MappedFile* map) {
  ArtefactContent content = read_artefact(bytes, std::move(owner), file, map);
  try {
    check_memory(*content.graph);
    Model model = make_model(std::move(content));
    check_memory(*model.state().program);
    return model;
  } catch (const Unsupported& error) {
    throw Unsupported(fmt::format("{}: {}", file, error.what()));
  } catch (const std::logic_error& error) {
    // The graph passed every check of its own and still does not describe what kernels can do.
    throw FormatError(file, -1, fmt::format("the model does not compile: {}", error.what()));
  }
}

}  // namespace runtime

Model load(const std::string& path) {
  const auto file = MappedFile::open(path);
  return runtime::load_bytes(file->bytes(), file, path, file.get());
}

std::string_view version() { return STRETTO_VERSION; }

}  // namespace stretto
