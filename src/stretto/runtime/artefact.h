// The artefact: one memory-mapped file that holds a compiled model (docs/formats/artefact.md).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/file.h"
#include "stretto/runtime/model_state.h"
#include "stretto/tune/tuning_cache.h"

namespace stretto::runtime {

// Writes header, graph, constants, kernel choices, packed weights and report. Throws FormatError.
void save_artefact(const Model::State& model, const std::string& path);

// What a file says before anything is compiled from it.
struct ArtefactContent {
  std::string name, report_json;
  std::shared_ptr<ir::Graph> graph;
  std::shared_ptr<ProgramsByShape> by_shape;  // null: all dimensions are fixed
  // Instead of `graph`: of a model that runs in stages.
  std::shared_ptr<StagedSource> staged_source;
  std::vector<StagedInput> staged_inputs;
  std::vector<TensorSpec> inputs, outputs;
  std::shared_ptr<Siblings> siblings;
  std::vector<std::string> constant_inputs;  // Model::State
  std::string architecture;
  kernels::Target target;
  tune::TuningCache choices;
  std::optional<Preprocessing> preprocess;  // of a model that takes pictures
  Samples samples;
  std::vector<Blob> blobs;  // sorted by key
  std::shared_ptr<const void> owner;
};

// Checks sizes and checksums and reads everything but the weights' meaning. `bytes` stay referenced
// by the result and are kept alive by `owner`; `map` as for open_artefact. Throws FormatError
// naming `file`, offset and expectation.
ArtefactContent read_artefact(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              const std::string& file, const MappedFile* map = nullptr);

}  // namespace stretto::runtime
