// How many threads can run at once: allowed CPUs, hyper-threads and the container's CPU quota. And
// what one core has of the last cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace stretto {

// The CPUs that the scheduler may run this process on (sched_getaffinity), in ascending order.
std::vector<int> allowed_cpus();

// Physical cores that `cpus` belong to: hyper-threads of one core count once. Read from
// ROOT/sys/devices/system/cpu/cpuN/topology; a CPU without that folder counts as a core of its own.
int physical_cores(const std::filesystem::path& root, const std::vector<int>& cpus);

// CPUs' worth of time per second that this process's control group and all groups above it allow
// (`docker --cpus=1.5` gives 1.5); 0 when none of them sets a limit. Reads cpu.max (cgroup v2) and
// cpu.cfs_quota_us (v1) as ROOT/proc/self/cgroup and ROOT/proc/self/mountinfo place them; see
// cgroups(7). Files that are missing or malformed set no limit.
double cpu_quota(const std::filesystem::path& root);

// Bytes of the level-3 cache that CPU `cpu` reaches, from
// ROOT/sys/devices/system/cpu/cpuN/cache; 0 where that names none. Processors made of several
// chips have one for each, and sysconf() gives the sum of them.
int64_t level3_bytes(const std::filesystem::path& root, int cpu);

// min(physical, quota rounded up), at least 1. A quota of 0 is no limit.
int usable_cores(int physical, double quota);

}  // namespace stretto
