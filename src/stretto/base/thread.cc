#include "stretto/base/thread.h"

#include <system_error>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {

std::thread start_thread(std::string_view what, std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error& error) {
    throw_unsupported(
        "{}: the system starts no more threads ({}); raise the limit of processes (ulimit -u, or "
        "pids.max of the container)",
        what, error.code().message());
  }
}

}  // namespace stretto
