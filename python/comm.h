// What comm.cc, segment.cc and simulate.cc add to the extension module.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <exception>

#include "errors.h"

namespace stretto::python {

// How long a wait leaves Ctrl-C unnoticed.
inline constexpr double kSignalPeriodS = 0.1;

// Waits with wait(seconds) -> done, without the interpreter's lock. Python's own handlers of
// signals and what check() throws can interrupt it. timeout_s < 0: as long as it takes.
template <typename Wait, typename Check>
bool wait_in_slices(double timeout_s, Wait&& wait, Check&& check) {
  double left = timeout_s;
  while (true) {
    const double slice = timeout_s < 0 ? kSignalPeriodS : std::min(left, kSignalPeriodS);
    bool done = false;
    std::exception_ptr error;
    {
      nanobind::gil_scoped_release released;
      try {
        done = wait(slice);
      } catch (...) {
        error = std::current_exception();
      }
    }
    if (error) raise_python(error);
    if (done) return true;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
    check();
    if (timeout_s >= 0 && (left -= slice) <= 0) return false;
  }
}

// CommEngine, CommOptions and comm_engine(): documented where users see them, in stretto/comm.py.
void bind_comm(nanobind::module_& m);

// comm_fit_link(), comm_best_splits() and comm_plan_buckets(): comm/tuning/segment.h.
void bind_segments(nanobind::module_& m);

// comm_simulate(): documented in stretto/comm/simulate/request.h.
void bind_simulator(nanobind::module_& m);

}  // namespace stretto::python
