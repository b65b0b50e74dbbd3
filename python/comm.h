// What comm.cc and segment.cc add to the extension module.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>

namespace stretto::python {

// `comm_error` is the class of what a CommError becomes.
nanobind::object python_exception(const std::exception_ptr& error,
                                  const nanobind::object& comm_error);

// CommEngine, CommOptions and comm_engine(): documented where users see them, in stretto/comm.py.
void bind_comm(nanobind::module_& m);

// comm_fit_link(), comm_best_splits() and comm_plan_buckets(): comm/segment.h.
void bind_segments(nanobind::module_& m);

}  // namespace stretto::python
