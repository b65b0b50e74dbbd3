// What the library logs (stretto/base/log.h), as records of logging.getLogger("stretto").
#pragma once

namespace stretto::python {

// Called once, when the module is imported.
void route_log_to_python();

}  // namespace stretto::python
