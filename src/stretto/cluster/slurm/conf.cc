// slurm.conf, gres.conf and topology.conf.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "stretto/base/error.h"
#include "stretto/cluster/embedded.h"
#include "stretto/cluster/names.h"
#include "stretto/cluster/slurm/accounting.h"
#include "stretto/cluster/slurm/partitions.h"
#include "stretto/cluster/slurm/slurm.h"

namespace stretto::cluster {
namespace {

std::string node_line(const Site& site, const NodeLine& line, const SlurmTarget& target,
                      size_t before) {
  const NodeSet& set = *line.set;
  std::string out = from_line(site, set.line);
  if (line.addresses.empty() || target.first_port > 0) {
    out += fmt::format("NodeName={}", conf_word(compact_names(line.names)));
  } else {  // one by one, in the order of the addresses
    out += fmt::format("NodeName={} NodeAddr={}",
                       conf_word(fmt::format("{}", fmt::join(line.names, ","))),
                       conf_word(fmt::format("{}", fmt::join(line.addresses, ","))));
  }
  if (target.first_port > 0) {
    const size_t first = static_cast<size_t>(target.first_port) + before;
    const size_t last = first + line.names.size() - 1;
    if (last > 65535)
      throw_invalid("--loopback-port {}: its nodes need ports up to {}", target.first_port, last);
    out += " NodeHostname=localhost NodeAddr=127.0.0.1 Port=";
    out += line.names.size() == 1 ? fmt::format("{}", first) : fmt::format("[{}-{}]", first, last);
    out +=
        fmt::format(" CPUs={0} Boards=1 Sockets=1 CoresPerSocket={0} ThreadsPerCore=1", set.cores);
  } else {
    out += fmt::format(" CPUs={}", set.cores);
  }
  if (set.memory_mb > 0) out += fmt::format(" RealMemory={}", set.memory_mb);
  if (set.chips > 0) {
    out += fmt::format(" Gres={}:{}", conf_word(site.chips.at(set.chip).gres), set.chips);
  }
  return out + fmt::format(" Feature={} Weight={} State=UNKNOWN\n", features_of(line), line.weight);
}

std::string partition_line(const Site& site, const Partition& p) {
  const bool preemption = site.preemption.mode != Preemption::kOff;
  std::string out = from_line(site, p.line);
  out += fmt::format("PartitionName={} Nodes={} PriorityTier={} PriorityJobFactor={}",
                     conf_word(p.name), conf_word(compact_names(p.nodes)), p.tier, p.factor);
  if (preemption) {
    out += fmt::format(" PreemptMode={}", preempt_mode_of(site, p));
    if (p.preemptible) out += fmt::format(" GraceTime={}", site.preemption.grace_s);
  }
  out += fmt::format(" MaxTime={} DefaultTime={}", conf_time(p.longest_s), conf_time(p.default_s));
  if (p.most_nodes > 0) out += fmt::format(" MaxNodes={}", p.most_nodes);
  return out + fmt::format("{} State=UP\n", p.is_default ? " Default=YES" : "");
}

std::string slurm_conf(const Site& site, const SlurmTarget& target) {
  std::string out = fmt::format(
      "# Written by `stretto cluster compile` from {}: change that file, not this one.\n"
      "# To be included by slurm.conf, which has to say, too:\n"
      "#   SelectType=select/cons_tres\n"
      "#   SelectTypeParameters=CR_Core (or another that counts cores)\n"
      "#   EnforcePartLimits=ALL\n"
      "# and does well to say, where jobs are preempted:\n"
      "#   SchedulerParameters=preempt_youngest_first,preempt_send_user_signal\n\n",
      in_comment(site.file));
  if (site.preemption.line > 0) out += from_line(site, site.preemption.line);
  for (const auto& [name, value] : settings_of(site)) out += fmt::format("{}={}\n", name, value);
  out += '\n';
  size_t count = 0;
  for (const NodeLine& line : node_lines_of(site)) {
    out += node_line(site, line, target, count);
    count += line.names.size();
  }
  out += "\n# A job's queue and size name its partition: see job_submit.lua.\n";
  for (const Partition& partition : partitions_of(site)) out += partition_line(site, partition);
  return out;
}

std::string gres_conf(const Site& site, const SlurmTarget& target) {
  std::string out = fmt::format("# Written by `stretto cluster compile` from {}.\nAutoDetect=off\n",
                                in_comment(site.file));
  for (const NodeLine& line : node_lines_of(site)) {
    const NodeSet& set = *line.set;
    if (set.chips == 0) continue;
    const ChipKind& chip = site.chips.at(set.chip);
    const Gres gres = gres_of(chip);
    out += from_line(site, set.line);
    out += fmt::format("NodeName={} Name={}", conf_word(compact_names(line.names)),
                       conf_word(gres.name));
    if (!gres.type.empty()) out += fmt::format(" Type={}", conf_word(gres.type));
    std::vector<std::string> devices;
    if (!chip.devices.empty()) {
      devices = target.first_port > 0 ? target.devices : expand_names(chip.devices);
      const size_t chips = static_cast<size_t>(set.chips);
      if (devices.size() < chips) {
        throw_unsupported(
            "{}:{}: {} chips per node, but this machine has {} device files to stand "
            "for them: use another gres than gpu for them, without devices",
            site.file, set.line, set.chips, devices.size());
      }
      devices.resize(chips);
    }
    if (devices.empty()) {
      out += fmt::format(" Count={}\n", set.chips);
    } else {
      out += fmt::format(" File={}\n", conf_word(compact_names(devices)));
    }
  }
  return out;
}

// Slurm places a job within one switch if it can: here these are racks.
std::string topology_conf(const Site& site) {
  std::map<std::string, std::vector<std::string>> racks;
  std::vector<std::string> elsewhere;
  for (const NodeSet& set : site.nodes) {
    std::vector<std::string>& nodes = set.rack.empty() ? elsewhere : racks[set.rack];
    nodes.insert(nodes.end(), set.names.begin(), set.names.end());
  }
  if (racks.empty()) return "";
  std::string out =
      fmt::format("# Written by `stretto cluster compile` from {}: racks as switches.\n",
                  in_comment(site.file));
  std::vector<std::string> names;
  const auto add = [&](const std::string& name, const std::vector<std::string>& nodes) {
    out +=
        fmt::format("SwitchName={} Nodes={}\n", conf_word(name), conf_word(compact_names(nodes)));
    names.push_back(name);
  };
  for (const auto& [rack, nodes] : racks) add("rack." + rack, nodes);
  if (!elsewhere.empty()) add("elsewhere", elsewhere);
  return out + fmt::format("SwitchName=site Switches={}\n", fmt::join(names, ","));
}

// `text` with the site's table in place of `mark`.
std::string with_table(std::string_view text, std::string_view mark, const std::string& table) {
  std::string out(text);
  const size_t at = out.find(mark);
  STRETTO_CHECK(at != out.npos, "the submit rule has no place for its table");
  return out.replace(at, mark.size(), table);
}

}  // namespace

std::string features_of(const NodeLine& line) {
  std::vector<std::string> all;
  for (const std::string& word : {line.set->chip, line.group, line.set->build, line.set->rack}) {
    if (!word.empty() && !std::count(all.begin(), all.end(), word)) all.push_back(conf_word(word));
  }
  return fmt::format("{}", fmt::join(all, ","));
}

std::string preempt_mode_of(const Site& site, const Partition& partition) {
  if (!partition.preemptible) return "OFF";
  return site.preemption.mode == Preemption::kRequeue ? "REQUEUE" : "CANCEL";
}

std::string conf_word(std::string_view text) {
  constexpr std::string_view kOthers = "_.,:/@+-[]";
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (plain || kOthers.find(c) != kOthers.npos) continue;
    throw_invalid("'{}': Slurm's files cannot hold this word", in_comment(text));
  }
  if (text.empty()) throw_invalid("an empty word in Slurm's files");
  return std::string(text);
}

std::string conf_time(int64_t s) {
  if (s == 0) return "UNLIMITED";
  return fmt::format("{}-{:02}:{:02}:{:02}", s / 86400, s / 3600 % 24, s / 60 % 60, s % 60);
}

std::vector<std::string> character_devices() {
  std::vector<std::string> terminals, others;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    if (entry.is_symlink() || !entry.is_character_file(error)) continue;
    const std::string path = entry.path().string();
    const bool good = path.find_first_not_of("/abcdefghijklmnopqrstuvwxyz0123456789") == path.npos;
    if (good) (path.starts_with("/dev/tty") ? terminals : others).push_back(path);
  }
  std::sort(terminals.begin(), terminals.end(), names_before);
  std::sort(others.begin(), others.end(), names_before);
  terminals.insert(terminals.end(), others.begin(), others.end());
  return terminals;
}

Gres gres_of(const ChipKind& chip) {
  const size_t colon = chip.gres.find(':');
  if (colon == std::string::npos) return {chip.gres, ""};
  return {chip.gres.substr(0, colon), chip.gres.substr(colon + 1)};
}

std::string from_line(const Site& site, int line) {
  return fmt::format("# {}:{}\n", in_comment(site.file), line);
}

std::set<std::string> gres_names(const Site& site) {
  std::set<std::string> names;
  for (const auto& [name, chip] : site.chips) names.insert(gres_of(chip).name);
  return names;
}

std::vector<std::pair<std::string, std::string>> settings_of(const Site& site) {
  std::vector<std::pair<std::string, std::string>> all;
  const std::set<std::string> gres = gres_names(site);
  if (!gres.empty())
    all.emplace_back("GresTypes", conf_word(fmt::format("{}", fmt::join(gres, ","))));
  all.emplace_back("JobSubmitPlugins", "lua");
  all.emplace_back("PriorityType", "priority/multifactor");
  all.emplace_back("PriorityWeightPartition", std::to_string(partition_weight(site)));
  if (site.preemption.mode == Preemption::kOff) {
    all.emplace_back("PreemptType", "preempt/none");
    all.emplace_back("PreemptMode", "OFF");
  } else {
    all.emplace_back("PreemptType", "preempt/partition_prio");
    all.emplace_back("PreemptMode",
                     site.preemption.mode == Preemption::kRequeue ? "REQUEUE" : "CANCEL");
  }
  const bool racks = std::any_of(site.nodes.begin(), site.nodes.end(),
                                 [](const NodeSet& set) { return !set.rack.empty(); });
  if (racks) all.emplace_back("TopologyPlugin", "topology/tree");
  return all;
}

std::vector<std::pair<std::string, std::string>> required_settings_of(const Site& site) {
  std::vector<std::pair<std::string, std::string>> all = settings_of(site);
  all.emplace_back("SelectType", "select/cons_tres");
  all.emplace_back("EnforcePartLimits", "ALL");
  for (auto& each : accounting_settings(site)) all.push_back(std::move(each));
  return all;
}

Files write_slurm(const Site& site, const SlurmTarget& target) {
  Files files = {{"slurm/slurm.conf", slurm_conf(site, target)},
                 {"slurm/gres.conf", gres_conf(site, target)}};
  files["slurm/job_submit.lua"] =
      fmt::format("-- Written by `stretto cluster compile` from {}.\n{}", in_comment(site.file),
                  with_table(submit_rule_text(), "local site = {}\n", lua_table(site)));
  files["slurm/job_submit_stretto.cpp"] =
      fmt::format("// Written by `stretto cluster compile` from {}.\n//\n{}", in_comment(site.file),
                  with_table(submit_plugin_text(), "{};  // the site", cxx_table(site) + ";"));
  if (std::string text = topology_conf(site); !text.empty()) {
    files["slurm/topology.conf"] = std::move(text);
  }
  for (auto& [name, text] : accounting_files(site)) files[name] = std::move(text);
  return files;
}

}  // namespace stretto::cluster
