// The threads that poll the links and sum, as polling.h decides.
#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/base/thread.h"
#include "stretto/comm/engine/inside.h"

namespace stretto::comm {
namespace {

constexpr double kLongTime_s = 3600;

}  // namespace

void EngineImpl::start_threads() {
  thread_ = start_thread("engine", [this] { progress(); });
  if (membership_.size == 1 || !polling_.helps()) return;
  try {
    helper_ = start_thread("engine's helper", [this] { help(); });
  } catch (const Unsupported&) {
    // It is done without: the other threads sum.
  }
}

// The caller has called polling_.stop(), and does not hold the lock.
void EngineImpl::join_threads() {
  polling_.wake({.progress = true, .helper = true});
  links_->interrupt();
  if (thread_.joinable()) thread_.join();
  if (helper_.joinable()) helper_.join();
}

// Polls once, and runs one local step. The caller has checked that no other thread polls.
void EngineImpl::drive(Lock& lock, double max_wait_s) {
  polling_.begin();
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
    polling_.wake({.helper = units_->local_waiting() > 1});
    units_->run_local(lock);
    process_events();
  });
  run_errands(lock);
  callers_.let_in(lock);
  polling_.end();
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

// Sends the messages of small operations that were held to be sent with those of later ones.
void EngineImpl::send_held() {
  held_bytes_ = 0;
  or_fail([&] { process_events(); });
}

// For a thread that stops polling. Another one polls if operations are under way; if none are,
// small messages may be left, which were copied.
void EngineImpl::write_rest() {
  if (!closed_ && links_->unwritten() && operations_.unfinished() == 0)
    or_fail([&] { process_events(Flush::kAll); });
}

void EngineImpl::progress() {
  Lock lock(mutex_);
  while (!polling_.stopped()) {
    const double pause_s = polling_.progress_pause_s(operations_.unfinished(), now_s());
    if (pause_s > 0) {
      polling_.sleep_progress(lock, pause_s);
    } else {
      drive(lock, kLongTime_s);
      polling_.wake(polling_.after_poll());
    }
  }
}

void EngineImpl::help() {
  Lock lock(mutex_);
  while (!polling_.stopped()) {
    if (units_->local_waiting() == 0) {
      polling_.sleep_helper(lock);
      continue;
    }
    or_fail([&] {
      units_->run_local(lock);
      process_events();
    });
  }
}

void EngineImpl::wake(const Polling::Wake& wake) {
  polling_.wake(wake);
  if (wake.poller) links_->interrupt();
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
  polling_.begin_wait();
  Spin spin = polling_.spin(began, options_.spin_s, bytes_of(open), open.operation.unseen);
  if (!closed_) send_held();
  while (!open.done) {
    const double now = now_s(), left = std::min(deadline - now, kLongTime_s);
    if (left <= 0) break;
    switch (polling_.turn(units_->local_waiting() > 0, spin, now)) {
      case Polling::Turn::kSleep:
        polling_.sleep_waiting(lock, left);
        break;
      case Polling::Turn::kSpin:
        if (glance()) {
          spin.on_arrival(now_s());
        } else if (callers_.wait()) {
          callers_.let_in(lock);
        } else {
          Polling::yield(lock);
        }
        break;
      case Polling::Turn::kPoll:
        drive(lock, left);
        break;
    }
  }
  write_rest();
  const double ended = now_s();
  note(ended - began);
  wake(polling_.end_wait(operations_.unfinished(), ended));
  return open.done;
}

void EngineImpl::attend(const std::function<bool()>& until, double timeout_s, bool begins) {
  Inside inside(*this);
  inside.require_open();
  const double deadline = now_s() + timeout_s;
  send_held();
  polling_.begin_attend(begins);
  while (!closed_ && !until()) {
    const double left = std::min(deadline - now_s(), kLongTime_s);
    if (left <= 0) break;
    if (polling_.under_way()) {
      polling_.sleep_waiting(inside.lock, left);
    } else {
      drive(inside.lock, left);
    }
  }
  write_rest();
  wake(polling_.end_attend());
}

void EngineImpl::dismiss() {
  Inside inside(*this);
  wake(polling_.dismiss(operations_.unfinished()));
}

void EngineImpl::call_attendants() {
  Inside inside(*this);
  const Polling::Wake wake = polling_.on_call();
  polling_.wake(wake);
  if (!wake.poller) return;
  // The thread that wakes up may take this one's core, and takes the lock first of all.
  inside.lock.unlock();
  links_->interrupt();
}

bool EngineImpl::poll(Handle handle) {
  Inside inside(*this);
  const OperationTable::Shared open = find(handle, "poll");
  if (open->done || polling_.under_way() || closed_) return open->done;
  drive(inside.lock, 0);
  if (!closed_ && links_->unwritten()) or_fail([&] { process_events(Flush::kAll); });
  wake(polling_.after_poll());
  return open->done;
}

void EngineImpl::deliver(Handle handle) {
  Inside inside(*this);
  const OperationTable::Shared open = find(handle, "deliver");
  if (open->delivery == Delivery::kQueue)
    throw_invalid("deliver: handle {} is reported through next_completions() already", handle);
  open->delivery = Delivery::kQueue;
  if (open->done) {
    completions_.add(open);
  } else {
    wake(polling_.on_begun());
  }
}

size_t EngineImpl::next_completions(std::span<Completion> out, double timeout_s) {
  Inside inside(*this);
  return completions_.take(inside.lock, out, timeout_s, &operations_);
}

void EngineImpl::interrupt() {
  Inside inside(*this);
  completions_.interrupt();
  non_finite_.interrupt();
}

}  // namespace stretto::comm
