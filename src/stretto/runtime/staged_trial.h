// A staged model run once, to see what it consists of: for optimising, checking and inspecting it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stretto/runtime/sample_inputs.h"
#include "stretto/runtime/staged.h"
#include "stretto/stretto.h"

namespace stretto::runtime {

// Which shapes and types the inputs may have, and those of the first run.
struct StagedFace {
  std::vector<StagedInput> inputs;
  // A graph with these inputs and nothing else, with the shapes of the first run. Inputs that are
  // no tensors, or of which nobody knows a shape, are left out.
  ir::Graph graph;
  bool complete = true;  // all inputs are in the graph
  std::vector<std::string> notes;
};

// A file that is to be run in stages, with the inputs that the options name.
std::shared_ptr<StagedSource> open_staged_source(const std::string& path,
                                                 const OptimizeOptions& options);

// Throws InvalidArgument where options contradict the file.
StagedFace staged_face(const onnx::Reader& reader, const onnx::Body& body, const std::string& file,
                       const OptimizeOptions& options);

struct StagedTrial {
  struct Seen {
    std::shared_ptr<StagePiece> piece;
    std::vector<Tensor> inputs;  // of its first run
    int runs = 0;
  };
  std::vector<Seen> pieces;                                // in the order of their first runs
  std::vector<std::pair<std::string, std::string>> steps;  // operator and node, between pieces
  std::vector<SampleInput> samples;
  std::vector<AnyValue> outputs;  // none where the run failed
  std::string failure;            // why; empty: it did not
};

// Runs the model on given or made-up inputs. An error of a run on made-up inputs is no error of
// the model, and ends up in `failure`.
StagedTrial try_staged(Staged& staged, const StagedFace& face, const OptimizeOptions& options);

// Inputs and outputs as a Model shows them.
std::vector<TensorSpec> staged_inputs(const StagedFace& face, const onnx::Body& body);
std::vector<TensorSpec> staged_outputs(const onnx::Body& body, const std::vector<AnyValue>& seen);

}  // namespace stretto::runtime
