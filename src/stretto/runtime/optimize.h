// The one door through which every format comes: stretto::optimize() without the reading of files.
#pragma once

#include <map>
#include <string>

#include "stretto/import/model.h"
#include "stretto/stretto.h"
#include "stretto/tensor/shape_range.h"

namespace stretto::runtime {

// Optimises what an importer made. Throws what stretto::optimize() throws; the text names
// `imported.source`. `for_other_shapes`: with_other_shapes() and with_open_graph() may follow.
Model optimize_model(ImportedModel imported, const OptimizeOptions& options,
                     bool for_other_shapes = false);

// The same of a graph for all of its sizes, those that only a run tells included: written as an
// ONNX model, whose weights are the graph's. `open`: as for onnx::ExportOptions.
Model optimize_open_graph(ImportedModel imported, const std::map<std::string, ShapeRange>& open,
                          const OptimizeOptions& options);

}  // namespace stretto::runtime
