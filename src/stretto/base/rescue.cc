#include "stretto/base/rescue.h"

#include "stretto/base/wait.h"

#if defined(__linux__)
#include <sched.h>
#include <time.h>
#endif

namespace stretto {

bool Occupant::claim() {
  int state = this->state();
  return state >= 0 && state % 2 == 0 &&
         state_.compare_exchange_strong(state, state + 1, std::memory_order_acquire);
}

void Occupant::leave() {
  for (int state = this->state() & ~1;
       !state_.compare_exchange_weak(state, ~state, std::memory_order_acq_rel); state &= ~1) {
    relax();
  }
}

#if defined(__linux__)

namespace {

// One that ran for less than a quarter of the time between two looks was stopped.
constexpr int64_t kLeastShare = 4;

int64_t nanoseconds(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return -1;
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Processor time that a thread has used; -1 when that is not known.
int64_t used_ns(pthread_t thread) {
  clockid_t clock;
  return pthread_getcpuclockid(thread, &clock) == 0 ? nanoseconds(clock) : -1;
}

// Moves a thread to one of the CPUs `to` that it may run on, if there are any. No other thread
// moves it at the same time. Machines with more CPUs than this set has refuse the first call.
bool move(pthread_t thread, const cpu_set_t& to) {
  cpu_set_t allowed, chosen;
  if (pthread_getaffinity_np(thread, sizeof(allowed), &allowed) != 0) return false;
  CPU_AND(&chosen, &allowed, &to);
  if (CPU_COUNT(&chosen) == 0) return false;
  if (pthread_setaffinity_np(thread, sizeof(chosen), &chosen) != 0) return false;
  pthread_setaffinity_np(thread, sizeof(allowed), &allowed);
  return true;
}

cpu_set_t only(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  return set;
}

}  // namespace

void Occupant::enter() {
  const int cpu = sched_getcpu();
  state_.store(cpu < 0 ? 0 : 2 * cpu, std::memory_order_release);
}

bool bring_here(int self, int threads, Occupants occupants, Look& look) {
  const int here = sched_getcpu();
  const auto elsewhere = [&](int i) {
    return i != self && occupants(i).inside() && occupants(i).cpu() != here;
  };
  bool moved = false;
  const Look last = look;
  look.thread = -1;
  if (last.thread >= 0 && elsewhere(last.thread) && occupants(last.thread).claim()) {
    Occupant& other = occupants(last.thread);
    const int64_t used = used_ns(other.thread()) - last.used_ns;
    const int64_t passed = nanoseconds(CLOCK_MONOTONIC) - last.at_ns;
    moved = used >= 0 && used * kLeastShare < passed && move(other.thread(), only(here));
    other.release(moved ? here : other.cpu());
  }
  for (int k = 1; k <= threads && look.thread < 0; ++k) {
    const int i = (last.thread + threads + k) % threads;
    if (!elsewhere(i) || !occupants(i).claim()) continue;
    const int64_t used = used_ns(occupants(i).thread());
    occupants(i).release(occupants(i).cpu());
    if (used >= 0) look = {i, used, nanoseconds(CLOCK_MONOTONIC)};
  }
  return moved;
}

bool spread(int self, int threads, Occupants occupants) {
  const int here = sched_getcpu();
  bool shared = false;
  cpu_set_t taken = only(here), free;
  for (int i = 0; i < threads; ++i) {
    const int cpu = occupants(i).cpu();
    if (i == self || cpu >= CPU_SETSIZE) continue;
    shared |= occupants(i).inside() && cpu == here;
    CPU_SET(cpu, &taken);
  }
  if (!shared) return false;
  CPU_ZERO(&free);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &taken)) CPU_SET(cpu, &free);
  }
  return move(pthread_self(), free);
}

#else

void Occupant::enter() { state_.store(0, std::memory_order_release); }
bool bring_here(int, int, Occupants, Look&) { return false; }
bool spread(int, int, Occupants) { return false; }

#endif

}  // namespace stretto
