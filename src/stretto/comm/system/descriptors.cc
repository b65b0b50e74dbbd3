#include "stretto/comm/system/descriptors.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <cerrno>

namespace stretto::comm {
namespace {

constexpr int64_t kSpare = 32;  // for the program's own files

}  // namespace

void raise_descriptor_limit(int64_t needed) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(needed) ||
      limit.rlim_cur == limit.rlim_max)
    return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t descriptor_limit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<int64_t>(limit.rlim_cur) : 0;
}

bool out_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }

// All that the limit allows are open, so what is missing comes on top.
std::string descriptor_advice(int64_t more) {
  const int64_t limit = descriptor_limit();
  return fmt::format(
      "this process may open {} files (ulimit -n) and needs about {}; raise the limit", limit,
      limit + more + kSpare);
}

}  // namespace stretto::comm
