#include "model_options.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "npz.h"
#include "progress.h"
#include "stretto/runtime/model_state.h"
#include "stretto/runtime/sample_inputs.h"
#include "table.h"

namespace stretto::cli {
namespace {

void check_once(std::string_view flag, const std::string& name, std::set<std::string>& seen) {
  if (!seen.insert(name).second) throw_invalid("{}: {} is given twice", flag, name);
}

}  // namespace

void add_input_flags(Command& command, ModelFlags& flags) {
  const char* const group = "Input";
  add_option(command, "--shape", &flags.shapes, "NAME=SHAPE",
             "Shape of an input that the file leaves open: x=1x3x8x8, or a range: x=1..8x3x8x8",
             {.group = group});
  add_option(command, "--input", &flags.inputs, "NAME=FILE",
             "Data for an input: x=data.npy, or x=photo.jpg where it takes pictures",
             {.group = group});
  add_option(command, "--inputs", &flags.inputs_file, "FILE", "Data for all inputs: data.npz",
             {.group = group});
}

void add_lengths_flag(Command& command, ModelFlags& flags) {
  add_option(command, "--lengths", &flags.lengths, "NAME",
             "Input [batch, length] that is 1 for tokens and 0 for padding: work on tokens only",
             {.group = "Input"});
}

void add_preprocess_flag(Command& command, ModelFlags& flags) {
  add_option(command, "--preprocess", &flags.preprocess, "STEPS",
             "Steps by which the model takes pictures: 'imagenet(224)', 'letterbox(640)'",
             {.group = "Input"});
}

void add_threads_flag(Command& command, ModelFlags& flags) {
  add_option(command, "--threads", &flags.threads, "N",
             "Threads to run with; 0: one per core this process may use",
             {.group = "Tuning", .range = Range{0, 1024}});
}

void add_disable_flag(Command& command, ModelFlags& flags) {
  add_option(command, "--disable", &flags.disabled, "PASS,...",
             "Passes or rules not to apply; 'stretto inspect --passes' lists them",
             {.group = "Tuning"});
}

void add_tuning_flags(Command& command, ModelFlags& flags) {
  const char* const group = "Tuning";
  add_option(command, "--tuning", &flags.tuning, "off|quick|full|SECONDS",
             "How long to search for the fastest kernels", {.group = group, .show_default = true});
  add_option(command, "--tuning-cache", &flags.tuning_cache, "FILE|none",
             "Tuning cache to use instead of the user's own; none: no file", {.group = group});
  add_disable_flag(command, flags);
  add_option(command, "--force", &flags.forced, "NAME=KERNEL,...",
             "Kernel to use for an operator family (conv2d=direct) or a node", {.group = group});
  add_option(command, "--accuracy", &flags.accuracy, "strict|default|fast",
             "strict: rounding errors of plain fp32 sums. default: also Winograd F(4,3) "
             "and Strassen's products. fast: also Winograd F(6,3)",
             {.group = "Accuracy", .show_default = true});
  add_option(command, "--level", &flags.level, "lossless",
             "How far the numbers may change: lossless keeps fp32 throughout",
             {.group = "Accuracy", .show_default = true});
  add_flag(command, "--no-verify", &flags.no_verify,
           "Do not compare the outputs with the reference", {.group = "Accuracy"});
}

void warn_if_optimized(const Talk& talk, const Command& command, const std::string& source) {
  warn_without_effect(talk, command,
                      {"--shape", "--lengths", "--preprocess", "--tuning", "--tuning-cache",
                       "--disable", "--force", "--accuracy", "--level", "--no-verify"},
                      source + " is already optimised");
}

std::pair<std::string, std::string> split_pair(std::string_view flag, const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw_invalid("{}: expected name=value, got '{}'", flag, text);
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

bool is_picture(std::string_view path) {
  std::string lower(path);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::string_view kEndings[] = {".jpg", ".jpeg", ".png", ".webp"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view end) { return lower.ends_with(end); });
}

Tensor read_picture(const std::string& path) { return runtime::read_picture_file(path); }

std::map<std::string, Tensor> read_inputs(const std::vector<std::string>& pairs,
                                          const std::string& file) {
  std::map<std::string, Tensor> inputs;
  std::set<std::string> seen;
  for (const std::string& pair : pairs) {
    check_once("--input", split_pair("--input", pair).first, seen);
  }
  if (!file.empty()) inputs = read_npz(file);
  for (const std::string& pair : pairs) {
    const auto [name, path] = split_pair("--input", pair);
    inputs[name] = is_picture(path) ? read_picture(path) : read_npy(path);
  }
  return inputs;
}

std::vector<NamedFile> input_files(const std::string& source, const ModelFlags& flags) {
  std::vector<NamedFile> files{{"the model", source}, {"--inputs", flags.inputs_file}};
  for (const std::string& pair : flags.inputs) {
    files.push_back({"--input", split_pair("--input", pair).second});
  }
  if (flags.tuning_cache != "none") files.push_back({"--tuning-cache", flags.tuning_cache});
  return files;
}

std::string summary_line(const Model& model) {
  return fmt::format("{}: {} thread{}, weights {}, memory {}\n", model.name(), model.threads(),
                     model.threads() == 1 ? "" : "s",
                     mebibytes(static_cast<double>(model.weight_bytes())),
                     mebibytes(static_cast<double>(model.memory_bytes())));
}

OptimizeOptions options(const ModelFlags& flags) {
  OptimizeOptions o;
  o.level = flags.level;
  o.accuracy = flags.accuracy;
  o.tuning = flags.tuning;
  o.lengths = flags.lengths;
  o.preprocess = flags.preprocess;
  o.threads = flags.threads;
  o.tuning_cache = flags.tuning_cache;
  o.verify = !flags.no_verify;
  o.disable.insert(flags.disabled.begin(), flags.disabled.end());
  std::set<std::string> shaped, forced_names;
  for (const std::string& shape : flags.shapes) {
    const auto [name, dims] = split_pair("--shape", shape);
    check_once("--shape", name, shaped);
    const ShapeRange range = parse_shape_range(dims);
    if (!is_fixed(range)) {
      o.ranges[name] = range;
      continue;
    }
    Shape& fixed = o.shapes[name];
    for (const Dimension& d : range) fixed.push_back(d.least);
  }
  for (const std::string& forced : flags.forced) {
    const auto [what, kernel] = split_pair("--force", forced);
    check_once("--force", what, forced_names);
    o.force[what] = kernel;
  }
  o.inputs = read_inputs(flags.inputs, flags.inputs_file);
  return o;
}

Model load_artefact(const std::string& path, const LoadOptions& options, const Talk& talk) {
  Model model = load(path, options);
  for (const std::string& note : model.notes()) talk.note(path + ": " + note);
  return model;
}

Model open_model(const std::string& path, const OptimizeOptions& options, const Talk& talk) {
  if (!path.ends_with(".onnx")) return load_artefact(path, {.threads = options.threads}, talk);
  OptimizeOptions with_bar = options;
  with_bar.progress = progress_bar(talk);
  Model model = optimize(path, with_bar);
  end_progress();
  for (const std::string& note : model.notes()) talk.note(path + ": " + note);
  return model;
}

namespace {

// The same of a model that checks types and shapes when it runs: it runs in stages, or dimensions
// of its inputs are open.
std::vector<Tensor> arrange_for_run(const Model& model, const std::map<std::string, Tensor>& given,
                                    std::vector<std::string>* made_up) {
  const ir::Graph& graph = *model.state().graph;
  const auto samples = runtime::sample_inputs(graph, {});
  std::vector<Tensor> inputs;
  for (const TensorSpec& spec : model.inputs()) {
    if (!spec.other.empty()) {
      throw_unsupported("input {} takes {}, which files of arrays do not hold; run it in Python",
                        spec.name, spec.other);
    }
    if (const auto at = given.find(spec.name); at != given.end()) {
      const bool rounds = at->second.dtype() == DType::kFloat64 && spec.dtype == DType::kFloat32;
      inputs.push_back(rounds ? at->second.converted(spec.dtype) : at->second);
      continue;
    }
    if (made_up) made_up->push_back(spec.name);
    for (size_t i = 0; i < samples.size(); ++i) {
      if (graph.value(graph.inputs[i]).name == spec.name) inputs.push_back(samples[i].tensor);
    }
  }
  for (const auto& [name, tensor] : given) {
    const auto& specs = model.inputs();
    if (std::none_of(specs.begin(), specs.end(),
                     [&, &key = name](const TensorSpec& s) { return s.name == key; })) {
      throw_invalid("inputs: the model has no input '{}'", name);
    }
  }
  return inputs;
}

}  // namespace

std::vector<Tensor> arrange_inputs(const Model& model, const std::map<std::string, Tensor>& given,
                                   std::vector<std::string>* made_up) {
  for (const std::string& name : model.state().constant_inputs) {
    if (!given.contains(name)) continue;
    throw_invalid(
        "inputs: the ONNX file has a value for input {}, which became a constant; optimise the "
        "file with --input {}=FILE to give other values",
        name, name);
  }
  if (model.staged()) return arrange_for_run(model, given, made_up);
  std::map<std::string, Tensor> tensors = given;
  if (const auto* pictures = model.state().pictures.get()) {
    const auto at = tensors.find(model.inputs()[pictures->index].name);
    if (at != tensors.end()) at->second = prepare(model, at->second);
  }
  if (model.open()) return arrange_for_run(model, tensors, made_up);
  std::vector<Tensor> inputs;
  for (runtime::SampleInput& sample : runtime::sample_inputs(*model.state().graph, tensors)) {
    if (sample.made_up && made_up) made_up->push_back(model.inputs()[inputs.size()].name);
    inputs.push_back(std::move(sample.tensor));
  }
  return inputs;
}

std::string type_text(const TensorSpec& spec) {
  return spec.other.empty() ? std::string(dtype_name(spec.dtype)) : spec.other;
}

nlohmann::json to_json(const std::vector<TensorSpec>& specs) {
  nlohmann::json list = nlohmann::json::array();
  for (const TensorSpec& spec : specs) {
    list.push_back({{"name", spec.name}, {"dtype", type_text(spec)}, {"shape", spec.shape}});
  }
  return list;
}

}  // namespace stretto::cli
