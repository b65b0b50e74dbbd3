#include "stretto/comm/engine/polling.h"

#include <chrono>
#include <new>

namespace stretto::comm {
namespace {

constexpr double kRecently_s = 10e-3;  // a caller that waited so recently probably waits again soon
constexpr double kAttended_s = 1;      // how often the progress thread looks while another attends

std::chrono::duration<double> duration(double s) { return std::chrono::duration<double>(s); }

}  // namespace

double Polling::progress_pause_s(int64_t unfinished, double now_s) const {
  if (attendants_ > 0) return kAttended_s;
  if (under_way_ || waiters_ > 0) return kRecently_s;
  // Nothing is under way, and the next caller would have to wait for this thread's poll to end.
  if (unfinished == 0 && now_s - last_wait_s_ < kRecently_s) return kRecently_s;
  return 0;
}

Spin Polling::spin(double now_s, double spin_s, int64_t bytes, bool unseen) const {
  // A message of Stretto's own comes when another rank's callers let it, and they need the core.
  return {now_s, unseen && !core_each_ ? 0 : spin_s, bytes, core_each_};
}

Polling::Turn Polling::turn(bool has_local_steps, const Spin& spin, double now_s) const {
  if (under_way_ || stopped_) return Turn::kSleep;
  return has_local_steps || spin.over(now_s) ? Turn::kPoll : Turn::kSpin;
}

Polling::Wake Polling::end_wait(int64_t unfinished, double now_s) {
  --waiters_;
  last_wait_s_ = now_s;
  // Another thread must poll now.
  if (waiters_ > 0) return {.waiters = true};
  return unfinished > 0 ? on_begun() : Wake{};
}

Polling::Wake Polling::end_attend() {
  --waiters_;
  return {.waiters = waiters_ > 0};  // another thread must poll now
}

Polling::Wake Polling::dismiss(int64_t unfinished) {
  --attendants_;
  // Also while a thread polls: it may be about to leave, and relied on this one.
  return {.progress = attendants_ == 0 && waiters_ == 0 && unfinished > 0};
}

Polling::Wake Polling::on_local_steps(size_t waiting) const {
  if (waiting == 0) return {};
  Wake wake = on_begun();
  wake.poller = others_poll();
  wake.helper = waiting > 1;
  return wake;
}

Polling::Wake Polling::on_over() const {
  if (waiters_ == 0) return {};
  return {.waiters = true, .poller = others_poll()};
}

Polling::Wake Polling::on_call() const { return attendants_ == 0 ? Wake{} : on_over(); }

void Polling::wake(const Wake& wake) {
  if (wake.progress) progress_wake_.notify_one();
  if (wake.waiters) waiter_wake_.notify_all();
  if (wake.helper) helper_wake_.notify_one();
}

void Polling::sleep_waiting(Lock& lock, double most_s) {
  waiter_wake_.wait_for(lock, duration(most_s));
}

void Polling::sleep_progress(Lock& lock, double most_s) {
  progress_wake_.wait_for(lock, duration(most_s));
}

void Polling::sleep_helper(Lock& lock) { helper_wake_.wait(lock); }

void Polling::yield(Lock& lock) {
  lock.unlock();
  std::this_thread::yield();
  lock.lock();
}

// Destroying a condition variable waits for its sleepers.
void Polling::forget_sleepers() {
  for (auto* wake : {&progress_wake_, &helper_wake_, &waiter_wake_})
    new (wake) std::condition_variable();
}

}  // namespace stretto::comm
