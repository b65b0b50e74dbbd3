#include "outputs.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/base/file.h"

namespace stretto::cli {

void check_ending(const NamedFile& file, std::span<const std::string_view> endings) {
  const bool right = std::any_of(endings.begin(), endings.end(),
                                 [&](std::string_view end) { return file.path.ends_with(end); });
  if (file.path.empty() || right) return;
  throw_invalid("{}: expected a name that ends in {}, got {}", file.option,
                fmt::join(endings, " or "), file.path);
}

void check_outputs(std::span<const NamedFile> outputs, std::span<const NamedFile> inputs) {
  std::vector<NamedFile> taken(inputs.begin(), inputs.end());
  for (const NamedFile& output : outputs) {
    if (output.path.empty()) continue;
    for (const NamedFile& other : taken) {
      if (other.path.empty() || !same_file(output.path, other.path)) continue;
      throw_invalid("{} {}: this would replace {} {}; name another file", output.option,
                    output.path, other.option, other.path);
    }
    check_writable(output.path);
    taken.push_back(output);
  }
}

}  // namespace stretto::cli
