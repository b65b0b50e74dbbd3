// stretto infer m.stretto --input x=data.npy -o out.npz, or --input photo.jpg --labels names.txt
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "model_options.h"
#include "npy.h"
#include "npz.h"
#include "pictures.h"
#include "stretto/base/file.h"
#include "table.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

struct InferFlags {
  ModelFlags model;
  std::string source, output, labels;
};

struct Summary {
  double low = std::numeric_limits<double>::infinity(), high = -low, mean = 0;
  int64_t high_at = 0, nan_count = 0;
};

Summary summarize(const Tensor& tensor) {
  Summary s;
  double sum = 0;
  const std::vector<double> values = tensor.as_doubles();
  for (size_t i = 0; i < values.size(); ++i) {
    s.nan_count += std::isnan(values[i]);
    s.low = std::fmin(s.low, values[i]);
    if (values[i] > s.high) {
      s.high = values[i];
      s.high_at = static_cast<int64_t>(i);
    }
    sum += values[i];
  }
  s.mean = sum / static_cast<double>(values.size());
  return s;
}

void print_table(const std::vector<TensorSpec>& specs, const std::vector<Tensor>& outputs) {
  Table table({"output", "dtype", "shape", ">min", ">mean", ">max", ">max at", ">NaN"});
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Summary s = summarize(outputs[i]);
    table.row({specs[i].name, std::string(dtype_name(outputs[i].dtype())),
               shape_text(outputs[i].shape()), fmt::format("{:.6g}", s.low),
               fmt::format("{:.6g}", s.mean), fmt::format("{:.6g}", s.high),
               fmt::format("{}", s.high_at), fmt::format("{}", s.nan_count)});
  }
  fmt::print("{}", table.text());
}

json table_json(const std::vector<TensorSpec>& specs, const std::vector<Tensor>& outputs) {
  json list = json::array();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Summary s = summarize(outputs[i]);
    list.push_back({{"name", specs[i].name},
                    {"dtype", dtype_name(outputs[i].dtype())},
                    {"shape", outputs[i].shape()},
                    {"min", s.low},
                    {"mean", s.mean},
                    {"max", s.high},
                    {"max_at", s.high_at},
                    {"nan_count", s.nan_count}});
  }
  return list;
}

void save(const std::string& path, const std::vector<TensorSpec>& specs,
          const std::vector<Tensor>& outputs) {
  if (path.ends_with(".npy")) {
    write_file(path, npy_bytes(outputs[0]));
    return;
  }
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t i = 0; i < outputs.size(); ++i) named.emplace_back(specs[i].name, outputs[i]);
  write_npz(path, named);
}

// An ONNX file's inputs were looked at by optimize(), which has said the same.
void note_rounded(const Talk& talk, const Model& model,
                  const std::map<std::string, Tensor>& given) {
  for (const TensorSpec& spec : model.inputs()) {
    const auto at = given.find(spec.name);
    if (at != given.end() && at->second.dtype() != spec.dtype) {
      talk.note(fmt::format("input {}: {} was rounded to {}", spec.name,
                            dtype_name(at->second.dtype()), dtype_name(spec.dtype)));
    }
  }
}

// The outputs for arrays, which have to be there for every input.
std::vector<Tensor> run_on_arrays(const Model& model, const InferFlags& flags,
                                  const std::map<std::string, Tensor>& given, const Talk& talk) {
  std::vector<std::string> made_up;
  const std::vector<Tensor> inputs = arrange_inputs(model, given, &made_up);
  if (!made_up.empty()) {
    const bool picture = model.inputs().size() == 1 && !model.preprocess().empty();
    std::string pairs;
    for (const std::string& name : made_up) pairs += " --input " + name + "=file.npy";
    throw_invalid("infer: inputs are missing; add{}{}", pairs,
                  picture ? ", or --input photo.jpg" : "");
  }
  if (!flags.source.ends_with(".onnx")) note_rounded(talk, model, given);
  Session session(model);
  return session.run(inputs);
}

int run_infer(const Command& command, InferFlags flags, const Talk& talk) {
  if (!flags.source.ends_with(".onnx")) warn_if_optimized(talk, command, flags.source);
  constexpr std::string_view kEndings[] = {".npz", ".npy"};
  const NamedFile output{"-o", flags.output};
  check_ending(output, kEndings);
  const Photos photos = take_photos(flags.model.inputs);
  std::vector<NamedFile> read = input_files(flags.source, flags.model);
  for (const std::string& path : photos.paths) read.push_back({"--input", path});
  read.push_back({"--labels", flags.labels});
  check_outputs({&output, 1}, read);
  const std::vector<std::string> labels = read_labels(flags.labels);
  OptimizeOptions o = options(flags.model);
  if (!photos.paths.empty() && !o.inputs.empty()) {
    throw_invalid("infer: --input {}: photos are the only input, and arrays are given besides",
                  photos.paths[0]);
  }
  o.profile = false;
  const Model model = open_model(flags.source, o, talk);
  if (flags.output.ends_with(".npy") && model.outputs().size() != 1) {
    throw_invalid("-o {}: the model has {} outputs; name an .npz file", flags.output,
                  model.outputs().size());
  }
  const std::vector<Tensor> outputs = photos.paths.empty()
                                          ? run_on_arrays(model, flags, o.inputs, talk)
                                          : run_on_photos(model, photos);
  std::vector<std::vector<Class>> classes;
  if (has_classes(outputs) && (!photos.paths.empty() || !labels.empty())) {
    classes = best_classes(outputs, labels);
  } else if (!labels.empty()) {
    throw_invalid("--labels: output {} holds no scores of classes: it is {} of shape {}",
                  model.outputs()[0].name, dtype_name(outputs[0].dtype()),
                  shape_text(outputs[0].shape()));
  }
  if (!flags.output.empty()) save(flags.output, model.outputs(), outputs);
  if (talk.json) {
    json result{{"outputs", table_json(model.outputs(), outputs)},
                {"wrote", flags.output.empty() ? json() : json(flags.output)}};
    add_classes(result, classes, photos);
    print_json(result);
    return kOk;
  }
  if (!classes.empty()) print_classes(classes, photos);
  print_table(model.outputs(), outputs);
  if (!flags.output.empty()) fmt::print("wrote {}\n", flags.output);
  return kOk;
}

}  // namespace

std::function<int()> set_up_infer(Command& command, const Context& context) {
  auto flags = std::make_shared<InferFlags>();
  add_option(command, "source", &flags->source, "FILE",
             "An artefact, or an ONNX file to optimise first", {.required = true});
  add_option(command, "-o,--output", &flags->output, "FILE",
             "Write the outputs here: out.npz or out.npy", {.group = "Output"});
  add_input_flags(command, flags->model);
  add_option(command, "--labels", &flags->labels, "FILE",
             "Names of the classes, one per line, for the five best of each picture",
             {.group = "Input"});
  add_lengths_flag(command, flags->model);
  add_preprocess_flag(command, flags->model);
  add_threads_flag(command, flags->model);
  add_tuning_flags(command, flags->model);
  return [&command, flags, talk = context.talk] { return run_infer(command, *flags, *talk); };
}

}  // namespace stretto::cli
