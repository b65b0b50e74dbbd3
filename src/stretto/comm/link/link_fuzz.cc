// libFuzzer target: a link to a remote rank that breaks the rules of the protocol (link_script.h).
#include <cstdlib>

#include "stretto/comm/link/link_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int64_t kept = stretto::comm::run_script(data, size);
  if (kept > static_cast<int64_t>(stretto::comm::kEagerLimitBytes)) std::abort();
  return 0;
}
