#include "stretto/ir/host/utf8.h"

#include <cstdint>

namespace stretto::ir {
namespace {

// Bytes that are no UTF-8, beyond all characters.
constexpr char32_t kStray = 0x110000;

// The character that begins at `at`, which moves behind it.
char32_t next(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(at++);
  if (first < 0x80) return first;
  const int more = first >= 0xf0 && first < 0xf8   ? 3
                   : first >= 0xe0 && first < 0xf0 ? 2
                   : first >= 0xc2 && first < 0xe0 ? 1
                                                   : 0;
  if (more == 0 || at + static_cast<size_t>(more) > text.size()) return kStray + first;
  char32_t c = first & (0x3f >> more);
  for (int i = 0; i < more; ++i) {
    const uint8_t tail = byte(at + static_cast<size_t>(i));
    if ((tail & 0xc0) != 0x80) return kStray + first;
    c = c << 6 | (tail & 0x3f);
  }
  if (c >= kStray) return kStray + first;
  at += static_cast<size_t>(more);
  return c;
}

}  // namespace

std::u32string decoded(std::string_view text) {
  std::u32string characters;
  for (size_t at = 0; at < text.size();) characters.push_back(next(text, at));
  return characters;
}

std::string encoded(std::u32string_view characters) {
  std::string text;
  for (const char32_t c : characters) {
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c >= kStray) {
      text += static_cast<char>(c - kStray);
    } else {
      const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
      text += static_cast<char>((0xf00 >> (more + 1) & 0xff) | c >> (6 * more));
      for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (c >> (6 * i) & 0x3f));
    }
  }
  return text;
}

char32_t lower_case(char32_t c) {
  if (c < 0x80) return c >= U'A' && c <= U'Z' ? c + 32 : c;
  if (c >= 0xc0 && c <= 0xde && c != 0xd7) return c + 32;  // Latin-1
  if (c == 0x178) return 0xff;
  if ((c >= 0x100 && c <= 0x12f) || (c >= 0x132 && c <= 0x137) || (c >= 0x14a && c <= 0x177)) {
    return c | 1;  // Latin Extended-A: pairs
  }
  if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17e)) return c + (c & 1);
  if (c >= 0x391 && c <= 0x3ab && c != 0x3a2) return c + 32;  // Greek
  if (c >= 0x410 && c <= 0x42f) return c + 32;                // Cyrillic
  if (c >= 0x400 && c <= 0x40f) return c + 80;
  return c;
}

char32_t upper_case(char32_t c) {
  if (c < 0x80) return c >= U'a' && c <= U'z' ? c - 32 : c;
  if (c >= 0xe0 && c <= 0xfe && c != 0xf7) return c - 32;
  if (c == 0xff) return 0x178;
  if (c == 0x131) return U'I';
  if ((c >= 0x100 && c <= 0x12f) || (c >= 0x132 && c <= 0x137) || (c >= 0x14a && c <= 0x177)) {
    return c & ~char32_t{1};
  }
  if ((c >= 0x13a && c <= 0x148) || (c >= 0x17a && c <= 0x17e)) return c - (c & 1 ? 0 : 1);
  if (c == 0x3c2) return 0x3a3;  // final sigma
  if (c >= 0x3b1 && c <= 0x3cb) return c - 32;
  if (c >= 0x430 && c <= 0x44f) return c - 32;
  if (c >= 0x450 && c <= 0x45f) return c - 80;
  return c;
}

}  // namespace stretto::ir
