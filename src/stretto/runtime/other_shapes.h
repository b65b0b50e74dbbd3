// Models made for other shapes of their inputs without a file that says how.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stretto/import/model.h"
#include "stretto/runtime/programs_by_shape.h"
#include "stretto/stretto.h"

namespace stretto::runtime {

// Programs by number of tokens, of a graph whose shapes are fixed. The graph's constants become
// those of `siblings`.
std::shared_ptr<ProgramsByShape> by_tokens(ImportedModel& imported, const std::string& lengths,
                                           std::shared_ptr<Siblings> siblings);

// The same model for other shapes of its inputs, to be run only: it has no report, and cannot be
// saved. Weights that are the same are shared. Nothing is measured or verified.
Model with_other_shapes(const Model& model, ImportedModel imported);

// Shapes of a model's inputs, and of the outputs that they lead to.
struct ShapeTrial {
  std::vector<Shape> inputs, outputs;
};

// The same model, for all shapes that `inputs` allow, which is what an artefact can hold: programs
// for other shapes come from `imported`, as ONNX. Both kinds of model have been optimised
// `for_other_shapes`. Throws Unsupported where ONNX cannot say what the graph does or its weights
// are others, or a trial fails or has other outputs.
Model with_open_graph(const Model& model, ImportedModel imported, std::vector<OpenInput> inputs,
                      const std::vector<ShapeTrial>& trials);

}  // namespace stretto::runtime
