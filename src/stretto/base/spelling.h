// Which known word a misspelt one probably means.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stretto {

// The word that takes the fewest changed, missing, added or swapped letters; empty when the nearest
// takes more than a third of `word`'s length.
std::string nearest_word(std::string_view word, std::span<const std::string> known);

}  // namespace stretto
