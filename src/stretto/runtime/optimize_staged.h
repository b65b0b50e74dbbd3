// stretto::optimize for models that are no straight-line program.
#pragma once

#include <memory>
#include <string>

#include "stretto/import/onnx/import.h"
#include "stretto/runtime/optimize_parts.h"
#include "stretto/stretto.h"

namespace stretto::runtime {

Model optimize_staged(std::shared_ptr<onnx::Reader> reader, const std::string& file,
                      const OptimizeOptions& options, Stages& stages);

// Piece by piece in double precision.
std::vector<Tensor> run_staged_reference(const std::string& path, const OptimizeOptions& options,
                                         std::span<const Tensor> inputs);

}  // namespace stretto::runtime
