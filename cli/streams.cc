#include "streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace stretto::cli {

void say(std::string_view text) {
  [[maybe_unused]] const size_t written = std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // Takes the lowest free number, which is `stream`: those below it are open by now.
    [[maybe_unused]] const int fd = open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace stretto::cli
