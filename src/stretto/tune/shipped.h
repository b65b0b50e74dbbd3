// The text of the record that ships with the product (tune/shipped.tsv, embedded at build time).
#pragma once

#include <string_view>

namespace stretto::tune {

std::string_view shipped_text();

}  // namespace stretto::tune
