#include "stretto/cluster/slurm/accounting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stretto/cluster/names.h"
#include "stretto/cluster/slurm/slurm.h"

namespace stretto::cluster {
namespace {

constexpr int64_t kFairshareWeight = 5000, kPartitionWeight = 10000;

// "gres/gpu,gres/npu", each with `suffix`.
std::string each_gres(const Site& site, const std::string& suffix = "") {
  std::string out;
  for (const std::string& name : gres_names(site)) {
    out += fmt::format("{}gres/{}{}", out.empty() ? "" : ",", conf_word(name), suffix);
  }
  return out;
}

std::string accounting_conf(const Site& site) {
  std::string out = fmt::format(
      "# Written by `stretto cluster compile` from {}: change that file, not this one.\n"
      "# Once slurmdbd is set up, include this in slurm.conf, BEFORE the other file: what it says "
      "of\n"
      "# PartitionName=DEFAULT holds for partitions that come later. Without slurmdbd slurmctld "
      "does\n"
      "# not start with it.\n",
      in_comment(site.file));
  for (const auto& [key, value] : accounting_settings(site)) {
    out += fmt::format("{}={}\n", key, value);
  }
  if (const std::string weights = billing_weights(site); !weights.empty()) {
    out += fmt::format(
        "\n# Users pay for chips. A core costs a thousandth of one, so that jobs without chips "
        "are\n"
        "# told apart.\nPartitionName=DEFAULT TRESBillingWeights={}\n",
        weights);
  }
  return out;
}

std::string accounting_script(const Site& site) {
  const std::string name = conf_word(site.name);
  std::string out = fmt::format(
      "#!/bin/sh\n# Written by `stretto cluster compile` from {}.\n"
      "# Shares and limits of users and queues live in Slurm's accounting database (slurmdbd). "
      "Run\n"
      "# this once it is set up, and slurm.conf includes accounting.conf. Every other user needs\n"
      "# a line `sacctmgr -i add user NAME account={} cluster=\"$cluster\" fairshare=100`.\n"
      "set -eu\n"
      "cluster=$(scontrol show config | sed -n 's/^ClusterName *= *//p')\n"
      "add() {{  # what is there already is no error, so that this can run again\n"
      "  out=$(sacctmgr -i add \"$@\" 2>&1) || case $out in\n"
      "    *'Nothing new added'*) ;;\n"
      "    *) echo \"$out\" >&2; exit 1 ;;\n"
      "  esac\n"
      "}}\n",
      in_comment(site.file), name);
  out += fmt::format("add account {} cluster=\"$cluster\"\n", name);
  for (const User& user : site.users) {
    out += from_line(site, user.line);
    const std::string who = conf_word(user.name);
    out += fmt::format("add user {} account={} cluster=\"$cluster\"\n", who, name);
    const std::string limit =
        user.most_chips == 0 ? ""
                             : " GrpTRES=" + each_gres(site, fmt::format("={}", user.most_chips));
    out += fmt::format(
        "sacctmgr -i modify user {} where account={} cluster=\"$cluster\" set fairshare={}{}\n",
        who, name, fairshare_of(user), limit);
  }
  for (const Queue& queue : site.queues) {
    if (queue.most_chips == 0) continue;
    out += from_line(site, queue.line);
    out +=
        fmt::format("# and let its partitions in slurm.conf have QOS={}\n", conf_word(queue.name));
    out +=
        fmt::format("add qos {0}\nsacctmgr -i modify qos {0} set GrpTRES={1}\n",
                    conf_word(queue.name), each_gres(site, fmt::format("={}", queue.most_chips)));
  }
  return out;
}

}  // namespace

bool needs_accounting(const Site& site) {
  return !site.users.empty() ||
         std::ranges::any_of(site.queues, [](const Queue& queue) { return queue.most_chips > 0; });
}

Files accounting_files(const Site& site) {
  if (!needs_accounting(site)) return {};
  return {{"slurm/accounting.conf", accounting_conf(site)},
          {"slurm/accounting.sh", accounting_script(site)}};
}

std::vector<std::pair<std::string, std::string>> accounting_settings(const Site& site) {
  if (!needs_accounting(site)) return {};
  std::vector<std::pair<std::string, std::string>> all = {
      {"AccountingStorageType", "accounting_storage/slurmdbd"},
      {"AccountingStorageEnforce", "limits"},
  };
  if (std::string tres = each_gres(site); !tres.empty()) {
    all.emplace_back("AccountingStorageTRES", std::move(tres));
  }
  if (!site.users.empty()) {
    all.emplace_back("PriorityWeightFairShare", std::to_string(kFairshareWeight));
  }
  return all;
}

std::string billing_weights(const Site& site) {
  const std::string chips = each_gres(site, "=1");
  return !needs_accounting(site) || chips.empty() ? "" : "CPU=0.001," + chips;
}

// Slurm divides a queue's priority by the highest one, and a user's share is worth up to
// kFairshareWeight.
int64_t partition_weight(const Site& site) {
  if (site.users.empty()) return kPartitionWeight;
  int64_t least_gap = 0;
  for (const Queue& a : site.queues) {
    for (const Queue& b : site.queues) {
      const int64_t gap = a.priority - b.priority;
      if (gap > 0 && (least_gap == 0 || gap < least_gap)) least_gap = gap;
    }
  }
  if (least_gap == 0) return kPartitionWeight;
  const int64_t highest = std::ranges::max(site.queues, {}, &Queue::priority).priority;
  return std::max(kPartitionWeight, ((kFairshareWeight + 1) * highest + least_gap - 1) / least_gap);
}

int64_t fairshare_of(const User& user) {
  return std::max<int64_t>(1, std::llround(user.share * 100));
}

}  // namespace stretto::cluster
