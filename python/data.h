// What data.cc adds to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace stretto::python {

// DataDataset, DataOptions, DataLoader and data_open(): documented where users see them, in
// stretto/data.
void bind_data(nanobind::module_& m);

}  // namespace stretto::python
