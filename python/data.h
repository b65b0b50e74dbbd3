// What data.cc and data_pack.cc add to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace stretto::python {

// DataDataset, DataOptions, DataLoader and data_open(): documented where users see them, in
// stretto/data.
void bind_data(nanobind::module_& m);

// data_pack(), data_verify() and data_unpack(), which bind_data() adds too.
void bind_packs(nanobind::module_& m);

}  // namespace stretto::python
