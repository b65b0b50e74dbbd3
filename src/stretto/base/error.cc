#include "stretto/base/error.h"

#include <string_view>

namespace stretto {
namespace {

std::string describe(const std::string& file, int64_t offset, const std::string& problem) {
  if (offset < 0) return fmt::format("{}: {}", file, problem);
  return fmt::format("{} (byte {}): {}", file, offset, problem);
}

}  // namespace

FormatError::FormatError(std::string file, int64_t offset, const std::string& problem, int code)
    : std::runtime_error(describe(file, offset, problem)),
      file_(std::move(file)),
      offset_(offset),
      code_(code) {}

namespace internal {

void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  std::string_view path = file;
  if (size_t at = path.rfind("stretto/"); at != std::string_view::npos) path.remove_prefix(at);
  throw InternalError(fmt::format("{} [{} failed at {}:{}]", message, expression, path, line));
}

}  // namespace internal
}  // namespace stretto
