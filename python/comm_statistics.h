// What the engine has measured and counted, as dictionaries of Python.
#pragma once

#include <nanobind/nanobind.h>

#include "stretto/comm/engine/engine.h"

namespace stretto::python {

nanobind::dict links_dict(const comm::GroupLinks& links);
nanobind::dict statistics_dict(const comm::Statistics& s);

}  // namespace stretto::python
