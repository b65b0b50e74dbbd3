#include "toml.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "stretto/base/error.h"

namespace stretto::cli {
namespace {

using Words = std::vector<std::string>;

bool is_bare(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_'; }

std::string utf8(uint32_t code) {
  std::string out;
  const auto byte = [&](uint32_t value) { out += static_cast<char>(value); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xc0 | code >> 6);
    byte(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    byte(0xe0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3f));
    byte(0x80 | (code & 0x3f));
  } else {
    byte(0xf0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3f));
    byte(0x80 | (code >> 6 & 0x3f));
    byte(0x80 | (code & 0x3f));
  }
  return out;
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  std::vector<TomlItem> items() {
    for (skip(true); !rest_.empty(); skip(true)) {
      rest_[0] == '[' ? header() : pair();
      skip(false);
      if (!rest_.empty() && rest_[0] != '\n') fail("expected the end of the line");
    }
    return std::move(items_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw_invalid("{}:{}: {}{}", file_, line_, fmt::format(format, std::forward<Args>(args)...),
                  rest_.empty() || rest_[0] == '\n'
                      ? ""
                      : fmt::format(", found '{}'", rest_.substr(0, rest_.find('\n'))));
  }

  char take() {
    const char c = rest_[0];
    line_ += c == '\n';
    rest_.remove_prefix(1);
    return c;
  }

  // Spaces and comments, ends of lines too if asked for.
  void skip(bool lines) {
    while (!rest_.empty()) {
      const char c = rest_[0];
      if (c == '#') {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && lines)) {
        take();
      } else {
        return;
      }
    }
  }

  bool accept(char c) {
    skip(false);
    if (rest_.empty() || rest_[0] != c) return false;
    take();
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail("expected '{}'", c);
  }

  // "a.b"
  Words key() {
    Words words;
    do {
      skip(false);
      if (!rest_.empty() && (rest_[0] == '"' || rest_[0] == '\'')) {
        words.push_back(string());
        continue;
      }
      std::string word;
      while (!rest_.empty() && is_bare(rest_[0])) word += take();
      if (word.empty()) fail("expected a key");
      words.push_back(std::move(word));
    } while (accept('.'));
    return words;
  }

  void add(TomlItem item) {
    Words path = item.section;
    path.push_back(item.name);
    if (!seen_.insert(path).second) {
      const std::string name = fmt::format("{}", fmt::join(path, "."));
      throw_invalid("{}:{}: {} is given twice", file_, item.line,
                    item.name.empty() ? "[" + name.substr(0, name.size() - 1) + "]" : name);
    }
    items_.push_back(std::move(item));
  }

  void header() {
    TomlItem item{.line = line_};
    take();
    if (!rest_.empty() && rest_[0] == '[') fail("expected one section, lists of tables mean none");
    item.section = section_ = key();
    expect(']');
    add(std::move(item));
  }

  void pair() {
    TomlItem item{.section = section_, .line = line_};
    const Words words = key();
    item.section.insert(item.section.end(), words.begin(), words.end() - 1);
    item.name = words.back();
    expect('=');
    skip(false);
    if (rest_.empty() || rest_[0] != '[') {
      item.values.push_back(value());
    } else {
      item.values = list();
    }
    add(std::move(item));
  }

  Words list() {
    Words values;
    take();
    for (skip(true); !rest_.empty() && rest_[0] != ']'; skip(true)) {
      values.push_back(value());
      skip(true);
      if (rest_.empty() || rest_[0] == ']') break;
      expect(',');
    }
    expect(']');
    return values;
  }

  std::string value() {
    if (!rest_.empty() && (rest_[0] == '"' || rest_[0] == '\'')) return string();
    const auto ends = [](char c) {
      return std::isspace(static_cast<unsigned char>(c)) || c == ',';
    };
    const auto* end = std::find_if(rest_.begin(), rest_.end(),
                                   [&](char c) { return ends(c) || c == ']' || c == '#'; });
    std::string word(rest_.begin(), end);
    if (word == "true" || word == "false") {
      rest_.remove_prefix(word.size());
      return word;
    }
    const size_t length = word.size();
    std::erase(word, '_');
    if (word.starts_with('+')) word.erase(0, 1);
    double number = 0;
    const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (word.empty() || error == std::errc::invalid_argument || last != word.data() + word.size()) {
      fail("expected a value: a string in quotes, a number, true, false or a list of these");
    }
    rest_.remove_prefix(length);
    return word;
  }

  std::string string() {
    const char quote = take();
    if (rest_.starts_with(std::string(2, quote))) fail("a string of several lines is not taken");
    std::string text;
    while (!rest_.empty() && rest_[0] != quote && rest_[0] != '\n') {
      const char c = take();
      text += c == '\\' && quote == '"' ? escape() : std::string(1, c);
    }
    if (rest_.empty() || rest_[0] == '\n') fail("expected the end of the string, {}", quote);
    take();
    return text;
  }

  std::string escape() {
    constexpr std::string_view kLetters = "btnfr\"\\", kMeanings = "\b\t\n\f\r\"\\";
    const char c = rest_.empty() || rest_[0] == '\n' ? ' ' : take();
    if (const size_t at = kLetters.find(c); at != std::string_view::npos) {
      return std::string(1, kMeanings[at]);
    }
    const size_t digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    const char* const end = rest_.data() + std::min(digits, rest_.size());
    const auto [last, error] = std::from_chars(rest_.data(), end, code, 16);
    if (digits == 0 || error != std::errc{} || last != rest_.data() + digits || code > 0x10ffff) {
      fail("unknown escape \\{}", c);
    }
    rest_.remove_prefix(digits);
    return utf8(code);
  }

  std::string_view rest_;
  const std::string& file_;
  int line_ = 1;
  Words section_;
  std::vector<TomlItem> items_;
  std::set<Words> seen_;
};

}  // namespace

std::vector<TomlItem> parse_toml(std::string_view text, const std::string& file) {
  return Parser(text, file).items();
}

}  // namespace stretto::cli
