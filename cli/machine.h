// What this computer has, as the operating system tells it: what `stretto doctor` shows and judges.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stretto/base/machine_rates.h"

namespace stretto::cli {

struct NetworkInterface {
  std::string name;
  bool up = false;
  int mtu = 0;
  int64_t megabits_per_s = 0;  // 0: not known
};

struct RdmaPort {
  std::string device;
  int port = 1;
  std::string state, link_layer, rate;  // "ACTIVE", "InfiniBand", "200 Gb/sec (4X HDR)"
};

struct Package {
  std::string name, version;  // version empty: not installed
};

struct TuningCacheFile {
  std::string path;  // empty: no file is to be used
  bool exists = false, writable = false;
  int64_t bytes = 0, entries = 0;
  std::string problem;  // why it cannot be used; empty when it can
};

struct Machine {
  std::string governor, frequency_driver;  // of the first core; empty: not known
  std::string virtual_machine;             // its maker; empty: none was recognised
  double steal = 0;                        // share of time that the hypervisor gave to others
  double load = 0;                         // runnable threads, mean of one minute
  int64_t memory_bytes = 0, available_bytes = 0, memory_limit_bytes = 0;  // limit 0: none
  MachineRates rates;                        // measured now, or faster before
  int64_t shared_bytes = 0;                  // free in /dev/shm
  int64_t open_files = 0, locked_bytes = 0;  // limits; -1: none
  std::vector<NetworkInterface> interfaces;
  std::vector<RdmaPort> rdma;
  TuningCacheFile tuning_cache;
  std::string python;          // that runs peers and ranks
  std::string python_problem;  // why it cannot; empty when it can
  std::vector<Package> packages;
};

// Takes about a third of a second: steal is measured, and Python starts.
Machine look_at_machine(const std::string& python);

}  // namespace stretto::cli
