#include "stretto/data/in_order.h"

#include <algorithm>

#include "stretto/base/cores.h"
#include "stretto/base/error.h"

namespace stretto::data {

int threads_or_cores(int threads) {
  constexpr int kMost = 1024;
  if (threads < 0 || threads > kMost) {
    throw_invalid("threads: expected 0 to {}, got {}", kMost, threads);
  }
  if (threads > 0) return threads;
  return usable_cores(static_cast<int>(allowed_cpus().size()), cpu_quota("/"));
}

}  // namespace stretto::data
