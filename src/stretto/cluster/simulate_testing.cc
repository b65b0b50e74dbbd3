#include "stretto/cluster/simulate_testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "stretto/cluster/trace/lines.h"

namespace stretto::cluster {

Site plain_site(int nodes, int chips) {
  Site site{.name = "test", .file = "test.toml"};
  NodeSet set{.chip = "v100", .chips = chips, .cores = 8, .build = "v100"};
  for (int i = 0; i < nodes; ++i) set.names.push_back(fmt::format("n{}", i));
  site.groups.push_back({.name = "all", .nodes = set.names, .least_chips = 0});
  site.nodes.push_back(std::move(set));
  site.preemption.mode = Preemption::kOff;
  site.queues.push_back({.name = "normal", .priority = 10, .is_default = true});
  return site;
}

Site split_site(int nodes, int chips, int single, bool spill) {
  Site site = plain_site(nodes, chips);
  const std::vector<std::string> names = site.groups[0].nodes;
  site.groups[0] = {.name = "single",
                    .nodes = {names.begin(), names.begin() + single},
                    .least_chips = 1,
                    .most_chips = 1};
  site.groups.push_back(
      {.name = "multi", .nodes = {names.begin() + single, names.end()}, .least_chips = 2});
  if (spill) {
    site.groups[0].spill = {"multi"};
    site.groups[1].spill = {"single"};
  }
  return site;
}

void add_urgent(Site& site, int reserve, bool lend, Preemption preemption) {
  site.queues.insert(
      site.queues.begin(),
      {.name = "urgent", .priority = 100, .preempts = preemption != Preemption::kOff});
  site.preemption.mode = preemption;
  if (reserve == 0) return;
  std::vector<std::string>& nodes = site.groups.back().nodes;
  site.reserve = {
      .nodes = {nodes.end() - reserve, nodes.end()}, .queues = {"urgent"}, .lend = lend, .line = 1};
  nodes.resize(nodes.size() - static_cast<size_t>(reserve));
}

Site openb_site(std::string_view csv) {
  Site site = plain_site(0, 0);
  site.nodes.clear();
  site.groups[0].nodes.clear();
  std::map<std::string, size_t> sets;
  Lines lines(csv, "nodes.csv", ',');
  while (lines.next()) {
    const std::string key =
        fmt::format("{},{},{},{}", lines.cell(1), lines.cell(2), lines.cell(3), lines.cell(4));
    const auto [at, added] = sets.try_emplace(key, site.nodes.size());
    if (added) {
      site.nodes.push_back({.chip = std::string(lines.cell(4)),
                            .chips = static_cast<int>(lines.whole(3, 0, 64)),
                            .cores = static_cast<int>(lines.whole(1, 0, 1 << 30) / 1000),
                            .memory_mb = lines.whole(2, 0, 1 << 30)});
    }
    site.nodes[at->second].names.emplace_back(lines.cell(0));
    site.groups[0].nodes.emplace_back(lines.cell(0));
  }
  return site;
}

Trace make_trace(const std::vector<TestJob>& jobs) {
  Trace trace{.file = "test", .format = "test"};
  Names queues(trace.queues), users(trace.users);
  for (const TestJob& job : jobs) {
    const int64_t duration = std::llround(job.duration_s * 1000);
    trace.jobs.push_back({.submit_ms = std::llround(job.submit_s * 1000),
                          .duration_ms = duration,
                          .predicted_ms = duration,
                          .chips = job.chips,
                          .queue = queues.index(job.queue),
                          .user = users.index(job.user)});
  }
  return trace;
}

}  // namespace stretto::cluster
