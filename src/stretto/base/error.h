// Every error Stretto throws. A caller's mistake, an impossible request, a bad file and a broken
// promise of our own are different types, because callers react differently to each.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace stretto {

// What all of them have in common: `catch (const stretto::Error&)` catches whatever Stretto throws
// itself. Each one is a standard exception as well. stretto.Error in Python.
class Error {
 public:
  virtual ~Error() = default;
  virtual const char* what() const noexcept = 0;
};

// The caller passed something wrong. Text: `what: expected, got`. A ValueError in Python.
class InvalidArgument : public std::invalid_argument, public Error {
 public:
  using std::invalid_argument::invalid_argument;
  const char* what() const noexcept override { return std::invalid_argument::what(); }
};

// Legal, but not possible here; the text gives every reason. A NotImplementedError in Python.
class Unsupported : public std::runtime_error, public Error {
 public:
  using std::runtime_error::runtime_error;
  const char* what() const noexcept override { return std::runtime_error::what(); }
};

// A file is missing, truncated, altered or not what it claims to be. The text names the file, the
// byte offset where known (-1 otherwise), and what was expected. `code` is the errno of the call
// that failed, 0 when none did. An OSError in Python; a missing file is a FileNotFoundError.
class FormatError : public std::runtime_error, public Error {
 public:
  FormatError(std::string file, int64_t offset, const std::string& problem, int code = 0);
  const char* what() const noexcept override { return std::runtime_error::what(); }
  const std::string& file() const { return file_; }
  int64_t offset() const { return offset_; }
  int code() const { return code_; }

 private:
  std::string file_;
  int64_t offset_;
  int code_;
};

// A rank or a link is lost, or does not answer in time. The text names both; the group is unusable
// until it is formed again. A RuntimeError in Python.
class CommError : public std::runtime_error, public Error {
 public:
  CommError(int rank, std::string link, const std::string& text)
      : std::runtime_error(text), rank_(rank), link_(std::move(link)) {}
  const char* what() const noexcept override { return std::runtime_error::what(); }
  int rank() const { return rank_; }  // of the lost process; -1: none in particular
  const std::string& link() const { return link_; }

 private:
  int rank_;
  std::string link_;
};

// A promise of Stretto itself was broken; please report it. A RuntimeError in Python.
class InternalError : public std::logic_error, public Error {
 public:
  using std::logic_error::logic_error;
  const char* what() const noexcept override { return std::logic_error::what(); }
};

// throw_invalid("{}: weight has {} channels", node, 3) throws InvalidArgument.
template <typename... Args>
[[noreturn]] void throw_invalid(fmt::format_string<Args...> format, Args&&... args) {
  throw InvalidArgument(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void throw_unsupported(fmt::format_string<Args...> format, Args&&... args) {
  throw Unsupported(fmt::format(format, std::forward<Args>(args)...));
}

namespace internal {
[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const std::string& message);
}

}  // namespace stretto

// Always on. The message is formatted only when the check fails.
#define STRETTO_CHECK(condition, ...)                                   \
  do {                                                                  \
    if (!(condition)) [[unlikely]]                                      \
      ::stretto::internal::check_failed(#condition, __FILE__, __LINE__, \
                                        ::fmt::format(__VA_ARGS__));    \
  } while (false)
