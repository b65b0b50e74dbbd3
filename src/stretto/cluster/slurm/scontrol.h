// What `scontrol show` prints, of versions 22.05 to 25.11: only names of fields that all of them
// have matter, so that fields which come and go do not.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

namespace stretto::cluster {

using Fields = std::unordered_map<std::string, std::string>;

// `scontrol show config`: "PreemptMode             = REQUEUE". Values that are "(null)" or "N/A"
// are empty. Throws FormatError for what scontrol did not print.
Fields config_of_scontrol(std::string_view text);

// `scontrol -a -o show partition` and the like: a line for each object, which begins with `key`,
// that of its name. Throws FormatError for what scontrol did not print.
std::map<std::string, Fields> objects_of_scontrol(std::string_view text, std::string_view key);

// "gpu:v100:4(S:0),gpu:v100:4(S:1),shard:8": how many there are by name and type.
std::map<std::string, int64_t> gres_counts(std::string_view text);

// "UNLIMITED" or "NONE" is 0, "1-00:00:00" or "00:10:00" seconds; -1 for what is neither.
int64_t scontrol_time(std::string_view text);

}  // namespace stretto::cluster
