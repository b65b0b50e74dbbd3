#include "stretto/import/onnx/import.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "stretto/base/file.h"
#include "stretto/import/onnx/builder.h"
#include "stretto/import/onnx/consumer_sizes.h"
#include "stretto/import/onnx/external_data.h"
#include "stretto/import/onnx/inputs.h"
#include "stretto/import/onnx/pieces.h"
#include "stretto/ir/not_straight.h"

namespace stretto::onnx {
namespace {

namespace fs = std::filesystem;

// Operators that did not change from opset 1 to 7.
constexpr std::string_view kSinceOne[] = {"ArgMax",
                                          "ArgMin",
                                          "Constant",
                                          "Conv",
                                          "ConvTranspose",
                                          "DepthToSpace",
                                          "Flatten",
                                          "Gather",
                                          "GlobalAveragePool",
                                          "GlobalMaxPool",
                                          "Hardmax",
                                          "Identity",
                                          "LRN",
                                          "LogSoftmax",
                                          "LpNormalization",
                                          "MatMul",
                                          "MaxPool",
                                          "Not",
                                          "ReduceL1",
                                          "ReduceL2",
                                          "ReduceLogSum",
                                          "ReduceLogSumExp",
                                          "ReduceMax",
                                          "ReduceMean",
                                          "ReduceMin",
                                          "ReduceProd",
                                          "ReduceSum",
                                          "ReduceSumSquare",
                                          "Shape",
                                          "Size",
                                          "Slice",
                                          "Softmax",
                                          "Softplus",
                                          "Softsign",
                                          "SpaceToDepth",
                                          "Squeeze",
                                          "TopK",
                                          "Transpose",
                                          "Unsqueeze"};

bool all_since_one(const std::vector<WireNode>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(), [](const WireNode& node) {
    return node.domain.empty() &&
           std::find(std::begin(kSinceOne), std::end(kSinceOne), node.op) != std::end(kSinceOne);
  });
}

void check_opset(const Source& source, const WireModel& model, std::vector<std::string>& notes) {
  // Versions 1 and 2 of the format knew one operator set only.
  const int64_t opset = model.opsets.empty() ? 1 : default_opset(model.opsets, kNewestOpset);
  if (opset < kOldestOpset && !all_since_one(model.graph->nodes)) {
    throw_unsupported(
        "{}: opset {} is too old, {} is the oldest supported; convert it with ONNX's "
        "version converter or export it again",
        source.name, opset, kOldestOpset);
  }
  if (opset > kNewestOpset) {
    notes.push_back(
        fmt::format("opset {} is newer than {}, the newest known: operators are read as "
                    "in that one",
                    opset, kNewestOpset));
  }
}

std::string producer_of(const WireModel& model) {
  std::string producer(model.producer_name);
  if (!producer.empty() && !model.producer_version.empty()) producer += ' ';
  return producer.append(model.producer_version);
}

// Errors of inference name the node; here the file is added.
template <typename F>
void with_file_name(const Source& source, F&& f) {
  const auto named = [&](const std::string& text) {
    return text.starts_with(source.name) ? text : fmt::format("{}: {}", source.name, text);
  };
  try {
    f();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(named(error.what()));
  } catch (const ir::NotStraight& error) {
    throw ir::NotStraight(named(error.what()));
  } catch (const Unsupported& error) {
    throw Unsupported(named(error.what()));
  }
}

std::string_view view_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Those without an initialiser: the others are constants.
std::vector<DeclaredInput> declared_inputs(const Source& source, const WireGraph& graph,
                                           TensorReader& tensors) {
  std::vector<DeclaredInput> inputs;
  for (const WireInput& wire : fed_inputs(graph)) {
    DeclaredInput input{.name = std::string(wire.name)};
    input.is_tensor = wire.is_tensor && wire.type != DataType::kString;
    if (input.is_tensor) input.dtype = known_type(wire.type);
    if (wire.shape) {
      input.shape.emplace();
      for (const WireDimension& dimension : *wire.shape) {
        input.shape->push_back(is_open(dimension)
                                   ? DeclaredDimension{-1, std::string(symbol_of(dimension))}
                                   : DeclaredDimension{*dimension.value, ""});
      }
      fix_by_consumers(source, graph, tensors, input);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::set<std::string> names_of_constant_inputs(const WireGraph& graph) {
  std::set<std::string_view> constants;
  for (const WireTensor& tensor : graph.initializers) constants.insert(tensor.name);
  std::set<std::string> names;
  for (const WireInput& input : graph.inputs) {
    if (constants.contains(input.name)) names.emplace(input.name);
  }
  return names;
}

std::set<std::string> names_of(const std::map<std::string, Shape>& shapes) {
  std::set<std::string> names;
  for (const auto& [name, shape] : shapes) names.insert(name);
  return names;
}

}  // namespace

struct Reader::State {
  State(std::string name, std::string_view bytes, const std::string& folder,
        std::shared_ptr<const void> owner, std::vector<ExternalData> data = {})
      : owned(owner != nullptr),
        folder(folder),
        source{std::move(name), bytes},
        wire(read_model(source)),
        external(std::move(data)),
        tensors(source, folder, std::move(owner), external),
        inputs(declared_inputs(source, *wire.graph, tensors)) {}

  const bool owned;  // the bytes live as long as this object
  const std::string folder;
  const Source source;
  WireModel wire;
  const std::vector<ExternalData> external;  // that came with the bytes
  TensorReader tensors;
  std::string path;  // of a file
  std::vector<DeclaredInput> inputs;
  std::set<std::string> fed;  // names that feed() was given
};

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::~Reader() = default;

std::unique_ptr<Reader> Reader::of_file(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw FormatError(path, -1, "expected an ONNX file, this is a folder", EISDIR);
  }
  // Opening a pipe would wait for a writer.
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    throw FormatError(path, -1, "expected a regular file");
  }
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  file->read_ahead(bytes);
  const fs::path folder = fs::path(path).parent_path();
  auto state =
      std::make_unique<State>(path, view_of(bytes), folder.empty() ? "." : folder.string(), file);
  state->path = path;
  return std::unique_ptr<Reader>(new Reader(std::move(state)));
}

std::unique_ptr<Reader> Reader::of_bytes(std::span<const std::byte> bytes, const std::string& name,
                                         const std::string& folder) {
  std::unique_ptr<Reader> reader(
      new Reader(std::make_unique<State>(name, view_of(bytes), folder, nullptr)));
  if (reader->open()) reader->keep_bytes();
  return reader;
}

std::unique_ptr<Reader> Reader::of_memory(std::span<const std::byte> bytes,
                                          std::shared_ptr<const void> owner,
                                          const std::string& name, std::vector<ExternalData> data) {
  return std::unique_ptr<Reader>(new Reader(
      std::make_unique<State>(name, view_of(bytes), "", std::move(owner), std::move(data))));
}

std::span<const std::byte> Reader::bytes() const {
  return std::as_bytes(std::span(state_->source.bytes));
}

std::vector<ExternalData> Reader::external_data() {
  State& s = *state_;
  std::vector<ExternalData> all;
  for (const ExternalData& given : s.external) {
    all.push_back({.location = given.location, .offset = given.offset, .bytes = {}});
    all.back().bytes.add_views(given.bytes);
  }
  return s.external.empty() ? read_external_data(s.source, s.wire, s.tensors) : std::move(all);
}

void Reader::feed(const std::set<std::string>& names) {
  State& s = *state_;
  s.fed.insert(names.begin(), names.end());
  const std::set<std::string> constants = names_of_constant_inputs(*s.wire.graph);
  const auto fed = [&](std::string_view name) {
    return names.contains(std::string(name)) && constants.contains(std::string(name));
  };
  const size_t changed = std::erase_if(s.wire.graph->initializers,
                                       [&](const WireTensor& tensor) { return fed(tensor.name); });
  if (changed > 0) s.inputs = declared_inputs(s.source, *s.wire.graph, s.tensors);
}

std::vector<std::string> Reader::constant_inputs() const {
  constexpr int64_t kFirstVersionWithDefaults = 4;
  if (state_->wire.ir_version < kFirstVersionWithDefaults) return {};
  const std::set<std::string> names = names_of_constant_inputs(*state_->wire.graph);
  return {names.begin(), names.end()};
}

const std::vector<DeclaredInput>& Reader::inputs() const { return state_->inputs; }

bool Reader::open() const {
  return std::any_of(inputs().begin(), inputs().end(), [](const DeclaredInput& input) {
    return !input.shape || std::any_of(input.shape->begin(), input.shape->end(),
                                       [](const DeclaredDimension& d) { return d.size < 0; });
  });
}

void Reader::keep_bytes() {
  if (state_->owned) return;
  const std::span<const std::byte> from = bytes();
  const auto copy = allocate(from.size());
  std::memcpy(copy.get(), from.data(), from.size());
  const std::set<std::string> fed = state_->fed;
  state_ = std::make_unique<State>(state_->source.name, view_of({copy.get(), from.size()}),
                                   std::string(state_->folder), copy);
  feed(fed);
}

std::unique_ptr<Body> Reader::body() {
  keep_bytes();
  State& s = *state_;
  std::vector<std::string> notes;
  check_opset(s.source, s.wire, notes);
  return Body::of_model(s.source, s.wire, s.tensors);
}

ImportedModel Reader::describe() const {
  const State& s = *state_;
  ImportedModel model{.format = "onnx", .source = s.source.name};
  model.opset = default_opset(s.wire.opsets, model.opset);
  model.producer = producer_of(s.wire);
  // What writers call the graph ("main_graph") says less than what the user calls the file.
  model.graph.name = fs::path(s.source.name).stem().string();
  if (model.graph.name.empty()) model.graph.name = s.wire.graph->name;
  check_opset(s.source, s.wire, model.notes);
  if (s.wire.has_training_info) {
    model.notes.push_back("the training part of the model is ignored");
  }
  model.files = s.tensors.external_files();
  if (!s.path.empty()) model.files.push_back(s.path);
  model.constant_inputs = constant_inputs();
  return model;
}

ImportedModel Reader::import(const ImportOptions& options) {
  State& s = *state_;
  ImportedModel model = describe();
  model.files.clear();
  with_file_name(s.source, [&] {
    Builder(s.source, s.wire, s.tensors, model.graph).build(options, model.notes);
    ir::verify(model.graph);
    model.files = s.tensors.external_files();
  });
  if (!s.path.empty()) model.files.push_back(s.path);
  return model;
}

ImportedModel import_onnx_file(const std::string& path, const ImportOptions& options) {
  const auto reader = Reader::of_file(path);
  reader->feed(names_of(options.shapes));
  return reader->import(options);
}

ImportedModel import_onnx_bytes(std::span<const std::byte> bytes, const std::string& name,
                                const std::string& folder, const ImportOptions& options) {
  const auto reader = Reader::of_bytes(bytes, name, folder);
  reader->feed(names_of(options.shapes));
  return reader->import(options);
}

}  // namespace stretto::onnx
