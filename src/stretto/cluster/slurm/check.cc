#include "stretto/cluster/slurm/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "stretto/base/error.h"
#include "stretto/cluster/names.h"
#include "stretto/cluster/output.h"
#include "stretto/cluster/slurm/accounting.h"
#include "stretto/cluster/slurm/partitions.h"
#include "stretto/cluster/slurm/scontrol.h"
#include "stretto/cluster/slurm/slurm.h"

namespace stretto::cluster {
namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

bool same_word(std::string_view a, std::string_view b) { return lower_case(a) == lower_case(b); }

bool is_unlimited(std::string_view time) { return time == "UNLIMITED" || time == "NONE"; }

// A time of 0 is a limit, too, though Slurm's words for none are read as 0.
bool same_time(std::string_view a, std::string_view b) {
  return scontrol_time(a) >= 0 && scontrol_time(a) == scontrol_time(b) &&
         is_unlimited(a) == is_unlimited(b);
}

// Names of another form than the site's stay as they are.
std::set<std::string> names_of(std::string_view list) {
  std::set<std::string> names;
  for (const std::string_view part : split_names(list)) {
    try {
      for (std::string& name : expand_names(part)) names.insert(std::move(name));
    } catch (const InvalidArgument&) {
      names.emplace(part);
    }
  }
  return names;
}

bool same_names(std::string_view a, std::string_view b) { return names_of(a) == names_of(b); }

std::set<std::string> words_of(std::string_view list) {
  std::set<std::string> words;
  for (const std::string_view word : split_names(list)) {
    if (!word.empty()) words.insert(lower_case(word));
  }
  return words;
}

bool same_list(std::string_view a, std::string_view b) { return words_of(a) == words_of(b); }

// Of a setting that names plugins or gres: "job_submit/lua" means "lua".
std::set<std::string> listed_in(std::string_view list) {
  std::set<std::string> words;
  for (const std::string& word : words_of(list)) {
    const size_t kind =
        word.starts_with("job_submit/") || word.starts_with("gres/") ? word.find('/') + 1 : 0;
    words.insert(word.substr(kind));
  }
  return words;
}

// What keeps jobs out of a partition. It is left as it is by what is written, so it has Slurm's
// defaults: `open`, or `other`. Where only one value shuts it, that is `shut`.
constexpr struct {
  const char *key, *open, *other, *shut;
} kOpen[] = {
    {"RootOnly", "NO"},       {"ReqResv", "NO"},
    {"AllowGroups", "ALL"},   {"AllowAccounts", "ALL"},
    {"AllowQos", "ALL"},      {"AllocNodes", "ALL"},
    {"DenyAccounts", "none"}, {"DenyQos", "none"},
    {"MinNodes", "0", "1"},   {"OverSubscribe", "NO", nullptr, "EXCLUSIVE"},
};

// Settings that name several things, of which a site may have more than the site file asks for.
bool is_list(std::string_view setting) {
  return setting == "GresTypes" || setting == "JobSubmitPlugins" ||
         setting == "AccountingStorageTRES" || setting == "AccountingStorageEnforce";
}

// From 23.11 on, preempt/none is shown as (null).
std::string_view without_nothing(std::string_view value) {
  return value == "preempt/none" ? "" : value;
}

class SlurmComparison {
 public:
  SlurmComparison(const Site& site, const SlurmText& live)
      : site_(site),
        config_(config_of_scontrol(live.config)),
        partitions_(objects_of_scontrol(live.partitions, "PartitionName")),
        nodes_(objects_of_scontrol(live.nodes, "NodeName")),
        reservations_(objects_of_scontrol(live.reservations, "ReservationName")) {
    for (const NodeSet& set : site.nodes) names_.insert(set.names.begin(), set.names.end());
    for (const auto& [name, chip] : site.chips) {
      gres_.insert(gres_of(chip).name);
      features_.insert(name);
    }
    for (const Group& group : site.groups) features_.insert(group.name);
    for (const NodeSet& set : site.nodes) features_.insert({set.build, set.rack});
  }

  std::vector<Difference> all() {
    settings();
    for (const NodeLine& line : node_lines_of(site_)) nodes(line);
    for (const Partition& each : partitions_of(site_)) partition(each);
    foreign_partitions();
    reservations();
    return std::move(out_);
  }

 private:
  using Same = bool (*)(std::string_view, std::string_view);

  static std::string field(const Fields& fields, const std::string& key) {
    const auto at = fields.find(key);
    return at == fields.end() ? "" : at->second;
  }

  void expect(const std::string& what, const Fields& live, const std::string& key,
              const std::string& expected, int line, Same same = same_word) {
    const std::string found = field(live, key);
    if (!same(found, expected)) out_.push_back({what, key, expected, found, line});
  }

  void settings() {
    for (const auto& [key, expected] : required_settings_of(site_)) {
      const std::string found = field(config_, key);
      bool good = same_word(without_nothing(found), without_nothing(expected));
      if (is_list(key)) {
        const std::set<std::string> there = listed_in(found), asked = listed_in(expected);
        good = std::includes(there.begin(), there.end(), asked.begin(), asked.end());
        // The plugin decides as the Lua rule does.
        if (key == "JobSubmitPlugins") good = good || there.count(kSubmitPlugin);
      }
      const int line = key.starts_with("Preempt") ? site_.preemption.line : 0;
      if (!good) out_.push_back({"slurm.conf", key, expected, found, line});
    }
  }

  // Nodes that differ in the same way are one difference.
  void nodes(const NodeLine& line) {
    std::vector<std::tuple<std::string, std::string, std::string>> order;
    std::map<std::tuple<std::string, std::string, std::string>, std::vector<std::string>> names;
    for (const std::string& name : line.names) {
      std::vector<Difference> before = std::move(out_);
      out_.clear();
      node(line, name);
      std::swap(before, out_);
      for (Difference& each : before) {
        const auto key = std::tuple(each.key, each.expected, each.found);
        if (!names.count(key)) order.push_back(key);
        names[key].push_back(name);
      }
    }
    for (const auto& each : order) {
      const std::vector<std::string>& which = names.at(each);
      const auto& [key, expected, found] = each;
      out_.push_back(
          {fmt::format("{} {}", which.size() == 1 ? "node" : "nodes", compact_names(which)), key,
           expected, found, line.set->line});
    }
  }

  void node(const NodeLine& line, const std::string& name) {
    const NodeSet& set = *line.set;
    const auto at = nodes_.find(name);
    if (at == nodes_.end()) {
      out_.push_back({"", "", "a node", "", 0});
      return;
    }
    const Fields& live = at->second;
    expect("", live, "CPUTot", std::to_string(set.cores), 0);
    if (set.memory_mb > 0) expect("", live, "RealMemory", std::to_string(set.memory_mb), 0);
    gres(set, field(live, "Gres"));
    expect("", live, "Weight", std::to_string(line.weight), 0);
    features(line, field(live, "AvailableFeatures"));
  }

  // Other gres than the site's chips do not matter.
  void gres(const NodeSet& set, const std::string& found) {
    std::map<std::string, int64_t> expected, there;
    if (set.chips > 0) expected[site_.chips.at(set.chip).gres] = set.chips;
    for (const auto& [name, count] : gres_counts(found)) {
      if (gres_.count(name.substr(0, name.find(':')))) there[name] = count;
    }
    if (there == expected) return;
    const auto text = [](const std::map<std::string, int64_t>& counts) {
      std::string out;
      for (const auto& [name, count] : counts) {
        out += fmt::format("{}{}:{}", out.empty() ? "" : ",", name, count);
      }
      return out;
    };
    out_.push_back({"", "Gres", text(expected), text(there), 0});
  }

  // Of chips, groups, builds and racks; a site may have other features.
  void features(const NodeLine& line, const std::string& found) {
    std::vector<std::string> ours;
    for (const std::string_view word : split_names(found)) {
      if (features_.count(std::string(word)) && !word.empty()) ours.emplace_back(word);
    }
    std::string expected = features_of(line);
    std::set<std::string> asked;
    for (const std::string_view word : split_names(expected)) asked.emplace(word);
    if (std::set<std::string>(ours.begin(), ours.end()) == asked) return;
    out_.push_back(
        {"", "AvailableFeatures", std::move(expected), fmt::format("{}", fmt::join(ours, ",")), 0});
  }

  void partition(const Partition& p) {
    const std::string what = "partition " + p.name;
    const auto at = partitions_.find(p.name);
    if (at == partitions_.end()) {
      out_.push_back({what, "", "a partition", "", p.line});
      return;
    }
    const Fields& live = at->second;
    expect(what, live, "Nodes", compact_names(p.nodes), p.line, same_names);
    expect(what, live, "PriorityTier", std::to_string(p.tier), p.line);
    expect(what, live, "PriorityJobFactor", std::to_string(p.factor), p.line);
    if (site_.preemption.mode != Preemption::kOff) {
      expect(what, live, "PreemptMode", preempt_mode_of(site_, p), p.line);
      if (p.preemptible) {
        expect(what, live, "GraceTime", std::to_string(site_.preemption.grace_s),
               site_.preemption.line > 0 ? site_.preemption.line : p.line);
      }
    }
    // Slurm counts whole minutes.
    const auto minutes = [](int64_t seconds) { return conf_time((seconds + 59) / 60 * 60); };
    expect(what, live, "MaxTime", minutes(p.longest_s), p.line, same_time);
    expect(what, live, "DefaultTime", minutes(p.default_s), p.line, same_time);
    expect(what, live, "MaxNodes", p.most_nodes == 0 ? "UNLIMITED" : std::to_string(p.most_nodes),
           p.line);
    if (const std::string weights = billing_weights(site_); !weights.empty()) {
      expect(what, live, "TRESBillingWeights", weights, p.line, same_list);
    }
    expect(what, live, "Default", p.is_default ? "YES" : "NO", p.line);
    expect(what, live, "State", "UP", p.line);
    for (const auto& [key, open, other, shut] : kOpen) {
      const std::string found = field(live, key);
      if (found.empty() || same_word(found, open) || (other && found == other)) continue;
      if (shut && !same_word(found, shut)) continue;
      out_.push_back(
          {what, key, other ? fmt::format("{} or {}", open, other) : open, found, p.line});
    }
    for (const Queue& queue : site_.queues) {
      if (queue.name != p.queue || queue.most_chips == 0) continue;
      expect(what, live, "QoS", queue.name, queue.line);
    }
  }

  // The site's nodes among `list`, in Slurm's form.
  std::string ours_among(const std::string& list) const {
    std::vector<std::string> ours;
    for (const std::string& name : names_of(list)) {
      if (names_.count(name)) ours.push_back(name);
    }
    return compact_names(ours);
  }

  void foreign_partitions() {
    std::set<std::string> known;
    for (const Partition& each : partitions_of(site_)) known.insert(each.name);
    for (const auto& [name, live] : partitions_) {
      if (known.count(name) || field(live, "RootOnly") == "YES" ||
          (field(live, "State") != "UP" && field(live, "State") != "DRAIN")) {
        continue;
      }
      const std::string nodes = ours_among(field(live, "Nodes"));
      if (!nodes.empty()) {
        out_.push_back({"partition " + in_comment(name), "Nodes", "", nodes, 0});
      }
    }
  }

  void reservations() {
    for (const auto& [name, live] : reservations_) {
      if (words_of(field(live, "Flags")).count("maint")) continue;
      const std::string nodes = ours_among(field(live, "Nodes"));
      if (!nodes.empty()) {
        out_.push_back({"reservation " + in_comment(name), "Nodes", "", nodes, site_.reserve.line});
      }
    }
  }

  const Site& site_;
  Fields config_;
  std::map<std::string, Fields> partitions_, nodes_, reservations_;
  std::set<std::string> names_, gres_, features_;  // of the site file
  std::vector<Difference> out_;
};

}  // namespace

std::vector<Difference> slurm_differences(const Site& site, const SlurmText& live) {
  return SlurmComparison(site, live).all();
}

}  // namespace stretto::cluster
