// The flags that every verb which optimises shares, and how a model is named on the command line.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "outputs.h"
#include "stretto/stretto.h"
#include "verbs.h"

namespace stretto::cli {

// Raw flag values; options() turns them into what the library takes.
struct ModelFlags {
  std::string level = "lossless", accuracy = "default", tuning = "quick", tuning_cache, inputs_file,
              lengths, preprocess;
  int threads = 0;
  std::vector<std::string> shapes, inputs, disabled, forced;
  bool no_verify = false;
};

// Shapes and data of the model's inputs.
void add_input_flags(Command& command, ModelFlags& flags);
// The mask by which only tokens are worked on.
void add_lengths_flag(Command& command, ModelFlags& flags);
// The steps by which the model takes pictures.
void add_preprocess_flag(Command& command, ModelFlags& flags);
// Which passes, kernels and threads; how long to search; what may be rounded.
void add_tuning_flags(Command& command, ModelFlags& flags);
void add_threads_flag(Command& command, ModelFlags& flags);
void add_disable_flag(Command& command, ModelFlags& flags);

// Warns for each option that only matters where an ONNX file is optimised: `source` is an artefact.
void warn_if_optimized(const Talk& talk, const Command& command, const std::string& source);

// Reads the input files. Throws InvalidArgument for malformed flags, FormatError for bad files.
OptimizeOptions options(const ModelFlags& flags);

// Whether a file is called as a picture is: *.jpg, *.jpeg, *.png or *.webp in any case.
bool is_picture(std::string_view path);
// The bytes of a file as a tensor of one dimension, which inputs that take pictures take.
Tensor read_picture(const std::string& path);

// "--input x=a.npy" and "--inputs data.npz" as tensors by name; pictures as read_picture().
std::map<std::string, Tensor> read_inputs(const std::vector<std::string>& pairs,
                                          const std::string& file);

// The files that the options name and that are read: no output may replace them.
std::vector<NamedFile> input_files(const std::string& source, const ModelFlags& flags);

// "left=right"; throws InvalidArgument naming `flag` otherwise.
std::pair<std::string, std::string> split_pair(std::string_view flag, const std::string& text);

// load() with Model::notes() said.
Model load_artefact(const std::string& path, const LoadOptions& options, const Talk& talk);

// Loads an artefact for `options.threads`, or optimises the model when the name ends in .onnx,
// drawing a progress bar. Model::notes() are said in both cases.
Model open_model(const std::string& path, const OptimizeOptions& options, const Talk& talk);

// The model's inputs in order: from `given`, else made up as for the check of an optimised model
// (runtime/sample_inputs.h); the names of those are added to `made_up`. Throws InvalidArgument for
// a name that the model does not have, a wrong type or a wrong shape. With open dimensions, running
// the model does so for types and shapes.
std::vector<Tensor> arrange_inputs(const Model& model, const std::map<std::string, Tensor>& given,
                                   std::vector<std::string>* made_up);

// "cnn: 2 threads, weights 0.1 MiB, memory 0.2 MiB"
std::string summary_line(const Model& model);

std::string type_text(const TensorSpec& spec);                 // "float32", "strings"
nlohmann::json to_json(const std::vector<TensorSpec>& specs);  // name, dtype and shape of each

}  // namespace stretto::cli
