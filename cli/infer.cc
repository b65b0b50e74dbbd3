// stretto infer m.stretto --input x=photo.npy -o out.npz
#include <CLI/CLI.hpp>

#include <cmath>
#include <limits>
#include <memory>

#include "model_options.h"
#include "npy.h"
#include "npz.h"
#include "stretto/base/file.h"
#include "table.h"

namespace stretto::cli {
namespace {

struct Flags {
  ModelFlags model;
  std::string source, output;
};

std::vector<std::string> describe(const TensorSpec& spec, const Tensor& tensor) {
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  int64_t highest_at = 0, nans = 0;
  const std::vector<double> values = tensor.as_doubles();
  for (size_t i = 0; i < values.size(); ++i) {
    nans += std::isnan(values[i]);
    low = std::fmin(low, values[i]);
    if (values[i] > high) {
      high = values[i];
      highest_at = static_cast<int64_t>(i);
    }
    sum += values[i];
  }
  const double count = static_cast<double>(values.size());
  return {spec.name,
          std::string(dtype_name(tensor.dtype())),
          shape_text(tensor.shape()),
          fmt::format("{:.6g}", low),
          fmt::format("{:.6g}", sum / count),
          fmt::format("{:.6g}", high),
          fmt::format("{}", highest_at),
          fmt::format("{}", nans)};
}

void save(const std::string& path, const std::vector<TensorSpec>& specs,
          const std::vector<Tensor>& outputs) {
  if (path.ends_with(".npy")) {
    if (outputs.size() != 1) {
      throw_invalid("-o {}: the model has {} outputs; name an .npz file", path, outputs.size());
    }
    write_file(path, npy_bytes(outputs[0]));
    return;
  }
  std::vector<std::pair<std::string, Tensor>> named;
  for (size_t i = 0; i < outputs.size(); ++i) named.emplace_back(specs[i].name, outputs[i]);
  write_npz(path, named);
}

int run(const Flags& flags) {
  OptimizeOptions o = options(flags.model);
  o.profile = false;
  const Model model = open_model(flags.source, o);
  std::vector<std::string> made_up;
  const std::vector<Tensor> inputs = arrange_inputs(model, o.inputs, &made_up);
  if (!made_up.empty()) {
    std::string pairs;
    for (const std::string& name : made_up) pairs += " --input " + name + "=file.npy";
    throw_invalid("infer: inputs are missing; add{}", pairs);
  }
  Session session(model, flags.model.threads);
  const std::vector<Tensor> outputs = session.run(inputs);
  Table table({"output", "dtype", "shape", ">min", ">mean", ">max", ">max at", ">NaN"});
  for (size_t i = 0; i < outputs.size(); ++i) table.row(describe(model.outputs()[i], outputs[i]));
  fmt::print("{}", table.text());
  if (!flags.output.empty()) {
    save(flags.output, model.outputs(), outputs);
    fmt::print("wrote {}\n", flags.output);
  }
  return kOk;
}

}  // namespace

std::function<int()> set_up_infer(CLI::App& app, const Context&) {
  auto flags = std::make_shared<Flags>();
  app.add_option("source", flags->source, "An artefact, or an ONNX file to optimise first")
      ->required();
  app.add_option("-o,--output", flags->output, "Where to write the outputs: out.npz or out.npy");
  add_model_flags(app, flags->model);
  return [flags] { return run(*flags); };
}

}  // namespace stretto::cli
