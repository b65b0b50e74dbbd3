// Lists of node names in Slurm's form. site.h declares what others use: expand_names() and
// compact_names().
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto::cluster {

// Splits at the commas outside brackets: "m[0-3,7],r0" -> "m[0-3,7]" "r0".
std::vector<std::string_view> split_names(std::string_view list);

// How compact_names() sorts: numbers within names by their value, so m2 comes before m10.
bool names_before(std::string_view a, std::string_view b);

}  // namespace stretto::cluster
