// Every error Stretto throws. A caller's mistake, an impossible request, a bad file and a broken
// promise of our own are different types, because callers react differently to each.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace stretto {

// The caller passed something wrong. Text: `what: expected, got`. ValueError in Python.
class InvalidArgument : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// Legal, but not possible here; the text gives every reason. NotImplementedError in Python.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A file is missing, truncated, altered or not what it claims to be. The text names the file, the
// byte offset where known (-1 otherwise), and what was expected. OSError in Python.
class FormatError : public std::runtime_error {
 public:
  FormatError(std::string file, int64_t offset, const std::string& problem);
  const std::string& file() const { return file_; }
  int64_t offset() const { return offset_; }

 private:
  std::string file_;
  int64_t offset_;
};

// A peer or a link is lost, or does not answer in time. The text names both; the group is unusable
// until it is formed again. RuntimeError in Python.
class CommError : public std::runtime_error {
 public:
  CommError(int rank, std::string link, const std::string& text)
      : std::runtime_error(text), rank_(rank), link_(std::move(link)) {}
  int rank() const { return rank_; }  // of the lost peer; -1: none in particular
  const std::string& link() const { return link_; }

 private:
  int rank_;
  std::string link_;
};

// A promise of Stretto itself was broken; please report it. RuntimeError in Python.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
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
