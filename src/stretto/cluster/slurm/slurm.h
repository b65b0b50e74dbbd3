// Writes what Slurm has to know of a site.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/cluster/output.h"
#include "stretto/cluster/site.h"

namespace stretto::cluster {

// Where it will run. By default on the site's own machines.
struct SlurmTarget {
  // Several slurmd on this machine, one port for each from here on; 0: no.
  int first_port = 0;
  // Device files that stand for chips then: any that exist, for nothing opens them.
  std::vector<std::string> devices;
};

// slurm.conf (a part of it), gres.conf, job_submit.lua, the same rule as job_submit_stretto.cpp,
// where racks are named topology.conf, and where users or queues have shares or limits
// accounting.conf and accounting.sh. Throws Unsupported for policies that Slurm cannot express and
// for too few devices.
Files write_slurm(const Site& site, const SlurmTarget& target = {});

// The rule's data, which job_submit.lua has at its top.
std::string lua_table(const Site& site);
// The same for job_submit_stretto.cpp.
std::string cxx_table(const Site& site);

// A value in slurm.conf: throws InvalidArgument for what could end it.
std::string conf_word(std::string_view text);
// In quotes, for Lua.
std::string lua_text(std::string_view text);
// Character devices of this machine, to stand for chips.
std::vector<std::string> character_devices();

// "1-00:00:00" or "UNLIMITED".
std::string conf_time(int64_t seconds);

// Of the chips of a kind: "gpu" and "v100".
struct Gres {
  std::string name, type;
};
Gres gres_of(const ChipKind& chip);

// "# site.toml:12\n": which line of the site file the next one comes from.
std::string from_line(const Site& site, int line);
// Names of the site's gres, as "gpu".
std::set<std::string> gres_names(const Site& site);

// The settings of the whole cluster by which the policy works: name and value.
std::vector<std::pair<std::string, std::string>> settings_of(const Site& site);
// The same, and those that slurm.conf has to have besides.
std::vector<std::pair<std::string, std::string>> required_settings_of(const Site& site);

// The C++ form of the submit rule, as JobSubmitPlugins names it.
constexpr const char* kSubmitPlugin = "stretto";

}  // namespace stretto::cluster
