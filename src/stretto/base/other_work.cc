#include "stretto/base/other_work.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "stretto/base/clock.h"
#include "stretto/base/cores.h"

namespace stretto {
namespace {

// Less moves times by no more than they differ from run to run on a quiet machine.
constexpr double kMuchWork = 0.1;   // of the CPUs
constexpr double kEnough_s = 0.15;  // the system counts in steps of 10 ms

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double own_seconds() {
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  rusage ended{};
  getrusage(RUSAGE_CHILDREN, &ended);
  return static_cast<double>(own.tv_sec) + static_cast<double>(own.tv_nsec) * 1e-9 +
         seconds(ended.ru_utime) + seconds(ended.ru_stime);
}

// With the threads that have ended, which schedstat, finer as it is, does not tell any more: utime
// and stime of proc(5). Fields are counted from behind the name, which may hold anything.
double seconds_of(pid_t process, double tick_s) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) * tick_s;
}

}  // namespace

OtherWorkMeter::OtherWorkMeter(std::vector<pid_t> helpers)
    : cpus_(allowed_cpus()), helpers_(std::move(helpers)), begin_(now()) {}

OtherWorkMeter::Times OtherWorkMeter::now() const {
  const double tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  Times times{.at_s = now_s(), .own_s = own_seconds()};
  for (const pid_t process : helpers_) times.own_s += seconds_of(process, tick_s);
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    std::istringstream words(line.substr(3));
    int cpu = 0;
    // user nice system idle iowait irq softirq steal
    std::array<double, 8> ticks{};
    if (line[3] == ' ' || !(words >> cpu)) continue;  // the sum of all CPUs
    if (!std::ranges::binary_search(cpus_, cpu)) continue;
    for (double& tick : ticks) words >> tick;
    for (const size_t busy : {0, 1, 2, 5, 6}) times.busy_s += ticks[busy] * tick_s;
    times.steal_s += ticks[7] * tick_s;
    for (const double tick : ticks) times.total_s += tick * tick_s;
  }
  return times;
}

OtherWork OtherWorkMeter::read() const {
  const Times end = now();
  OtherWork work{.seconds = end.at_s - begin_.at_s, .cpus = static_cast<int>(cpus_.size())};
  const double total = end.total_s - begin_.total_s;
  if (work.seconds <= 0 || total <= 0) return work;
  const double others = (end.busy_s - begin_.busy_s) - (end.own_s - begin_.own_s);
  work.cores = std::clamp(others / work.seconds, 0.0, static_cast<double>(work.cpus));
  work.steal = (end.steal_s - begin_.steal_s) / total;
  return work;
}

std::string describe(const OtherWork& work) {
  if (work.seconds < kEnough_s) return "";
  std::string text;
  if (work.cores > kMuchWork * work.cpus) {
    text = fmt::format("other programs kept {:.1f} of {} CPU{} busy", work.cores, work.cpus,
                       work.cpus == 1 ? "" : "s");
  }
  if (work.steal > kHighSteal) {
    text += fmt::format("{}the hypervisor gave {:.0f} % of the time to other virtual machines",
                        text.empty() ? "" : " and ", 100 * work.steal);
  }
  return text;
}

}  // namespace stretto
