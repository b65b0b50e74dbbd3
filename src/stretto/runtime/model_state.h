// What a stretto::Model holds.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "stretto/base/file.h"
#include "stretto/runtime/pictures.h"
#include "stretto/runtime/program.h"
#include "stretto/runtime/programs_by_shape.h"
#include "stretto/runtime/samples.h"
#include "stretto/runtime/staged.h"
#include "stretto/stretto.h"
#include "stretto/tune/tuning_cache.h"

namespace stretto {

namespace runtime {

struct StateLayout;

// What contexts have found out about a model, by the pairs that their callers named.
struct StateLayouts {
  std::mutex mutex;
  std::map<std::map<std::string, std::string>, std::shared_ptr<const StateLayout>> by_pairs;
};

}  // namespace runtime

struct Model::State {
  std::string name;
  std::shared_ptr<const runtime::Program> program;
  // The optimised graph, from which programs for other thread counts and instruction sets are
  // compiled.
  std::shared_ptr<ir::Graph> graph;
  // Where dimensions are open; null when all are fixed.
  std::shared_ptr<runtime::ProgramsByShape> by_shape;
  // Of a model that runs in stages: all that runs. `program` then has only inputs and outputs, and
  // `graph` only inputs.
  std::shared_ptr<runtime::Staged> staged;
  // Of a model that can be had for other shapes: in `by_shape`, or for whoever makes the graphs.
  std::shared_ptr<runtime::Siblings> siblings;
  // Of a model that takes pictures: what comes before the program, whose inputs are tensors. Else
  // null.
  std::shared_ptr<const runtime::Pictures> pictures;
  tune::TuningCache choices;  // of every problem considered: layouts and kernels follow from them
  std::string report_json;
  runtime::Samples samples;        // for LoadOptions::verify
  std::vector<std::string> notes;  // see Model::notes
  std::shared_ptr<runtime::StateLayouts> layouts = std::make_shared<runtime::StateLayouts>();
  // Inputs of the ONNX file that became constants (ImportedModel), for messages.
  std::vector<std::string> constant_inputs;
  // Absolute paths of the files that optimize() read: nothing may be saved to them.
  std::vector<std::string> sources;
};

namespace runtime {

// What an artefact says of a model that takes pictures.
struct Preprocessing {
  std::string steps;
  size_t index = 0;  // of the input
  bool channels_last = false;
};

// Makes a model that takes tensors, and is whole, one that takes pictures. Throws what
// make_pictures() throws.
void add_pictures(Model::State& state, const Preprocessing& how);

// stretto::prepare() of several pictures, which the model's threads share.
Tensor prepare_all(const Model& model, std::span<const GivenPicture> pictures);

// A program for `target` compiled from the model's graph without measuring: from tuning caches and
// the built-in order.
std::shared_ptr<const Program> compile_for(const Model::State& model,
                                           const kernels::Target& target);

// A model from the bytes of an artefact, which `owner` keeps alive; `map` when they are one. Throws
// FormatError naming `file`.
Model load_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                 const std::string& file, const LoadOptions& options = {},
                 const MappedFile* map = nullptr);

}  // namespace runtime
}  // namespace stretto
