#include "stretto/base/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace stretto {
namespace {

namespace fs = std::filesystem;

// One mounted hierarchy of control groups: group `root` of it is the folder `folder`.
struct Mount {
  bool v2 = false;
  std::string root, folder;
};

std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// mountinfo writes blanks and backslashes as three octal digits.
std::string unescape(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool octal = text[i] == '\\' && i + 3 < text.size() &&
                       text.substr(i + 1, 3).find_first_not_of("01234567") == text.npos;
    result += octal ? static_cast<char>(std::stoi(std::string(text.substr(i + 1, 3)), nullptr, 8))
                    : text[i];
    if (octal) i += 3;
  }
  return result;
}

// Hierarchies that can limit CPU time. Fields of a line, from proc(5):
// id parent device root mount-point options [optional fields] - type source super-options
std::vector<Mount> read_mounts(const fs::path& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = split_text(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash - fields.begin() < 6 || fields.end() - dash < 4) continue;
    const bool v2 = dash[1] == "cgroup2";
    const bool v1 = dash[1] == "cgroup" && contains(split_text(dash[3], ','), "cpu");
    if (v1 || v2) mounts.push_back({v2, unescape(fields[3]), unescape(fields[4])});
  }
  return mounts;
}

// The path of this process's group in the hierarchy of that version; empty when it has none.
// Lines are id:controllers:path; that of v2 is 0::path.
std::string group_path(const fs::path& root, bool v2) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool found = v2 ? line.starts_with("0::") : contains(split_text(controllers, ','), "cpu");
    if (found) return line.substr(second + 1);
  }
  return "";
}

double number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && std::isfinite(value) && value > 0 ? value : 0;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

double limit_of(const fs::path& group, bool v2) {
  double quota = 0, period = 0;
  if (v2) {
    const std::vector<std::string> fields = split_text(first_line(group / "cpu.max"), ' ');
    if (fields.size() == 2) quota = number(fields[0]), period = number(fields[1]);
  } else {
    quota = number(first_line(group / "cpu.cfs_quota_us"));
    period = number(first_line(group / "cpu.cfs_period_us"));
  }
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

// The group's path below what is mounted. A container that shares the host's namespace sees the
// host's path, of which only the part below the mount's root is there.
fs::path below_mount(const std::string& path, const std::string& mount_root) {
  const fs::path relative = fs::path(path).lexically_relative(mount_root);
  const bool outside = relative.empty() || *relative.begin() == ".." || relative == ".";
  return outside ? fs::path() : relative;
}

}  // namespace

std::vector<int> allowed_cpus() {
  // A set of 1024 CPUs is too small for the largest machines; the call then fails with EINVAL.
  for (size_t count = 1024; count <= (1u << 16); count *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(count),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    const size_t bytes = CPU_ALLOC_SIZE(count);
    if (!set) break;
    CPU_ZERO_S(bytes, set.get());
    if (sched_getaffinity(0, bytes, set.get()) != 0) continue;
    std::vector<int> cpus;
    for (size_t cpu = 0; cpu < count; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(static_cast<int>(cpu));
    }
    return cpus;
  }
  std::vector<int> cpus(static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))));
  for (size_t i = 0; i < cpus.size(); ++i) cpus[i] = static_cast<int>(i);
  return cpus;
}

int physical_cores(const fs::path& root, const std::vector<int>& cpus) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string name = "cpu" + std::to_string(cpu);
    const fs::path topology = root / "sys/devices/system/cpu" / name / "topology";
    std::string siblings = first_line(topology / "core_cpus_list");
    if (siblings.empty()) siblings = first_line(topology / "thread_siblings_list");
    cores.insert(siblings.empty() ? name : siblings);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

double cpu_quota(const fs::path& root) {
  double least = std::numeric_limits<double>::infinity();
  for (const Mount& mount : read_mounts(root)) {
    const std::string path = group_path(root, mount.v2);
    if (path.empty()) continue;
    fs::path group = root / fs::path(mount.folder).relative_path();
    least = std::min(least, limit_of(group, mount.v2));
    for (const fs::path& name : below_mount(path, mount.root)) {
      group /= name;
      least = std::min(least, limit_of(group, mount.v2));
    }
  }
  return std::isfinite(least) ? least : 0;
}

int64_t level3_bytes(const fs::path& root, int cpu) {
  const fs::path caches = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "cache";
  for (int index = 0;; ++index) {
    const fs::path cache = caches / ("index" + std::to_string(index));
    int level = 0;
    if (!(std::ifstream(cache / "level") >> level)) return 0;
    if (level != 3) continue;
    int64_t size = 0;
    char unit = 0;
    std::ifstream(cache / "size") >> size >> unit;
    return size << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
  }
}

int usable_cores(int physical, double quota) {
  if (quota <= 0) return std::max(1, physical);
  return std::max(1, static_cast<int>(std::min<double>(physical, std::ceil(quota))));
}

}  // namespace stretto
