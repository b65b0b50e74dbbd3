// What a model answered when it was made, kept in its artefact so that load() can verify it.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "stretto/base/pieces.h"
#include "stretto/runtime/program.h"
#include "stretto/runtime/sample_inputs.h"

namespace stretto::runtime {

// Some values of one output: kSampleValues of them evenly spaced (all, when there are fewer), then
// that at `peak`, the largest by magnitude, to which errors are relative.
struct SampleOutput {
  std::string name;
  int64_t peak = 0;
  Tensor values;
};

struct Samples {
  // By name, for inputs that sample_inputs() does not make up again from the optimised graph.
  std::map<std::string, Tensor> inputs;
  std::vector<SampleOutput> outputs;
  double bound = 0;     // error allowed, relative to the largest value
  std::string missing;  // why there are no outputs; empty when there are
};

constexpr int64_t kSampleValues = 4096;
constexpr int64_t kMostSampleInputBytes = int64_t{8} << 20;

// `outputs` are what the model should answer to `inputs`, in the order of its outputs. Without them
// the samples only say why: inputs that cannot be made up again are kept up to
// kMostSampleInputBytes.
Samples take_samples(const ir::Graph& graph, const std::vector<SampleInput>& inputs,
                     const std::vector<Tensor>& outputs, double bound);

// Runs the program on the sample inputs. Throws InternalError naming `file`, the first output whose
// error is above the bound, and the error; Unsupported when there are no samples.
void verify_samples(const ir::Graph& graph, const Program& program, const Samples& samples,
                    const std::string& file);

// As the description of an artefact has them; values go to, and come from, the constants. Throws
// InvalidArgument for anything that samples_json would not have written for this graph.
nlohmann::json samples_json(const Samples& samples, Pieces& block);
Samples read_samples(const nlohmann::json& description, const ir::Graph& graph,
                     std::span<const std::byte> block, std::shared_ptr<const void> owner,
                     const std::string& file);

}  // namespace stretto::runtime
