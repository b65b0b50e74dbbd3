// What data.cc and the other data_*.cc add to the extension module.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
#include <vector>

#include "stretto/data/dataset.h"
#include "stretto/data/remote_stats.h"

namespace stretto::python {

// DataDataset, data_open(), and what the functions below add: documented where users see them, in
// stretto/data.
void bind_data(nanobind::module_& m);

// DataOptions, and DataLoader with what else makes batches.
void bind_data_options(nanobind::module_& m);
void bind_data_loaders(nanobind::module_& m);

// data_pack(), data_verify() and data_unpack().
void bind_packs(nanobind::module_& m);

// DataFetcher and data_open_remote().
void bind_remote(nanobind::module_& m);
nanobind::dict remote_stats(const data::RemoteStats& stats);

// A NumPy array of its own.
nanobind::object numbers(std::vector<int64_t> values);
// Names of files may hold bytes that are no UTF-8.
nanobind::object text_of(std::string_view bytes);
// Of all samples. Without the interpreter's lock.
std::vector<int64_t> labels_of(const data::Dataset& dataset);

}  // namespace stretto::python
