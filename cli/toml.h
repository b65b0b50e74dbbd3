// The part of TOML 1.0 that a file of options needs: sections, and keys whose values are strings,
// numbers, booleans or lists of these.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto::cli {

// A line "name = value", or the header of a section where `name` is empty.
struct TomlItem {
  std::vector<std::string> section;  // {"kernels", "conv2d"}
  std::string name;
  std::vector<std::string> values;  // as text: one, or those of a list
  int line = 0;                     // from 1
};

// Throws InvalidArgument with `file` and the line for what is no TOML, what is given twice, and for
// tables in braces, lists of tables, dates, and strings of several lines.
std::vector<TomlItem> parse_toml(std::string_view text, const std::string& file);

}  // namespace stretto::cli
