// A pattern becomes a list of instructions, of which all that are possible run side by side over
// the text (R. Cox, "Regular Expression Matching: the Virtual Machine Approach", 2009).
#include "stretto/ir/host/regex.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/ir/host/utf8.h"

namespace stretto::ir {
namespace {

// Repetition counts multiply where they are nested.
constexpr size_t kMostInstructions = 20'000;
constexpr int kMostRepeats = 1000;
constexpr int kMostDepth = 200;

struct Class {
  std::vector<std::pair<char32_t, char32_t>> ranges;
  bool negated = false;
  bool any_case = false;

  bool has_exactly(char32_t c) const {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const auto& r) { return c >= r.first && c <= r.second; });
  }
  bool has(char32_t c) const {
    const bool found =
        has_exactly(c) || (any_case && (has_exactly(lower_case(c)) || has_exactly(upper_case(c))));
    return found != negated;
  }
};

struct Instruction {
  enum Kind : uint8_t { kClass, kSplit, kJump, kBegin, kEnd, kWord, kNoWord, kMatch } kind;
  size_t to = 0, other = 0;  // of kJump and kSplit, relative to the instruction
  size_t which = 0;          // of kClass
};

using Code = std::vector<Instruction>;

bool is_word(char32_t c) {
  return (c >= U'0' && c <= U'9') || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') ||
         c == U'_';
}

class PatternParser {
 public:
  PatternParser(std::string_view pattern, std::vector<Class>& classes)
      : text_(pattern), pattern_(decoded(pattern)), classes_(classes) {}

  Code run() {
    Code code = alternatives(0);
    if (at_ < pattern_.size()) fail("a ) has no (");
    code.push_back({.kind = Instruction::kMatch});
    return code;
  }

 private:
  [[noreturn]] void fail(std::string_view problem) const {
    throw_invalid("pattern \"{}\": {}", text_, problem);
  }
  bool more() const { return at_ < pattern_.size(); }
  char32_t peek() const { return pattern_[at_]; }
  bool take(char32_t c) {
    if (!more() || peek() != c) return false;
    ++at_;
    return true;
  }
  Code limited(Code code) const {
    if (code.size() > kMostInstructions) fail("it is too large");
    return code;
  }
  static void append(Code& to, const Code& code) { to.insert(to.end(), code.begin(), code.end()); }

  Code of_class(Class c) {
    c.any_case |= any_case_;
    classes_.push_back(std::move(c));
    return {{.kind = Instruction::kClass, .which = classes_.size() - 1}};
  }

  Code alternatives(int depth) {
    if (depth > kMostDepth) fail("its groups are nested too deeply");
    const bool outer_case = any_case_, outer_dot = dot_all_, outer_lines = lines_;
    Code code = sequence(depth);
    while (take(U'|')) {
      const Code right = sequence(depth);
      Code both{{.kind = Instruction::kSplit, .to = 1, .other = code.size() + 2}};
      append(both, code);
      both.push_back({.kind = Instruction::kJump, .to = right.size() + 1});
      append(both, right);
      code = limited(std::move(both));
    }
    any_case_ = outer_case;
    dot_all_ = outer_dot;
    lines_ = outer_lines;
    return code;
  }

  Code sequence(int depth) {
    Code code;
    while (more() && peek() != U'|' && peek() != U')') {
      append(code, repeated(atom(depth)));
      code = limited(std::move(code));
    }
    return code;
  }

  Code repeated(Code part) {
    int least = 1, most = 1;
    bool any = false;
    while (more()) {
      if (take(U'*')) {
        least = 0, most = -1;
      } else if (take(U'+')) {
        least = 1, most = -1;
      } else if (take(U'?')) {
        least = 0, most = 1;
      } else if (!counts(least, most)) {
        break;
      }
      if (any) fail("a repetition is repeated");
      any = true;
      take(U'?');  // lazy ones match the same texts
      part = times(part, least, most);
    }
    return part;
  }

  // {3}, {3,} or {3,5}; other braces stand for themselves.
  bool counts(int& least, int& most) {
    if (!more() || peek() != U'{') return false;
    size_t at = at_ + 1;
    const auto number = [&](int& value) {
      const size_t first = at;
      for (value = 0; at < pattern_.size() && pattern_[at] >= U'0' && pattern_[at] <= U'9'; ++at) {
        value = std::min(value * 10 + static_cast<int>(pattern_[at] - U'0'), kMostRepeats + 1);
      }
      return at > first;
    };
    int low = 0, high = 0;
    if (!number(low)) return false;
    high = low;
    if (at < pattern_.size() && pattern_[at] == U',') {
      ++at;
      if (!number(high)) high = -1;
    }
    if (at >= pattern_.size() || pattern_[at] != U'}') return false;
    if (low > kMostRepeats || high > kMostRepeats) fail("a repetition of more than 1000");
    if (high >= 0 && high < low) fail("a repetition ends before it begins");
    at_ = at + 1;
    least = low, most = high;
    return true;
  }

  Code times(const Code& part, int least, int most) const {
    Code code;
    for (int i = 0; i < least; ++i)
      code = limited([&] {
        append(code, part);
        return code;
      }());
    if (most < 0) {
      code.push_back({.kind = Instruction::kSplit, .to = 1, .other = part.size() + 2});
      append(code, part);
      code.push_back({.kind = Instruction::kJump, .to = 0 - (part.size() + 1)});
    }
    for (int i = least; i < most; ++i) {
      // Each of the rest may be left out with all that follow: splits that skip one suffice.
      code.push_back({.kind = Instruction::kSplit, .to = 1, .other = part.size() + 1});
      append(code, part);
      code = limited(std::move(code));
    }
    return limited(std::move(code));
  }

  Code atom(int depth) {
    const char32_t c = pattern_[at_++];
    switch (c) {
      case U'(':
        return group(depth);
      case U'[':
        return of_class(bracket());
      case U'.':
        return of_class({.ranges = dot_all_ ? Ranges{} : Ranges{{U'\n', U'\n'}}, .negated = true});
      case U'^':
        if (lines_) throw_unsupported("pattern \"{}\": (?m) is not supported", text_);
        return {{.kind = Instruction::kBegin}};
      case U'$':
        if (lines_) throw_unsupported("pattern \"{}\": (?m) is not supported", text_);
        return {{.kind = Instruction::kEnd}};
      case U'\\':
        return escape();
      case U'*':
      case U'+':
      case U'?':
        fail("a repetition has nothing to repeat");
      default:
        return of_class({.ranges = {{c, c}}});
    }
  }

  using Ranges = std::vector<std::pair<char32_t, char32_t>>;

  Code group(int depth) {
    bool flags_only = false;
    const bool outer_case = any_case_, outer_dot = dot_all_, outer_lines = lines_;
    if (take(U'?')) {
      if (take(U'P') || (more() && peek() == U'<')) {  // a name, of which nothing is needed
        if (!take(U'<')) fail("a group of unknown kind");
        while (more() && is_word(peek())) ++at_;
        if (!take(U'>')) fail("the name of a group does not end");
      } else {
        flags_only = flags();
      }
    }
    if (flags_only) return {};
    Code code = alternatives(depth + 1);
    if (!take(U')')) fail("a ( has no )");
    any_case_ = outer_case;
    dot_all_ = outer_dot;
    lines_ = outer_lines;
    return code;
  }

  // True: "(?i)", which holds for what follows; false: "(?i:" or "(?:", a group.
  bool flags() {
    for (bool value = true; more();) {
      const char32_t c = pattern_[at_++];
      if (c == U':') return false;
      if (c == U')') return true;
      if (c == U'-') {
        value = false;
      } else if (c == U'i') {
        any_case_ = value;
      } else if (c == U's') {
        dot_all_ = value;
      } else if (c == U'm') {
        lines_ = value;
      } else if (c != U'U') {
        fail("a group of unknown kind");
      }
    }
    fail("a ( has no )");
  }

  // \d and its like; false where `c` is none of them.
  static bool add_named(char32_t c, Class& to) {
    Ranges ranges;
    switch (lower_case(c)) {
      case U'd':
        ranges = {{U'0', U'9'}};
        break;
      case U'w':
        ranges = {{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}};
        break;
      case U's':
        ranges = {{U'\t', U'\n'}, {U'\f', U'\r'}, {U' ', U' '}};
        break;
      default:
        return false;
    }
    if (lower_case(c) == c) {
      to.ranges.insert(to.ranges.end(), ranges.begin(), ranges.end());
      return true;
    }
    char32_t from = 0;  // all others
    for (const auto& [first, last] : ranges) {
      if (first > from) to.ranges.emplace_back(from, first - 1);
      from = last + 1;
    }
    to.ranges.emplace_back(from, 0xffffffff);
    return true;
  }

  char32_t escaped(char32_t c) {
    switch (c) {
      case U'n':
        return U'\n';
      case U't':
        return U'\t';
      case U'r':
        return U'\r';
      case U'f':
        return U'\f';
      case U'v':
        return U'\v';
      case U'a':
        return U'\a';
      case U'x': {
        const bool braces = take(U'{');
        char32_t value = 0;
        size_t digits = 0;
        for (; more() && digits < (braces ? 6 : 2); ++digits, ++at_) {
          const char32_t d = lower_case(peek());
          if (d >= U'0' && d <= U'9') {
            value = value * 16 + (d - U'0');
          } else if (d >= U'a' && d <= U'f') {
            value = value * 16 + 10 + (d - U'a');
          } else {
            break;
          }
        }
        if (digits == 0 || (braces && !take(U'}'))) fail("\\x without its number");
        return value;
      }
      default:
        if (is_word(c)) {
          throw_unsupported("pattern \"{}\": \\{} is not supported", text_,
                            encoded(std::u32string(1, c)));
        }
        return c;
    }
  }

  Code escape() {
    if (!more()) fail("it ends with a backslash");
    const char32_t c = pattern_[at_++];
    if (c == U'A') return {{.kind = Instruction::kBegin}};
    if (c == U'z') return {{.kind = Instruction::kEnd}};
    if (c == U'b') return {{.kind = Instruction::kWord}};
    if (c == U'B') return {{.kind = Instruction::kNoWord}};
    Class named;
    if (add_named(c, named)) return of_class(std::move(named));
    const char32_t one = escaped(c);
    return of_class({.ranges = {{one, one}}});
  }

  // [:alpha:] and its like, behind "[".
  bool add_posix(Class& to) {
    struct Row {
      std::u32string_view name;
      Ranges ranges;
    };
    static const Row kRows[] = {
        {U"alnum", {{U'0', U'9'}, {U'A', U'Z'}, {U'a', U'z'}}},
        {U"alpha", {{U'A', U'Z'}, {U'a', U'z'}}},
        {U"ascii", {{0, 0x7f}}},
        {U"blank", {{U'\t', U'\t'}, {U' ', U' '}}},
        {U"digit", {{U'0', U'9'}}},
        {U"lower", {{U'a', U'z'}}},
        {U"punct", {{U'!', U'/'}, {U':', U'@'}, {U'[', U'`'}, {U'{', U'~'}}},
        {U"space", {{U'\t', U'\r'}, {U' ', U' '}}},
        {U"upper", {{U'A', U'Z'}}},
        {U"word", {{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}}},
        {U"xdigit", {{U'0', U'9'}, {U'A', U'F'}, {U'a', U'f'}}},
    };
    const std::u32string_view rest = std::u32string_view(pattern_).substr(at_);
    for (const Row& row : kRows) {
      if (!rest.starts_with(U":") || rest.substr(1, row.name.size()) != row.name ||
          rest.substr(1 + row.name.size(), 2) != U":]") {
        continue;
      }
      to.ranges.insert(to.ranges.end(), row.ranges.begin(), row.ranges.end());
      at_ += row.name.size() + 3;
      return true;
    }
    return false;
  }

  Class bracket() {
    Class c;
    c.negated = take(U'^');
    for (bool first = true;; first = false) {
      if (!more()) fail("a [ has no ]");
      char32_t low = pattern_[at_++];
      if (low == U']' && !first) return c;
      if (low == U'[' && add_posix(c)) continue;
      if (low == U'\\') {
        if (!more()) fail("a [ has no ]");
        low = pattern_[at_++];
        if (add_named(low, c)) continue;
        low = escaped(low);
      }
      char32_t high = low;
      if (at_ + 1 < pattern_.size() && peek() == U'-' && pattern_[at_ + 1] != U']') {
        ++at_;
        high = pattern_[at_++];
        if (high == U'\\' && more()) high = escaped(pattern_[at_++]);
      }
      if (high < low) fail("a range ends before it begins");
      c.ranges.emplace_back(low, high);
    }
  }

  const std::string_view text_;
  const std::u32string pattern_;
  std::vector<Class>& classes_;
  size_t at_ = 0;
  bool any_case_ = false, dot_all_ = false, lines_ = false;
};

}  // namespace

struct Regex::Machine {
  std::vector<Class> classes;
  Code code;
};

Regex::Regex(std::string_view pattern) : machine_(std::make_unique<Machine>()) {
  machine_->code = PatternParser(pattern, machine_->classes).run();
}

Regex::~Regex() = default;

bool Regex::matches(std::string_view text) const {
  const Code& code = machine_->code;
  const std::u32string characters = decoded(text);
  std::vector<size_t> now, then, waiting;
  std::vector<size_t> seen(code.size(), 0);  // the step in which it was added, plus one
  const auto add = [&](std::vector<size_t>& list, size_t start, size_t at) {
    waiting.assign(1, start);
    while (!waiting.empty()) {
      const size_t i = waiting.back();
      waiting.pop_back();
      if (seen[i] == at + 1) continue;
      seen[i] = at + 1;
      const Instruction& in = code[i];
      const auto word = [&](size_t k) { return k < characters.size() && is_word(characters[k]); };
      const bool edge = (at > 0 && word(at - 1)) != word(at);
      switch (in.kind) {
        case Instruction::kSplit:
          waiting.push_back(i + in.other);
          waiting.push_back(i + in.to);
          break;
        case Instruction::kJump:
          waiting.push_back(i + in.to);
          break;
        case Instruction::kBegin:
          if (at == 0) waiting.push_back(i + 1);
          break;
        case Instruction::kEnd:
          if (at == characters.size()) waiting.push_back(i + 1);
          break;
        case Instruction::kWord:
          if (edge) waiting.push_back(i + 1);
          break;
        case Instruction::kNoWord:
          if (!edge) waiting.push_back(i + 1);
          break;
        default:
          list.push_back(i);
      }
    }
  };
  add(now, 0, 0);
  for (size_t at = 0; at < characters.size() && !now.empty(); ++at) {
    then.clear();
    for (size_t i : now) {
      const Instruction& in = code[i];
      if (in.kind == Instruction::kClass && machine_->classes[in.which].has(characters[at])) {
        add(then, i + 1, at + 1);
      }
    }
    std::swap(now, then);
  }
  return std::any_of(now.begin(), now.end(),
                     [&](size_t i) { return code[i].kind == Instruction::kMatch; });
}

}  // namespace stretto::ir
