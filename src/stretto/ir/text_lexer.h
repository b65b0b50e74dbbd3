// Tokens of the text form (docs/formats/text.md).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "stretto/base/error.h"

namespace stretto::ir {

struct Token {
  enum class Kind { kEnd, kWord, kQuoted, kMark } kind = Kind::kEnd;
  std::string text;  // of a quoted one, without quotes and escapes
  int line = 1;
};

// Throws InvalidArgument beginning with the line.
template <typename... Args>
[[noreturn]] void fail_at_line(int line, fmt::format_string<Args...> format, Args&&... args) {
  throw_invalid("line {}: {}", line, fmt::format(format, std::forward<Args>(args)...));
}

class Lexer {
 public:
  // The text must outlive the lexer.
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  const Token& peek() const { return token_; }
  Token take();

 private:
  void skip_space();
  void advance();
  void quoted();
  char escape();

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  Token token_;
};

}  // namespace stretto::ir
