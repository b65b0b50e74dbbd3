// What a site file's text has to be before a TOML parser may see it.
#pragma once

#include <string>
#include <string_view>

namespace stretto::cluster {

// Throws FormatError, with the line, for characters outside ASCII that are not in comments. No
// value of a site file can have them, and toml++ 3.3 reaches code that it declares unreachable when
// it asks whether some of them are white space.
void check_characters(std::string_view text, const std::string& file);

}  // namespace stretto::cluster
