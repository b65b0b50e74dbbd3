// What data.cc, data_pack.cc and data_remote.cc add to the extension module.
#pragma once

#include <nanobind/nanobind.h>

#include "stretto/data/remote_stats.h"

namespace stretto::python {

// DataDataset, DataOptions, DataLoader and data_open(): documented where users see them, in
// stretto/data.
void bind_data(nanobind::module_& m);

// data_pack(), data_verify() and data_unpack(), which bind_data() adds too.
void bind_packs(nanobind::module_& m);

// DataFetcher and data_open_remote(), likewise.
void bind_remote(nanobind::module_& m);
nanobind::dict remote_stats(const data::RemoteStats& stats);

}  // namespace stretto::python
