#include "stretto/cluster/site_characters.h"

#include <algorithm>

#include "stretto/cluster/site_toml.h"

namespace stretto::cluster {
namespace {

// The end of the string that begins at `at`: behind its last quote, or, where that is missing, the
// end of the line or of the text.
size_t end_of_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const bool basic = quote == '"';  // has escapes
  const std::string three(3, quote);
  const bool many_lines = text.substr(at, 3) == three;
  for (at += many_lines ? 3 : 1; at < text.size(); ++at) {
    if (basic && text[at] == '\\') {
      ++at;
    } else if (many_lines && text.substr(at, 3) == three) {
      at += 3;
      // Up to two quotes may belong to the text itself.
      for (int i = 0; i < 2 && at < text.size() && text[at] == quote; ++i) ++at;
      return at;
    } else if (!many_lines && text[at] == quote) {
      return at + 1;
    } else if (!many_lines && text[at] == '\n') {
      return at;
    }
  }
  return text.size();
}

}  // namespace

void check_characters(std::string_view text, const std::string& file) {
  const size_t start = text.starts_with("\xef\xbb\xbf") ? 3 : 0;  // a byte order mark
  int line = 1;
  for (size_t at = start; at < text.size();) {
    const size_t end = text[at] == '#' ? std::min(text.find('\n', at), text.size())
                       : text[at] == '"' || text[at] == '\'' ? end_of_string(text, at)
                                                             : at + 1;
    const bool comment = text[at] == '#';
    for (; at < end; ++at) {
      if (text[at] == '\n') ++line;
      if (comment || static_cast<unsigned char>(text[at]) < 0x80) continue;
      fail_at(file, line,
              "a character that is not ASCII: names and other values consist of ASCII letters, "
              "digits and signs; others are for comments");
    }
  }
}

}  // namespace stretto::cluster
