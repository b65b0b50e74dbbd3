// The one door through which every format comes: stretto::optimize() without the reading of files.
#pragma once

#include "stretto/import/model.h"
#include "stretto/stretto.h"

namespace stretto::runtime {

// Optimises what an importer made. Throws what stretto::optimize() throws; the text names
// `imported.source`. `for_other_shapes`: with_other_shapes() may follow.
Model optimize_model(ImportedModel imported, const OptimizeOptions& options,
                     bool for_other_shapes = false);

// The same model for other shapes of its inputs, to be run only: it has no report, and cannot be
// saved. Weights that are the same are shared. Nothing is measured or verified.
Model with_other_shapes(const Model& model, ImportedModel imported);

}  // namespace stretto::runtime
