#include "machine.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "stretto/base/file.h"
#include "stretto/base/other_work.h"
#include "stretto/stretto.h"
#include "stretto/tune/cache_file.h"
#include "verbs.h"
#include "worker_process.h"

namespace stretto::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kPython_s = 60;
constexpr useconds_t kStealSample_us = 200'000;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int64_t number(const fs::path& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : 0;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder, absent)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

double measure_steal() {
  const OtherWorkMeter meter;
  usleep(kStealSample_us);
  return meter.read().steal;
}

std::string virtual_machine() {
  std::ifstream file("/proc/cpuinfo");
  bool hypervisor = false;
  for (std::string line; !hypervisor && std::getline(file, line);) {
    hypervisor = line.starts_with("flags") && line.find(" hypervisor") != std::string::npos;
  }
  const std::string maker = first_line("/sys/class/dmi/id/sys_vendor");
  const std::string product = first_line("/sys/class/dmi/id/product_name");
  if (!hypervisor) return "";
  return maker.empty() ? "of an unknown maker" : maker + (product.empty() ? "" : " " + product);
}

void read_memory(Machine& machine) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    int64_t kib = 0;
    words >> key >> kib;
    if (key == "MemTotal:") machine.memory_bytes = kib << 10;
    if (key == "MemAvailable:") machine.available_bytes = kib << 10;
  }
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const int64_t limit = number(path);
    if (limit > 0 && limit < machine.memory_bytes) machine.memory_limit_bytes = limit;
  }
  struct statvfs shared;
  if (statvfs("/dev/shm", &shared) == 0) {
    machine.shared_bytes = static_cast<int64_t>(shared.f_bavail * shared.f_frsize);
  }
}

int64_t limit(int which) {
  rlimit value{};
  getrlimit(static_cast<__rlimit_resource>(which), &value);
  return value.rlim_cur == RLIM_INFINITY ? -1 : static_cast<int64_t>(value.rlim_cur);
}

void read_network(Machine& machine) {
  for (const fs::path& path : entries("/sys/class/net")) {
    if (path.filename() == "lo") continue;
    const int64_t speed = number(path / "speed");  // -1 where the link is down or virtual
    machine.interfaces.push_back({.name = path.filename(),
                                  .up = first_line(path / "operstate") == "up",
                                  .mtu = static_cast<int>(number(path / "mtu")),
                                  .megabits_per_s = std::max<int64_t>(speed, 0)});
  }
  for (const fs::path& device : entries("/sys/class/infiniband")) {
    for (const fs::path& port : entries(device / "ports")) {
      const std::string state = first_line(port / "state");  // "4: ACTIVE"
      machine.rdma.push_back({.device = device.filename(),
                              .port = std::atoi(port.filename().c_str()),
                              .state = state.substr(std::min(state.find(' ') + 1, state.size())),
                              .link_layer = first_line(port / "link_layer"),
                              .rate = first_line(port / "rate")});
    }
  }
}

// Whether `path`, or the nearest folder above it that exists, can be written to.
bool can_write(fs::path path) {
  std::error_code ignored;
  while (!path.empty() && !fs::exists(path, ignored) && path != path.parent_path()) {
    path = path.parent_path();
  }
  return access(path.empty() ? "." : path.c_str(), W_OK) == 0;
}

TuningCacheFile read_tuning_cache() {
  TuningCacheFile file{.path = tune::tuning_cache_path()};
  if (file.path.empty()) return file;
  std::error_code ignored;
  file.exists = fs::exists(file.path, ignored);
  file.writable = can_write(file.path);
  if (!file.exists) return file;
  try {
    const std::string text = read_file(file.path);
    file.bytes = static_cast<int64_t>(text.size());
    file.entries = static_cast<int64_t>(tune::TuningCache::parse(text, file.path).size());
    if (const std::string_view made_by = tune::text_version(text); made_by != version()) {
      file.problem = fmt::format("it was written by Stretto {}", made_by);
    }
  } catch (const std::exception& e) {
    file.problem = e.what();
  }
  return file;
}

void read_packages(Machine& machine) {
  try {
    WorkerProcess process({machine.python, "-m", "stretto._installed"}, "/dev/null");
    const auto line = process.receive(kPython_s);
    const auto reply = nlohmann::json::parse(line.value_or(""), nullptr, false);
    if (!reply.is_object()) {
      machine.python_problem = "it cannot import the stretto package";
      return;
    }
    for (const auto& row : reply.at("packages")) {
      const auto& version = row.at("version");
      machine.packages.push_back({row.at("name"), version.is_string() ? version : ""});
    }
  } catch (const EnvironmentProblem& e) {
    machine.python_problem = e.what();
  }
}

}  // namespace

Machine look_at_machine(const std::string& python) {
  Machine machine{
      .governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
      .frequency_driver = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"),
      .virtual_machine = virtual_machine(),
      .steal = measure_steal(),
      .open_files = limit(RLIMIT_NOFILE),
      .locked_bytes = limit(RLIMIT_MEMLOCK),
      .tuning_cache = read_tuning_cache(),
      .python = python};
  double load[1] = {0};
  if (getloadavg(load, 1) == 1) machine.load = load[0];
  machine.rates = refresh_machine_rates();
  read_memory(machine);
  read_network(machine);
  read_packages(machine);
  return machine;
}

}  // namespace stretto::cli
