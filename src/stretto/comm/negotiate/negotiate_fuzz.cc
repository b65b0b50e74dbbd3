// libFuzzer target: what a rank receives in the rounds of named operations (round_script.h).
#include <cstdlib>

#include "stretto/comm/negotiate/round_script.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!stretto::comm::RoundScript(data, size).run()) std::abort();
  return 0;
}
