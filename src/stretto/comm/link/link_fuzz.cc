// libFuzzer target: a link to a remote rank that breaks the rules of the protocol (link_script.h).
#include <cstdlib>

#include "stretto/comm/link/link_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto::comm;
  const Findings findings = run_script(data, size);
  if (findings.peak_eager_bytes > static_cast<int64_t>(kEagerLimitBytes)) std::abort();
  if (findings.wrong > 0) std::abort();
  return 0;
}
