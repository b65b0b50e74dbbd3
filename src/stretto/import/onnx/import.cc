#include "stretto/import/onnx/import.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "stretto/base/file.h"
#include "stretto/import/onnx/builder.h"

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
  } catch (const Unsupported& error) {
    throw Unsupported(named(error.what()));
  }
}

ImportedModel import_source(const Source& source, const std::string& folder,
                            std::shared_ptr<const void> owner, const ImportOptions& options) {
  const WireModel wire = read_model(source);
  ImportedModel model{.format = "onnx", .source = source.name};
  model.opset = default_opset(wire.opsets, model.opset);
  model.producer = producer_of(wire);
  // What writers call the graph ("main_graph") says less than what the user calls the file.
  model.graph.name = fs::path(source.name).stem().string();
  if (model.graph.name.empty()) model.graph.name = wire.graph->name;
  check_opset(source, wire, model.notes);
  if (wire.has_training_info) model.notes.push_back("the training part of the model is ignored");
  with_file_name(source, [&] {
    TensorReader tensors(source, folder, std::move(owner));
    Builder(source, wire, tensors, model.graph).build(options, model.notes);
    ir::verify(model.graph);
    model.files = tensors.external_files();
  });
  return model;
}

}  // namespace

ImportedModel import_onnx_file(const std::string& path, const ImportOptions& options) {
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
  const Source source{path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  const fs::path folder = fs::path(path).parent_path();
  ImportedModel model =
      import_source(source, folder.empty() ? "." : folder.string(), file, options);
  model.files.push_back(path);
  return model;
}

ImportedModel import_onnx_bytes(std::span<const std::byte> bytes, const std::string& name,
                                const std::string& folder, const ImportOptions& options) {
  const Source source{name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  return import_source(source, folder, nullptr, options);
}

}  // namespace stretto::onnx
