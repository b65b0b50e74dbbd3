// The one door through which every format comes: stretto::optimize() without the reading of files.
#pragma once

#include "stretto/import/model.h"
#include "stretto/stretto.h"

namespace stretto::runtime {

// Optimises what an importer made. Throws what stretto::optimize() throws; the text names
// `imported.source`. `for_other_shapes`: with_other_shapes() and with_open_graph() may follow.
Model optimize_model(ImportedModel imported, const OptimizeOptions& options,
                     bool for_other_shapes = false);

}  // namespace stretto::runtime
