// The simulator of collectives for Python: bench/comm/simulate.py writes requests and reads
// answers.
#include <nanobind/stl/string.h>

#include "comm.h"
#include "stretto/comm/simulate/request.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {

void bind_simulator(nb::module_& m) {
  m.def(
      "comm_simulate",
      [](const std::string& request) { return stretto::comm::simulate_request(request); },
      "request"_a, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace stretto::python
