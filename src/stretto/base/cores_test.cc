#include "stretto/base/cores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <string>

#include "stretto/base/cpu.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

// A folder that stands for "/", with files of /proc and /sys in it.
class FakeRoot {
 public:
  FakeRoot() {
    root_ = fs::path(testing::TempDir()) / ("stretto-cores-" + std::to_string(getpid()));
    fs::remove_all(root_);
  }
  ~FakeRoot() { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  const fs::path& path() const { return root_; }

 private:
  fs::path root_;
};

constexpr const char* kMountV2 =
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

std::vector<int> first(int count) {
  std::vector<int> cpus(static_cast<size_t>(count));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

TEST(Cores, DockerWithTwoCpusOn64CoresStartsTwoThreads) {
  FakeRoot root;
  root.write("proc/self/cgroup", "0::/\n");
  root.write("proc/self/mountinfo", kMountV2);
  root.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 2);
  EXPECT_EQ(usable_cores(64, cpu_quota(root.path())), 2);
}

TEST(Cores, TheTightestGroupOnTheWayDownDecides) {
  FakeRoot root;
  root.write("proc/self/cgroup", "0::/kubepods/pod7/box\n");
  root.write("proc/self/mountinfo", kMountV2);
  root.write("sys/fs/cgroup/kubepods/cpu.max", "3200000 100000\n");
  root.write("sys/fs/cgroup/kubepods/pod7/cpu.max", "250000 100000\n");
  root.write("sys/fs/cgroup/kubepods/pod7/box/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 2.5);
  EXPECT_EQ(usable_cores(64, 2.5), 3);
}

TEST(Cores, NoLimitAnywhere) {
  FakeRoot root;
  EXPECT_EQ(cpu_quota(root.path()), 0);  // no /proc at all
  root.write("proc/self/cgroup", "0::/user.slice\n");
  root.write("proc/self/mountinfo", kMountV2);
  root.write("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 0);
  root.write("sys/fs/cgroup/user.slice/cpu.max", "plenty\n");
  EXPECT_EQ(cpu_quota(root.path()), 0);
  EXPECT_EQ(usable_cores(6, 0), 6);
}

TEST(Cores, VersionOneInAContainerThatSeesTheHostsPath) {
  FakeRoot root;
  root.write("proc/self/cgroup",
             "9:name=systemd:/docker/ab\n5:cpuset:/docker/ab\n2:cpu,cpuacct:/docker/ab\n0::/\n");
  root.write("proc/self/mountinfo",
             "32 31 0:29 /docker/ab /sys/fs/cgroup/cpu\\040time rw - cgroup cgroup rw,cpu,cpuacct\n"
             "33 31 0:30 /docker/ab /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
  root.write("sys/fs/cgroup/cpu time/cpu.cfs_quota_us", "50000\n");
  root.write("sys/fs/cgroup/cpu time/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 0.5);
  EXPECT_EQ(usable_cores(64, 0.5), 1);
  root.write("sys/fs/cgroup/cpu time/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cpu_quota(root.path()), 0);
}

TEST(Cores, APathOutsideOfTheMountMeansTheMountItself) {
  FakeRoot root;
  root.write("proc/self/cgroup", "0::/../../elsewhere\n");
  root.write("proc/self/mountinfo", kMountV2);
  root.write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  root.write("elsewhere/cpu.max", "1000 100000\n");
  EXPECT_EQ(cpu_quota(root.path()), 1);
}

TEST(Cores, HyperThreadsOfOneCoreCountOnce) {
  FakeRoot root;
  for (int cpu = 0; cpu < 8; ++cpu) {  // 0 and 4, 1 and 5, ... are one core each
    root.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/core_cpus_list",
               std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4) + "\n");
  }
  EXPECT_EQ(physical_cores(root.path(), first(8)), 4);
  EXPECT_EQ(physical_cores(root.path(), {0, 4}), 1);
  EXPECT_EQ(physical_cores(root.path(), {0, 1}), 2);
}

TEST(Cores, OlderKernelsCallThemThreadSiblings) {
  FakeRoot root;
  for (int cpu = 0; cpu < 4; ++cpu) {
    root.write(
        "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
        cpu < 2 ? "0-1\n" : "2-3\n");
  }
  EXPECT_EQ(physical_cores(root.path(), first(4)), 2);
  EXPECT_EQ(physical_cores(root.path(), first(6)), 4);  // 4 and 5 say nothing of themselves
}

TEST(Cores, OfThisMachine) {
  const CpuInfo& cpu = cpu_info();
  EXPECT_EQ(cpu.logical, static_cast<int>(allowed_cpus().size()));
  EXPECT_GE(cpu.physical, 1);
  EXPECT_LE(cpu.physical, cpu.logical);
  EXPECT_EQ(cpu.cores, usable_cores(cpu.physical, cpu.quota));
}

TEST(Cores, TheLastCacheIsTheOneThatACpuReaches) {
  FakeRoot root;
  EXPECT_EQ(level3_bytes(root.path(), 0), 0);
  const std::string cache = "sys/devices/system/cpu/cpu4/cache/index";
  for (int index = 0; index < 3; ++index) {
    root.write(cache + std::to_string(index) + "/level", index < 2 ? "1\n" : "2\n");
    root.write(cache + std::to_string(index) + "/size", "512K\n");
  }
  EXPECT_EQ(level3_bytes(root.path(), 4), 0);
  root.write(cache + "3/level", "3\n");
  EXPECT_EQ(level3_bytes(root.path(), 4), 0) << "no size";
  root.write(cache + "3/size", "32768K\n");
  EXPECT_EQ(level3_bytes(root.path(), 4), int64_t{32} << 20);
  root.write(cache + "3/size", "96M\n");
  EXPECT_EQ(level3_bytes(root.path(), 4), int64_t{96} << 20);
}

}  // namespace
}  // namespace stretto
