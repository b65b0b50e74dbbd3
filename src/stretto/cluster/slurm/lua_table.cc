// The data of the submit rule.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "stretto/cluster/slurm/partitions.h"
#include "stretto/cluster/slurm/slurm.h"

namespace stretto::cluster {
namespace {

std::string lua_list(const std::vector<std::string>& words) {
  std::string out = "{";
  for (const std::string& word : words) out += (out.size() > 1 ? ", " : "") + lua_text(word);
  return out + "}";
}

// What a partition can give: chips of each kind on all its nodes, and on its largest node.
std::string lua_room(const std::vector<std::string>& nodes,
                     const std::unordered_map<std::string, const NodeSet*>& sets) {
  struct Sum {
    int64_t all = 0;
    int node = 0;
  };
  std::map<std::string, Sum> by_kind;
  for (const std::string& name : nodes) {
    const NodeSet& set = *sets.at(name);
    if (set.chips == 0) continue;
    Sum& sum = by_kind[set.chip];
    sum.all += set.chips;
    sum.node = std::max(sum.node, set.chips);
  }
  std::string out = "{";
  for (const auto& [kind, sum] : by_kind) {
    out += fmt::format("{}[{}] = {{all = {}, node = {}}}", out.size() > 1 ? ", " : "",
                       lua_text(kind), sum.all, sum.node);
  }
  return out + "}";
}

}  // namespace

std::string lua_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      out += fmt::format("\\{:03}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string lua_table(const Site& site) {
  std::unordered_map<std::string, const NodeSet*> sets;
  for (const NodeSet& set : site.nodes) {
    for (const std::string& name : set.names) sets[name] = &set;
  }
  std::string out = fmt::format("local site = {{\n  max_chips = {}, max_nodes = {},\n",
                                site.limits.most_chips, site.limits.most_nodes);
  out += "  kinds = {\n";
  for (const auto& [name, chip] : site.chips) {
    const Gres gres = gres_of(chip);
    out += fmt::format("    {{chip = {}, gres = {}, type = {}}},\n", lua_text(name),
                       lua_text(gres.name), lua_text(gres.type));
  }
  out += "  },\n  groups = {\n";
  for (const Group& group : site.groups) {
    out += fmt::format(
        "    {{name = {}, least = {}, most = {}}},\n", lua_text(group.name), group.least_chips,
        group.most_chips == 0 && !group.chipless ? "math.huge" : std::to_string(group.most_chips));
  }
  out += "  },\n  queues = {\n";
  for (const Queue& queue : site.queues) {
    out +=
        fmt::format("    {{name = {}, default = {}, users = {}, groups = {}, max_chips = {}}},\n",
                    lua_text(queue.name), queue.is_default, lua_list(queue.users),
                    lua_list(queue.groups), queue.most_chips);
  }
  out += "  },\n  partitions = {\n";
  for (const Partition& p : partitions_of(site)) {
    out += fmt::format(
        "    {{name = {}, queue = {}, group = {}, spare = {}, nodes = {}, room = {}}},\n",
        lua_text(p.name), lua_text(p.queue), lua_text(p.group), p.spare, p.nodes.size(),
        lua_room(p.nodes, sets));
  }
  return out + "  },\n}\n";
}

}  // namespace stretto::cluster
