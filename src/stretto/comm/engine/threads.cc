// Who polls the links, who sums, and who sleeps.
#include <algorithm>
#include <chrono>

#include "stretto/base/clock.h"
#include "stretto/base/cpu.h"
#include "stretto/base/thread.h"
#include "stretto/comm/engine/inside.h"
#include "stretto/comm/engine/spin.h"

namespace stretto::comm {
namespace {

constexpr double kLongTime_s = 3600;
constexpr double kRecently_s = 10e-3;  // a caller that waited so recently probably waits again soon
constexpr double kAttended_s = 1;      // how often the progress thread looks while another attends

std::chrono::duration<double> seconds(double s) { return std::chrono::duration<double>(s); }

}  // namespace

void EngineImpl::start_threads() {
  thread_ = start_thread("engine", [this] { progress(); });
  const size_t ranks_here = hosts_[host_of_[membership_.rank]].size();
  const auto cores = static_cast<size_t>(cpu_info().cores);
  core_each_ = cores >= ranks_here;
  if (membership_.size == 1 || cores < 2 * ranks_here) return;
  try {
    helper_ = start_thread("engine's helper", [this] { help(); });
  } catch (const Unsupported&) {
    // It is done without: the other threads sum.
  }
}

// The caller has set stopping_, and does not hold the lock.
void EngineImpl::join_threads() {
  progress_wake_.notify_all();
  helper_wake_.notify_all();
  links_->interrupt();
  if (thread_.joinable()) thread_.join();
  if (helper_.joinable()) helper_.join();
}

// Polls once, and runs one local step. The caller has checked that no other thread polls.
void EngineImpl::drive(Lock& lock, double max_wait_s) {
  driving_ = true;
  driver_ = std::this_thread::get_id();
  max_wait_s = std::min(max_wait_s, ending_->wait_s());
  if (units_->local_waiting() > 0) max_wait_s = 0;
  if (operations_.unfinished() > 0)
    max_wait_s = std::min(max_wait_s, std::max(next_check_s_ - now_s(), 0.0));
  held_bytes_ = 0;
  or_fail([&] {
    if (std::exchange(starved_, false)) throw std::bad_alloc();
    links_->poll(lock, max_wait_s);
    process_events();
    if (units_->local_waiting() == 0) return;
    if (units_->local_waiting() > 1) helper_wake_.notify_one();
    units_->run_local(lock);
    process_events();
  });
  run_errands(lock);
  driving_ = false;
  if (closed_) exit_wake_.notify_all();
}

// Reads without sleeping; true when something arrived. The caller has checked that no thread polls.
bool EngineImpl::glance() {
  bool arrived = true;
  or_fail([&] {
    arrived = links_->glance();
    if (arrived) process_events();
  });
  return arrived;
}

void EngineImpl::progress() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (attendants_ > 0) {
      progress_wake_.wait_for(lock, seconds(kAttended_s));
    } else if (driving_ || waiters_ > 0) {
      progress_wake_.wait_for(lock, seconds(kRecently_s));
    } else if (operations_.unfinished() == 0 && now_s() - last_wait_s_ < kRecently_s) {
      progress_wake_.wait_for(lock, seconds(kRecently_s));
    } else {
      drive(lock, kLongTime_s);
      if (waiters_ > 0) waiter_wake_.notify_all();
    }
  }
}

void EngineImpl::help() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (units_->local_waiting() == 0) {
      helper_wake_.wait(lock);
      continue;
    }
    or_fail([&] {
      units_->run_local(lock);
      process_events();
    });
  }
}

// Wakes up the progress thread if no other thread polls.
void EngineImpl::call_progress() {
  if (!driving_ && attendants_ == 0) progress_wake_.notify_one();
}

// Wakes up threads for local steps that a caller has left to them.
void EngineImpl::call_workers() {
  const size_t waiting = units_->local_waiting();
  if (waiting == 0) return;
  if (!driving_) {
    call_progress();
  } else if (driver_ != std::this_thread::get_id()) {
    links_->interrupt();
  }
  if (waiting > 1) helper_wake_.notify_one();
}

void EngineImpl::run_errands(Lock& lock) {
  if (errands_.empty()) return;
  const auto errands = std::exchange(errands_, {});
  lock.unlock();
  for (const auto& errand : errands) errand();
  lock.lock();
}

bool EngineImpl::wait(Handle handle, double timeout_s, int* source) {
  std::exception_ptr error;
  {
    Inside inside(*this);
    const OperationTable::Shared open = find(handle, "wait");
    if (!await(inside.lock, *open, timeout_s)) return false;
    error = open->error;
    if (source) *source = open->operation.kind == Kind::kRecv ? open->operation.peer : -1;
    operations_.release(handle);  // unless another thread has waited for it too
  }
  if (error) std::rethrow_exception(error);
  return true;
}

bool EngineImpl::await(Lock& lock, const OpenOperation& open, double timeout_s) {
  const double began = now_s();
  const auto note = [&](double seconds) {
    const GroupState* group = groups_.find(open.group);  // null: it was removed since
    if (group && group->tuning) note_wait(*group->tuning, open, seconds);
  };
  if (open.done) {  // nobody else has to poll in this thread's place
    note(0);
    return true;
  }
  const double deadline = began + (timeout_s < 0 ? 1e9 : timeout_s);
  ++waiters_;
  // A message of Stretto's own comes when another rank's callers let it, and they need the core.
  const double spin_s = open.operation.unseen && !core_each_ ? 0 : options_.spin_s;
  Spin spin(began, spin_s, bytes_of(open), core_each_);
  if (!closed_) {  // sends small operations that were held to be fused with later ones
    held_bytes_ = 0;
    or_fail([&] { process_events(); });
  }
  while (!open.done) {
    const double left = deadline - now_s();
    if (left <= 0) break;
    if (driving_ || closed_) {
      waiter_wake_.wait_for(lock, seconds(std::min(left, kLongTime_s)));
    } else if (units_->local_waiting() == 0 && !spin.over(now_s())) {
      if (glance()) {
        spin.on_arrival(now_s());
        continue;
      }
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    } else {
      drive(lock, std::min(left, kLongTime_s));
    }
  }
  --waiters_;
  last_wait_s_ = now_s();
  note(last_wait_s_ - began);
  // Another thread must poll now.
  if (waiters_ > 0) {
    waiter_wake_.notify_all();
  } else if (operations_.unfinished() > 0) {
    call_progress();
  }
  return open.done;
}

void EngineImpl::attend(const std::function<bool()>& until, double timeout_s, bool begins) {
  Inside inside(*this);
  inside.require_open();
  const double deadline = now_s() + timeout_s;
  held_bytes_ = 0;
  or_fail([&] { process_events(); });
  attendants_ += begins;
  ++waiters_;
  while (!closed_ && !until()) {
    const double left = deadline - now_s();
    if (left <= 0) break;
    if (driving_) {
      waiter_wake_.wait_for(inside.lock, seconds(std::min(left, kLongTime_s)));
    } else {
      drive(inside.lock, std::min(left, kLongTime_s));
    }
  }
  --waiters_;
  if (waiters_ > 0) waiter_wake_.notify_all();  // another thread must poll now
}

void EngineImpl::dismiss() {
  Inside inside(*this);
  --attendants_;
  // Also while a thread polls: it may be about to leave, and relied on this one.
  if (attendants_ == 0 && waiters_ == 0 && operations_.unfinished() > 0)
    progress_wake_.notify_one();
}

void EngineImpl::call_attendants() {
  Inside inside(*this);
  if (waiters_ == 0 || attendants_ == 0) return;
  waiter_wake_.notify_all();
  if (!driving_ || driver_ == std::this_thread::get_id()) return;
  // The thread that wakes up may take this one's core, and takes the lock first of all.
  inside.lock.unlock();
  links_->interrupt();
}

bool EngineImpl::poll(Handle handle) {
  Inside inside(*this);
  const OperationTable::Shared open = find(handle, "poll");
  if (open->done || driving_ || closed_) return open->done;
  drive(inside.lock, 0);
  if (waiters_ > 0) waiter_wake_.notify_all();  // one that came meanwhile must poll now
  return open->done;
}

void EngineImpl::deliver(Handle handle) {
  Inside inside(*this);
  const OperationTable::Shared open = find(handle, "deliver");
  if (open->delivery == Delivery::kQueue)
    throw_invalid("deliver: handle {} is reported through next_completions() already", handle);
  open->delivery = Delivery::kQueue;
  if (open->done) {
    operations_.report(open);
    completion_wake_.notify_one();
  } else {
    call_progress();
  }
}

size_t EngineImpl::next_completions(std::span<Completion> out, double timeout_s) {
  Inside inside(*this);
  completion_wake_.wait_for(inside.lock, seconds(std::min(timeout_s, 1e9)),
                            [&] { return operations_.has_reported() || interrupted_; });
  interrupted_ = stopping_;
  size_t count = 0;
  for (; count < out.size() && operations_.has_reported(); ++count)
    out[count] = operations_.take_reported();
  return count;
}

void EngineImpl::interrupt() {
  Inside inside(*this);
  interrupted_ = true;
  completion_wake_.notify_all();
}

}  // namespace stretto::comm
