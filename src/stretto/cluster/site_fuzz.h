// What holds for any text given as a site file, for the fuzzer and for the test of its corpus.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/cluster/kubernetes/kubernetes.h"
#include "stretto/cluster/site.h"
#include "stretto/cluster/slurm/slurm.h"

namespace stretto::cluster {

// A text is either a site, every node of which is in one place, or refused with an error that names
// the file and a line. What is written from a site is ASCII text, or refused for a policy that
// cannot be expressed. Anything else throws InternalError. Returns whether it was a site.
inline bool check_any_site(std::string_view text) {
  Site site;
  try {
    site = parse_site(text, "fuzz.toml");
  } catch (const FormatError& e) {
    STRETTO_CHECK(std::string_view(e.what()).starts_with("fuzz.toml:"), "no line in '{}'",
                  e.what());
    return false;
  }
  size_t nodes = 0, placed = site.reserve.nodes.size();
  for (const NodeSet& set : site.nodes) nodes += set.names.size();
  for (const Group& group : site.groups) {
    placed += group.nodes.size();
    const Group* found = group_of(site, group.least_chips);
    STRETTO_CHECK(found == &group, "jobs of {} are not in group {}", group.least_chips, group.name);
    STRETTO_CHECK(expand_names(compact_names(group.nodes)).size() == group.nodes.size(),
                  "the names of group {} do not survive", group.name);
  }
  STRETTO_CHECK(nodes == placed, "{} nodes, {} of them placed", nodes, placed);
  const auto check_files = [](const Files& files) {
    for (const auto& [name, written] : files) {
      const bool plain = std::all_of(written.begin(), written.end(),
                                     [](char c) { return c == '\n' || (c >= 0x20 && c < 0x7f); });
      STRETTO_CHECK(plain, "{} has other characters than ASCII", name);
    }
  };
  for (const bool slurm : {true, false}) {
    try {
      check_files(slurm ? write_slurm(site) : write_kubernetes(site));
    } catch (const Unsupported&) {
    }
  }
  return true;
}

}  // namespace stretto::cluster
