// What holds for any text that a scheduler prints, for the fuzzer and for the test of its corpus.
#pragma once

#include <array>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/cluster/kubernetes/check.h"
#include "stretto/cluster/slurm/check.h"

namespace stretto::cluster {

// A text that begins with { is what kubectl prints. Any other has what scontrol prints of config,
// partitions, nodes and reservations, with lines "---" between. It is compared with a site, or
// refused. Anything else than FormatError is thrown on. Returns whether it was compared.
inline bool check_any_answer(std::string_view text) {
  static const Site site = parse_site(
      "name = \"lab\"\n[[nodes]]\nnames = \"m[0-1]\"\nchip = \"v100\"\nchips = 8\ncores = 16\n"
      "[limits]\nmax_time = \"2h\"\n",
      "fuzz.toml");
  try {
    if (text.starts_with('{')) {
      kubernetes_differences(site, text);
      return true;
    }
    std::array<std::string, 4> parts;
    for (std::string& part : parts) {
      const size_t end = std::min(text.find("---\n"), text.size());
      part = text.substr(0, end);
      text.remove_prefix(std::min(end + 4, text.size()));
    }
    slurm_differences(site, {parts[0], parts[1], parts[2], parts[3]});
    return true;
  } catch (const FormatError&) {
    return false;
  }
}

}  // namespace stretto::cluster
