// Characters of UTF-8 text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto::ir {

// Bytes that are no UTF-8 stand for themselves.
std::u32string decoded(std::string_view text);
std::string encoded(std::u32string_view characters);

// Of the Latin, Greek and Cyrillic alphabets; others stay as they are.
char32_t lower_case(char32_t c);
char32_t upper_case(char32_t c);

}  // namespace stretto::ir
