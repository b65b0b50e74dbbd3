#include "stretto/base/other_work.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stretto/base/clock.h"

namespace stretto {
namespace {

// A process that computes until it is ended.
class Neighbour {
 public:
  Neighbour() : process_(fork()) {
    while (process_ == 0) {
    }
  }
  ~Neighbour() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  pid_t process() const { return process_; }

 private:
  pid_t process_;
};

void compute(double seconds) {
  for (const double until = now_s() + seconds; now_s() < until;) {
  }
}

// Compares meters of the same time with each other: other programs may run beside the test, too.
TEST(OtherWork, IsWhatNeitherThisProcessNorItsHelpersDid) {
  const Neighbour neighbour;
  const OtherWorkMeter alone, with_helper({neighbour.process()});
  compute(0.6);
  const OtherWork helped = with_helper.read(), other = alone.read();
  ASSERT_GT(other.seconds, 0.59);
  ASSERT_GT(other.cpus, 0);
  EXPECT_LE(other.cores, other.cpus);
  // The neighbour is the difference, also where a few more want its CPU.
  EXPECT_GT(other.cores, helped.cores + 0.1);
  // This process computed all the time that it got, and does not count.
  EXPECT_LT(helped.cores, helped.cpus - 0.1);
}

TEST(OtherWork, IsDescribedWhereItShows) {
  const OtherWork quiet{.seconds = 10, .cores = 0.15, .cpus = 2, .steal = 0.04};
  EXPECT_EQ(describe(quiet), "");
  OtherWork busy = quiet;
  busy.cores = 1.23;
  EXPECT_EQ(describe(busy), "other programs kept 1.2 of 2 CPUs busy");
  busy.steal = 0.12;
  EXPECT_EQ(describe(busy),
            "other programs kept 1.2 of 2 CPUs busy and the hypervisor gave 12 % of the time to "
            "other virtual machines");
  busy.cores = 0;
  EXPECT_EQ(describe(busy), "the hypervisor gave 12 % of the time to other virtual machines");
  busy.seconds = 0.1;
  EXPECT_EQ(describe(busy), "") << "too short to tell";
}

}  // namespace
}  // namespace stretto
