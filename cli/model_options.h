// The flags that every verb which optimises shares, and how a model is named on the command line.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/stretto.h"
#include "verbs.h"

namespace stretto::cli {

// Raw flag values; options() turns them into what the library takes.
struct ModelFlags {
  std::string level = "lossless", accuracy = "default", tune = "quick", record, inputs_file;
  int threads = 0;
  std::vector<std::string> shapes, inputs, disabled, forced;
  bool no_verify = false;
};

enum class ThreadsFlag { kYes, kNo };
void add_model_flags(CLI::App& app, ModelFlags& flags, ThreadsFlag threads = ThreadsFlag::kYes);

// Reads the input files. Throws InvalidArgument for malformed flags, FormatError for bad files.
OptimizeOptions options(const ModelFlags& flags);

// "--input x=a.npy" and "--inputs data.npz" as tensors by name.
std::map<std::string, Tensor> read_inputs(const std::vector<std::string>& pairs,
                                          const std::string& file);

// "left=right"; throws InvalidArgument naming `flag` otherwise.
std::pair<std::string, std::string> split_pair(std::string_view flag, const std::string& text);

// Loads an artefact, or optimises the model when the name ends in .onnx, drawing a progress bar.
Model open_model(const std::string& path, const OptimizeOptions& options);

// The model's inputs in order: from `given`, else made up as for the check of an optimised model
// (runtime/sample_inputs.h); the names of those are added to `made_up`. Throws InvalidArgument for
// a name that the model does not have, a wrong type or a wrong shape.
std::vector<Tensor> arrange_inputs(const Model& model, const std::map<std::string, Tensor>& given,
                                   std::vector<std::string>* made_up);

std::string spec_text(const TensorSpec& spec);  // "x float32 1x3x224x224"

}  // namespace stretto::cli
