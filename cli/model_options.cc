#include "model_options.h"

#include <CLI/CLI.hpp>

#include "npz.h"
#include "progress.h"
#include "stretto/runtime/model_state.h"
#include "stretto/runtime/sample_inputs.h"

namespace stretto::cli {
void add_model_flags(CLI::App& app, ModelFlags& flags, ThreadsFlag threads) {
  app.add_option("--level", flags.level, "lossless: fp32 throughout")->capture_default_str();
  app.add_option("--accuracy", flags.accuracy,
                 "strict (errors of plain fp32 sums), default, or fast")
      ->capture_default_str();
  app.add_option("--tune", flags.tune, "How long to search: off, quick, full, or seconds")
      ->capture_default_str();
  if (threads == ThreadsFlag::kYes) {
    app.add_option("--threads", flags.threads, "Threads to run with (0: every core)")
        ->check(CLI::Range(0, 1024));
  }
  app.add_option("--shape", flags.shapes, "Shape of an input the file leaves open: x=1x3x224x224");
  app.add_option("--input", flags.inputs, "Data to check and time with: x=photo.npy");
  app.add_option("--inputs", flags.inputs_file, "The same for all inputs: data.npz");
  app.add_option("--disable", flags.disabled, "Passes or rules not to apply (see inspect --passes)")
      ->delimiter(',');
  app.add_option("--force", flags.forced, "Kernel to use: conv2d=direct, or node=direct")
      ->delimiter(',');
  app.add_option("--record", flags.record, "File of remembered choices; none for no file");
  app.add_flag("--no-verify", flags.no_verify, "Do not compare with the reference");
}

std::pair<std::string, std::string> split_pair(std::string_view flag, const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw_invalid("{}: expected name=value, got '{}'", flag, text);
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

std::map<std::string, Tensor> read_inputs(const std::vector<std::string>& pairs,
                                          const std::string& file) {
  std::map<std::string, Tensor> inputs;
  if (!file.empty()) inputs = read_npz(file);
  for (const std::string& pair : pairs) {
    const auto [name, path] = split_pair("--input", pair);
    inputs[name] = read_npy(path);
  }
  return inputs;
}

OptimizeOptions options(const ModelFlags& flags) {
  OptimizeOptions o;
  o.level = flags.level;
  o.accuracy = flags.accuracy;
  o.tune = flags.tune;
  o.threads = flags.threads;
  o.record = flags.record;
  o.verify = !flags.no_verify;
  o.disabled_passes.insert(flags.disabled.begin(), flags.disabled.end());
  for (const std::string& shape : flags.shapes) {
    const auto [name, dims] = split_pair("--shape", shape);
    o.shapes[name] = parse_shape(dims);
  }
  for (const std::string& forced : flags.forced) {
    const auto [what, kernel] = split_pair("--force", forced);
    o.forced_kernels[what] = kernel;
  }
  o.inputs = read_inputs(flags.inputs, flags.inputs_file);
  return o;
}

Model open_model(const std::string& path, const OptimizeOptions& options) {
  if (!path.ends_with(".onnx")) return load(path);
  OptimizeOptions with_bar = options;
  with_bar.progress = progress_bar();
  Model model = optimize(path, with_bar);
  end_progress();
  return model;
}

std::vector<Tensor> arrange_inputs(const Model& model, const std::map<std::string, Tensor>& given,
                                   std::vector<std::string>* made_up) {
  std::vector<Tensor> inputs;
  for (runtime::SampleInput& sample : runtime::sample_inputs(*model.state().graph, given)) {
    if (sample.made_up && made_up) made_up->push_back(model.inputs()[inputs.size()].name);
    inputs.push_back(std::move(sample.tensor));
  }
  return inputs;
}

std::string spec_text(const TensorSpec& spec) {
  return fmt::format("{} {} {}", spec.name, dtype_name(spec.dtype), shape_text(spec.shape));
}

}  // namespace stretto::cli
