// What comm.cc adds to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace stretto::python {

// CommEngine, CommOptions and comm_engine(): documented where users see them, in stretto/comm.py.
void bind_comm(nanobind::module_& m);

}  // namespace stretto::python
