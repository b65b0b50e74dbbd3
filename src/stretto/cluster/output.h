// What is written from a site: texts by path within the output folder, and the folder as a whole.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace stretto::cluster {

using Files = std::map<std::string, std::string>;  // "slurm/gres.conf" -> its text

// Writes all files into `folder`, or nothing: they go to a new folder beside it, which is renamed.
// A folder that exists is replaced if it is empty or was written by this function; throws
// InvalidArgument if it has anything else in it, FormatError if the system refuses.
void write_folder(const std::string& folder, const Files& files);

// For comments: control characters, backslashes and what is no ASCII become '?'.
std::string in_comment(std::string_view text);

}  // namespace stretto::cluster
