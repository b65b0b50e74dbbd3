// The data of the submit rule, for Lua and for C++.
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
struct Room {
  int64_t all = 0;
  int node = 0;
};
using Rooms = std::map<std::string, Room>;
using Sets = std::unordered_map<std::string, const NodeSet*>;

Sets sets_of(const Site& site) {
  Sets sets;
  for (const NodeSet& set : site.nodes) {
    for (const std::string& name : set.names) sets[name] = &set;
  }
  return sets;
}

Rooms rooms_of(const std::vector<std::string>& nodes, const Sets& sets) {
  Rooms by_kind;
  for (const std::string& name : nodes) {
    const NodeSet& set = *sets.at(name);
    if (set.chips == 0) continue;
    Room& room = by_kind[set.chip];
    room.all += set.chips;
    room.node = std::max(room.node, set.chips);
  }
  return by_kind;
}

std::string lua_room(const Rooms& rooms) {
  std::string out = "{";
  for (const auto& [kind, sum] : rooms) {
    out += fmt::format("{}[{}] = {{all = {}, node = {}}}", out.size() > 1 ? ", " : "",
                       lua_text(kind), sum.all, sum.node);
  }
  return out + "}";
}

// In quotes, for C++.
std::string cxx_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      out += fmt::format("\\{:03o}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string cxx_list(const std::vector<std::string>& words) {
  std::string out = "{";
  for (const std::string& word : words) out += (out.size() > 1 ? ", " : "") + cxx_text(word);
  return out + "}";
}

std::string cxx_room(const Rooms& rooms) {
  std::string out = "{";
  for (const auto& [kind, sum] : rooms) {
    out += fmt::format("{}{{{}, {{{}, {}}}}}", out.size() > 1 ? ", " : "", cxx_text(kind), sum.all,
                       sum.node);
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
  const Sets sets = sets_of(site);
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
        lua_room(rooms_of(p.nodes, sets)));
  }
  return out + "  },\n}\n";
}

std::string cxx_table(const Site& site) {
  const Sets sets = sets_of(site);
  std::string out =
      fmt::format("{{\n      {}, {},\n      {{", site.limits.most_chips, site.limits.most_nodes);
  const auto add = [&](const std::string& row) { out += "\n          {" + row + "},"; };
  for (const auto& [name, chip] : site.chips) {
    const Gres gres = gres_of(chip);
    add(fmt::format("{}, {}, {}", cxx_text(name), cxx_text(gres.name), cxx_text(gres.type)));
  }
  out += "\n      },\n      {";
  for (const Group& group : site.groups) {
    const int most = group.most_chips == 0 && !group.chipless ? -1 : group.most_chips;
    add(fmt::format("{}, {}, {}", cxx_text(group.name), group.least_chips, most));
  }
  out += "\n      },\n      {";
  for (const Queue& queue : site.queues) {
    add(fmt::format("{}, {}, {}, {}, {}", cxx_text(queue.name), queue.is_default,
                    cxx_list(queue.users), cxx_list(queue.groups), queue.most_chips));
  }
  out += "\n      },\n      {";
  for (const Partition& p : partitions_of(site)) {
    add(fmt::format("{}, {}, {}, {}, {}, {}", cxx_text(p.name), cxx_text(p.queue),
                    cxx_text(p.group), p.spare, p.nodes.size(), cxx_room(rooms_of(p.nodes, sets))));
  }
  return out + "\n      },\n  }";
}

}  // namespace stretto::cluster
