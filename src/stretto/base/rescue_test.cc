#include "stretto/base/rescue.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

#include "stretto/base/cores.h"

namespace stretto {
namespace {

const std::vector<int> kAtStart = allowed_cpus();

constexpr int kElsewhere = 1000;  // a CPU that no thread runs on

cpu_set_t mask_of(pthread_t thread) {
  cpu_set_t mask;
  pthread_getaffinity_np(thread, sizeof(mask), &mask);
  return mask;
}

bool operator==(const cpu_set_t& a, const cpu_set_t& b) { return CPU_EQUAL(&a, &b); }

void pin(pthread_t thread, int cpu) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  ASSERT_EQ(pthread_setaffinity_np(thread, sizeof(mask), &mask), 0);
}

// A thread that is inside, says that it is on another CPU, and sleeps until the end of the test.
class Sleeper {
 public:
  Sleeper()
      : thread_([this] {
          occupant.set_thread();
          occupant.enter();
          ready_ = true;
          ready_.notify_one();
          ended_.wait(false);
        }) {
    ready_.wait(false);
    says(kElsewhere);
  }
  ~Sleeper() {
    ended_ = true;
    ended_.notify_one();
    thread_.join();
  }
  void says(int cpu) {
    ASSERT_TRUE(occupant.claim());
    occupant.release(cpu);
  }
  pthread_t handle() { return thread_.native_handle(); }

  Occupant occupant;

 private:
  std::atomic<bool> ready_{false}, ended_{false};
  std::thread thread_;
};

class Rescue : public testing::Test {
 protected:
  Rescue() {
    own_.set_thread();
    EXPECT_EQ(allowed_cpus(),
              kAtStart);  // no test of base/dealer.h has left this thread with fewer
  }

  bool bring() {
    return bring_here(
        0, 2, [&](int i) -> Occupant& { return i == 0 ? own_ : other_.occupant; }, look_);
  }
  bool spread_out() {
    return spread(0, 2, [&](int i) -> Occupant& { return i == 0 ? own_ : other_.occupant; });
  }

  Sleeper other_;
  Occupant own_;
  Look look_;
};

TEST_F(Rescue, MovesAThreadThatDoesNotRunAndGivesItsCpusBack) {
  const cpu_set_t before = mask_of(other_.handle()), own = mask_of(pthread_self());
  EXPECT_FALSE(bring());  // nothing to compare with yet
  const timespec pause{.tv_sec = 0, .tv_nsec = 2'000'000};
  nanosleep(&pause, nullptr);
  EXPECT_TRUE(bring());
  EXPECT_NE(other_.occupant.cpu(), kElsewhere);
  EXPECT_TRUE(other_.occupant.inside());
  EXPECT_TRUE(mask_of(other_.handle()) == before);
  EXPECT_TRUE(mask_of(pthread_self()) == own);
}

TEST_F(Rescue, LeavesAThreadThatRan) {
  EXPECT_FALSE(bring());
  look_.used_ns -= 1'000'000'000;  // as if it had run for a second since
  EXPECT_FALSE(bring());
}

TEST_F(Rescue, LeavesAThreadThatHoldsNothing) {
  EXPECT_FALSE(bring());
  other_.occupant.leave();
  look_.at_ns -= 1'000'000'000;
  EXPECT_FALSE(bring());
}

TEST_F(Rescue, LeavesAThreadThatAnotherOneMoves) {
  EXPECT_FALSE(bring());
  look_.at_ns -= 1'000'000'000;
  ASSERT_TRUE(other_.occupant.claim());
  EXPECT_FALSE(bring());
  other_.occupant.release(kElsewhere);
}

TEST_F(Rescue, BringsNoThreadWhereItMayNotRun) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "needs two CPUs";
  const cpu_set_t own = mask_of(pthread_self());
  pin(pthread_self(), cpus[0]);
  pin(other_.handle(), cpus[1]);
  const cpu_set_t before = mask_of(other_.handle());
  EXPECT_FALSE(bring());
  look_.at_ns -= 1'000'000'000;
  EXPECT_FALSE(bring());
  EXPECT_TRUE(mask_of(other_.handle()) == before);
  pthread_setaffinity_np(pthread_self(), sizeof(own), &own);
}

TEST_F(Rescue, SpreadsToAFreeCpuAndGivesItsCpusBack) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "needs two CPUs";
  const cpu_set_t own = mask_of(pthread_self());
  EXPECT_FALSE(spread_out());  // the other one is elsewhere
  EXPECT_TRUE(mask_of(pthread_self()) == own);
  // Wherever this thread is: on the CPU of the other one, with all others taken but one.
  pin(pthread_self(), cpus[0]);
  other_.says(cpus[0]);
  EXPECT_FALSE(spread_out());  // it may run nowhere else
  cpu_set_t two;
  CPU_ZERO(&two);
  CPU_SET(cpus[0], &two);
  CPU_SET(cpus[1], &two);
  ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(two), &two), 0);
  other_.says(sched_getcpu());
  spread_out();  // whether it does depends on where the system has put this thread meanwhile
  EXPECT_TRUE(mask_of(pthread_self()) == two);
  pthread_setaffinity_np(pthread_self(), sizeof(own), &own);
}

TEST(Occupant, CannotLeaveWhileItIsClaimed) {
  Occupant occupant;
  EXPECT_FALSE(occupant.claim());  // it is not inside yet
  std::atomic<bool> left{false};
  occupant.enter();
  ASSERT_TRUE(occupant.claim());
  EXPECT_FALSE(occupant.claim());
  std::thread leaving([&] {
    occupant.leave();
    left = true;
  });
  const timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};
  nanosleep(&pause, nullptr);
  EXPECT_FALSE(left.load());
  occupant.release(3);
  leaving.join();
  EXPECT_FALSE(occupant.inside());
  EXPECT_EQ(occupant.cpu(), 3);
}

}  // namespace
}  // namespace stretto
