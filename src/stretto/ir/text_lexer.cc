#include "stretto/ir/text_lexer.h"

#include <charconv>

namespace stretto::ir {
namespace {

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '-' || c == '+';
}

}  // namespace

Token Lexer::take() {
  Token taken = std::move(token_);
  advance();
  return taken;
}

void Lexer::skip_space() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      if (c == '\n') ++line_;
      ++at_;
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_space();
  token_ = {.line = line_};
  if (at_ == text_.size()) return;
  const char c = text_[at_];
  if (c == '"') {
    quoted();
  } else if (is_word_char(c)) {
    const size_t start = at_;
    while (at_ < text_.size() && is_word_char(text_[at_])) ++at_;
    token_.kind = Token::Kind::kWord;
    token_.text = text_.substr(start, at_ - start);
  } else {
    token_.kind = Token::Kind::kMark;
    token_.text = c;
    ++at_;
  }
}

void Lexer::quoted() {
  token_.kind = Token::Kind::kQuoted;
  for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
    char c = text_[at_];
    if (c == '\n') break;
    if (c == '\\') c = escape();
    token_.text += c;
  }
  if (at_ == text_.size() || text_[at_] != '"') fail_at_line(line_, "a quoted text does not end");
  ++at_;
}

char Lexer::escape() {
  ++at_;
  if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\\')) return text_[at_];
  if (at_ + 2 < text_.size() && text_[at_] == 'x') {
    unsigned byte = 0;
    const char* digits = text_.data() + at_ + 1;
    const auto [end, error] = std::from_chars(digits, digits + 2, byte, 16);
    if (error == std::errc{} && end == digits + 2) {
      at_ += 2;
      return static_cast<char>(byte);
    }
  }
  fail_at_line(line_, "expected \\\", \\\\ or \\x and two hexadecimal digits after a backslash");
}

}  // namespace stretto::ir
