#include "stretto/runtime/artefact.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/limits.h"
#include "stretto/ir/serialize.h"
#include "stretto/kernels/packing.h"
#include "stretto/passes/pipeline.h"
#include "stretto/runtime/artefact_file.h"
#include "stretto/runtime/lengths.h"
#include "stretto/runtime/memory_check.h"
#include "stretto/runtime/stored_model.h"

namespace stretto::runtime {
namespace {

using nlohmann::json;

json target_json(const kernels::Target& target) {
  return {{"architecture", kernels::architecture()},
          {"isa", isa_name(target.isa)},
          {"accuracy", kernels::accuracy_name(target.accuracy)},
          {"threads", target.threads}};
}

kernels::Target parse_target(const json& j) {
  // Wide enough that nothing that is too large becomes small.
  const auto threads = j.at("threads").get<int64_t>();
  if (threads < 1 || threads > 1024) throw_invalid("{} threads", threads);
  return {.isa = parse_isa(j.at("isa").get<std::string>()),
          .accuracy = kernels::parse_accuracy(j.at("accuracy").get<std::string>()),
          .threads = static_cast<int32_t>(threads)};
}

// Far deeper than what Stretto writes. Printing JSON recurses once per level, so a file must not
// choose the depth.
constexpr int kMaxNesting = 100;

void check_nesting(std::string_view what, std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxNesting)
        throw_invalid("the {} is nested deeper than {} lists", what, kMaxNesting);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

// Adds the model to the constants, and to `json` where it lies in them.
void store_model(StoredModel model, json& json, Pieces& constants) {
  const auto place = [&](auto& at, Pieces bytes) {
    constants.align(kAlignment);
    at["offset"] = constants.size();
    at["bytes"] = bytes.size();
    constants.add(std::move(bytes));
  };
  place(json, std::move(model.onnx));
  for (onnx::ExternalData& data : model.data) {
    auto& at = json["data"].emplace_back();
    at = {{"location", data.location}, {"from", data.offset}};
    place(at, std::move(data.bytes));
  }
}

// The other way round; `owner` keeps the constants.
std::unique_ptr<onnx::Reader> read_model(const json& json, const SectionView& constants,
                                         std::shared_ptr<const void> owner,
                                         const std::string& name) {
  const auto part = [&](const auto& at, std::string_view what) {
    const auto offset = at.at("offset").template get<uint64_t>();
    const auto size = at.at("bytes").template get<uint64_t>();
    const size_t limit = constants.bytes.size();
    if (offset > limit || size > limit - offset) throw_invalid("{} outside", what);
    return constants.bytes.subspan(offset, size);
  };
  std::vector<onnx::ExternalData> data;
  if (json.contains("data")) {
    for (const auto& at : json.at("data")) {
      const auto bytes = part(at, "weights of the ONNX model lie");
      data.push_back({.location = at.at("location").template get<std::string>(),
                      .offset = at.at("from").template get<uint64_t>(),
                      .bytes = {}});
      data.back().bytes.add_view(bytes);
    }
  }
  return onnx::Reader::of_memory(part(json, "the ONNX model lies"), std::move(owner), name,
                                 std::move(data));
}

// A model with open dimensions is stored as it came, because its graph is another one for every
// shape.
json open_json(ProgramsByShape& by_shape, const Program& program, Pieces& constants) {
  json inputs = json::array();
  for (size_t i = 0; i < by_shape.inputs().size(); ++i) {
    const OpenInput& input = by_shape.inputs()[i];
    inputs.push_back({{"name", input.name},
                      {"range", shape_range_text(input.shape)},
                      {"first", program.inputs[i].shape}});
  }
  json open{{"inputs", std::move(inputs)}, {"disabled", by_shape.siblings().making().disabled}};
  if (!by_shape.lengths().empty()) open["lengths"] = by_shape.lengths();
  store_model(by_shape.source().stored(), open, constants);
  return open;
}

// Names of what is no tensor of numbers; the type of others.
std::string type_text(const TensorSpec& spec) {
  return spec.other.empty() ? std::string(dtype_name(spec.dtype)) : spec.other;
}

json face_json(const std::vector<TensorSpec>& specs) {
  json list = json::array();
  for (const TensorSpec& spec : specs) {
    list.push_back({{"name", spec.name}, {"dtype", type_text(spec)}, {"shape", spec.shape}});
  }
  return list;
}

std::vector<TensorSpec> read_face(const json& list) {
  std::vector<TensorSpec> specs;
  for (const json& one : list) {
    TensorSpec spec{one.at("name").get<std::string>(), DType::kUndefined,
                    one.at("shape").get<Shape>()};
    const auto type = one.at("dtype").get<std::string>();
    if (type == "strings" || type == "sequence" || type == "optional") {
      spec.other = type;
    } else if (type != dtype_name(DType::kUndefined)) {
      spec.dtype = parse_dtype(type);
    }
    if (spec.shape.size() > ir::kMaxRank) throw_invalid("{} has too many dimensions", spec.name);
    specs.push_back(std::move(spec));
  }
  return specs;
}

// A model that runs in stages is stored as it came, too.
json staged_json(const Model::State& model, Pieces& constants) {
  json ranges = json::array();
  for (const StagedInput& input : model.staged->inputs()) {
    ranges.push_back(input.shape ? json(shape_range_text(*input.shape)) : json(nullptr));
  }
  json staged{{"inputs", face_json(model.program->inputs)},
              {"outputs", face_json(model.program->outputs)},
              {"ranges", std::move(ranges)},
              {"disabled", model.siblings->making().disabled}};
  StagedSource& source = *model.staged->source();
  const std::lock_guard lock(source.mutex);
  store_model(stored_model(*source.reader), staged, constants);
  return staged;
}

void read_staged(const json& staged, const SectionView& constants,
                 std::shared_ptr<const void> owner, ArtefactContent& content) {
  std::shared_ptr<onnx::Reader> reader =
      read_model(staged, constants, std::move(owner), content.name + ".onnx");
  content.inputs = read_face(staged.at("inputs"));
  std::set<std::string> names;
  for (const TensorSpec& input : content.inputs) names.insert(input.name);
  reader->feed(names);
  content.staged_source = std::make_shared<StagedSource>(std::move(reader));
  const onnx::Body& body = *content.staged_source->body;
  content.outputs = read_face(staged.at("outputs"));
  const json& ranges = staged.at("ranges");
  if (content.inputs.size() != body.inputs().size() || ranges.size() != content.inputs.size() ||
      content.outputs.size() != body.outputs().size()) {
    throw_invalid("other inputs or outputs than the model");
  }
  content.graph = std::make_shared<ir::Graph>();
  content.graph->name = content.name;
  for (size_t i = 0; i < content.inputs.size(); ++i) {
    const TensorSpec& spec = content.inputs[i];
    if (spec.name != body.inputs()[i].name) throw_invalid("input {} has another name", i);
    StagedInput input{.name = spec.name, .is_tensor = spec.other.empty(), .dtype = spec.dtype};
    if (input.is_tensor) {
      element_count(spec.shape);
      const onnx::WireInput& wire = body.inputs()[i];
      if (onnx::element_type(body.source(), wire.type, "input", wire.position) != spec.dtype) {
        throw_invalid("input {} has another type", spec.name);
      }
      if (ranges[i].is_string()) {
        input.shape = parse_shape_range(ranges[i].get<std::string>());
        ir::Graph& graph = *content.graph;
        graph.inputs.push_back(graph.add_value(spec.name, spec.dtype, spec.shape));
      }
    }
    content.staged_inputs.push_back(std::move(input));
  }
  content.siblings = std::make_shared<Siblings>();
  content.siblings->set_making({.disabled = staged.at("disabled").get<std::set<std::string>>(),
                                .forced = {},
                                .known = content.choices});
}

Preprocessing read_preprocess(const json& j) {
  const json &input = j.at("input"), &layout = j.at("layout");
  if (!input.is_number_unsigned()) throw_invalid("preprocess: input {}", input.dump());
  if (layout != "NCHW" && layout != "NHWC") throw_invalid("preprocess: layout {}", layout.dump());
  return {.steps = j.at("steps").get<std::string>(),
          .index = input.get<size_t>(),
          .channels_last = layout == "NHWC"};
}

// The other way round: the graph of the first shapes is made again.
void read_open(const json& open, const SectionView& constants, std::shared_ptr<const void> owner,
               ArtefactContent& content) {
  std::shared_ptr<onnx::Reader> reader =
      read_model(open, constants, std::move(owner), content.name + ".onnx");
  std::vector<OpenInput> inputs;
  std::vector<Shape> first;
  std::set<std::string> names;
  for (const json& input : open.at("inputs")) {
    inputs.push_back({.name = input.at("name").get<std::string>(),
                      .shape = parse_shape_range(input.at("range").get<std::string>())});
    first.push_back(input.at("first").get<Shape>());
    names.insert(inputs.back().name);
  }
  reader->feed(names);
  const std::string lengths = open.value("lengths", "");
  content.by_shape = std::make_shared<ProgramsByShape>(inputs, onnx_source(reader), lengths);
  content.by_shape->check(first);
  const auto disabled = open.at("disabled").get<std::set<std::string>>();
  content.graph = std::make_shared<ir::Graph>(content.by_shape->import(first).graph);
  if (content.graph->inputs.size() != inputs.size()) throw_invalid("other inputs than the model");
  if (!lengths.empty()) find_mask(lengths, input_specs(*content.graph));
  check_memory(*content.graph);
  passes::run_pipeline(*content.graph,
                       {.disabled = disabled, .derived = &content.by_shape->siblings().derived()});
  content.by_shape->siblings().set_making({.disabled = disabled, .known = content.choices});
}

}  // namespace

void save_artefact(const Model::State& model, const std::string& path) {
  const Program& program = *model.program;
  Pieces constants, packed;
  json description{{"stretto", STRETTO_VERSION},
                   {"name", model.name},
                   {"target", target_json(program.target)},
                   {"choices", model.choices.text()},
                   {"samples", samples_json(model.samples, constants)}};
  if (model.staged) {
    description["staged"] = staged_json(model, constants);
  } else if (model.by_shape) {
    description["open"] = open_json(*model.by_shape, program, constants);
  } else {
    description["graph"] = ir::write_graph(*model.graph, constants);
  }
  if (!model.constant_inputs.empty()) {
    description["constant_inputs"] = model.constant_inputs;
  }
  if (model.pictures) {
    description["preprocess"] = {{"input", model.pictures->index},
                                 {"layout", model.pictures->channels_last ? "NHWC" : "NCHW"},
                                 {"steps", model.pictures->text}};
  }
  json blobs = json::array();
  for (const Blob& blob : program.blobs) {
    if (blob.key.empty()) continue;
    packed.align(kAlignment);
    blobs.push_back({blob.key, blob.form, packed.size(), blob.bytes});
    packed.add_view({blob.data, static_cast<size_t>(blob.bytes)});
  }
  description["blobs"] = std::move(blobs);
  // Sections begin on pages, so that the mapped weights are aligned for any vector.
  Pieces description_text, report;
  description_text.add(description.dump());
  report.add(model.report_json);
  write_file(path, arrange_artefact({description_text, constants, packed, report}).views());
}

ArtefactContent read_artefact(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              const std::string& file, const MappedFile* map) {
  const ArtefactView sections = open_artefact(bytes, file, map);
  ArtefactContent content;
  content.owner = owner;
  const auto text = [](const SectionView& section) {
    return std::string_view(reinterpret_cast<const char*>(section.bytes.data()),
                            section.bytes.size());
  };
  try {
    check_nesting("description", text(sections.description));
    check_nesting("report", text(sections.report));
    const json description = json::parse(text(sections.description));
    description.at("stretto").get<std::string>();  // for people, but it must be there
    content.name = description.at("name").get<std::string>();
    content.report_json = text(sections.report);
    if (!content.report_json.starts_with('{') || !json::accept(content.report_json)) {
      throw FormatError(file, sections.report.offset, "the report is no JSON object");
    }
    content.target = parse_target(description.at("target"));
    content.architecture = description.at("target").at("architecture").get<std::string>();
    content.choices = tune::TuningCache::parse(description.at("choices").get<std::string>(), file);
    if (description.contains("staged")) {
      read_staged(description.at("staged"), sections.constants, owner, content);
    } else if (description.contains("open")) {
      read_open(description.at("open"), sections.constants, owner, content);
    } else {
      content.graph = std::make_shared<ir::Graph>(
          ir::read_graph(description.at("graph"), sections.constants.bytes, owner, file));
    }
    if (description.contains("constant_inputs")) {
      content.constant_inputs = description.at("constant_inputs").get<std::vector<std::string>>();
    }
    if (description.contains("preprocess")) {
      if (content.staged_source) throw_invalid("preprocess: a model in stages takes tensors");
      content.preprocess = read_preprocess(description.at("preprocess"));
    }
    content.samples = read_samples(description.at("samples"), *content.graph,
                                   sections.constants.bytes, owner, file);
    for (const json& b : description.at("blobs")) {
      if (!b.at(2).is_number_unsigned() || !b.at(3).is_number_unsigned()) {
        throw_invalid("blobs: expected key, form, offset and size, found {}", b.dump());
      }
      const auto offset = b.at(2).get<uint64_t>(), size = b.at(3).get<uint64_t>();
      const size_t limit = sections.packed.bytes.size();
      if (offset % kAlignment != 0 || offset > limit || size > limit - offset) {
        throw FormatError(file, sections.packed.offset, "packed weights lie outside their section");
      }
      content.blobs.push_back({b.at(0).get<std::string>(), b.at(1).get<std::string>(),
                               sections.packed.bytes.data() + offset, static_cast<int64_t>(size)});
    }
  } catch (const FormatError&) {
    throw;
  } catch (const std::exception& error) {
    throw FormatError(file, sections.description.offset,
                      fmt::format("the description is malformed: {}", error.what()));
  }
  std::sort(content.blobs.begin(), content.blobs.end(),
            [](const Blob& a, const Blob& b) { return a.key < b.key; });
  return content;
}

}  // namespace stretto::runtime
