// Ctrl-C for code that works without the interpreter's lock.
#pragma once

#include <nanobind/nanobind.h>

namespace stretto::python {

// Python's handler of a signal only remembers it. This runs what was remembered and throws what
// that raises, KeyboardInterrupt above all. On threads other than the main one it does nothing.
inline void check_signals() {
  nanobind::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

}  // namespace stretto::python
