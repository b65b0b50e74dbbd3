// The one door through which every format comes: stretto::optimize() without the reading of files.
#pragma once

#include "stretto/import/model.h"
#include "stretto/stretto.h"

namespace stretto::runtime {

// Optimises what an importer made. Throws what stretto::optimize() throws; the text names
// `imported.source`.
Model optimize_model(ImportedModel imported, const OptimizeOptions& options);

}  // namespace stretto::runtime
