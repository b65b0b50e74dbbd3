// libFuzzer target: a process that breaks the rules between ranks of a host and the process that
// makes their batches (share_script.h). Seeds: tests/fuzz/share.
#include <cstdlib>

#include "stretto/data/share_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const stretto::data::ShareFindings findings = stretto::data::run_share_script(data, size);
  if (!findings.ended || findings.wrong > 0) std::abort();
  return 0;
}
