// What other programs took of the processor while this one measured: times are noisy then.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace stretto {

constexpr double kHighSteal = 0.05;  // more shows in times

struct OtherWork {
  double seconds = 0;  // it was watched for so long
  double cores = 0;    // CPUs that other programs kept busy, in the mean, of `cpus`
  int cpus = 0;        // that this process may use
  double steal = 0;    // share of the time which the hypervisor gave to other virtual machines
};

// Watches from its construction on. Reads /proc; sees nothing where that does not tell.
class OtherWorkMeter {
 public:
  // The work of `helpers`, processes that run until the last read(), counts as this one's.
  explicit OtherWorkMeter(std::vector<pid_t> helpers = {});
  OtherWork read() const;

 private:
  struct Times {
    double at_s = 0;
    double busy_s = 0, steal_s = 0, total_s = 0;  // of all CPUs together
    double own_s = 0;
  };
  Times now() const;

  std::vector<int> cpus_;
  std::vector<pid_t> helpers_;
  Times begin_;
};

// "other programs kept 1.2 of 2 CPUs busy"; empty where the work of others hardly shows in times.
std::string describe(const OtherWork& work);

}  // namespace stretto
