// The tuning caches that ship with the product (shipped_*.tsv, embedded at build time).
#pragma once

#include <string_view>

namespace stretto::tune {

std::string_view shipped_zen5_text();

}  // namespace stretto::tune
