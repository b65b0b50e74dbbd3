// libFuzzer target: a rank that meets another one which keeps to no rule (peer_script.h).
#include <cstdlib>

#include "stretto/comm/link/peer_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int64_t kept = stretto::comm::run_script(data, size);
  if (kept > static_cast<int64_t>(stretto::comm::kEarlyBytes)) std::abort();
  return 0;
}
