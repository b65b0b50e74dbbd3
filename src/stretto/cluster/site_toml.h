// From the text of a site file to plain data: what is no TOML, unknown keys, values of another kind
// and values out of range are found here; contradictions are not.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/cluster/site.h"

namespace stretto::cluster {

// What [reserve] and the like say, and what they leave open.
struct SiteText {
  Site site;                  // lists of names are as in the file, defaults are those of keys()
  std::string reserve_nodes;  // as in the file
  bool lend_said = false;     // whether [reserve] says `lend`
  bool default_time_said = false;
  std::set<std::string> devices_said;  // the kinds whose table says `devices`
  std::vector<std::string> node_names, addresses, group_nodes;  // as in the file, one per entry
};

// Throws FormatError with file and line.
SiteText read_toml(std::string_view text, const std::string& file);

// "90m", "2-00:00" or "1:30:00" in seconds; -1 for what is no time.
int64_t parse_time(std::string_view text);

// Throws FormatError: "FILE:LINE: PROBLEM".
[[noreturn]] void fail_at(const std::string& file, int line, const std::string& problem);

}  // namespace stretto::cluster
