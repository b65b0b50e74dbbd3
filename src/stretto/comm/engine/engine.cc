#include <algorithm>
#include <chrono>
#include <new>

#include "stretto/base/clock.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/thread.h"
#include "stretto/comm/engine/engine_impl.h"

namespace stretto::comm {
namespace {

constexpr double kLongTime_s = 3600;
constexpr double kRecently_s = 10e-3;  // a caller that waited so recently probably waits again soon
constexpr double kLastWords_s = 1;     // for notifying other ranks of a failure
constexpr double kGoodbye_s = 5;  // for data that remote ranks have not acknowledged at the end

std::chrono::duration<double> seconds(double s) { return std::chrono::duration<double>(s); }

}  // namespace

std::unique_ptr<Engine> Engine::create(std::shared_ptr<Store> store, Membership membership,
                                       Options options) {
  if (membership.size < 1 || membership.rank < 0 || membership.rank >= membership.size)
    throw_invalid("engine: rank {} is not below the size {} of the job", membership.rank,
                  membership.size);
  check(options);
  return std::make_unique<EngineImpl>(*store, membership, std::move(options));
}

EngineImpl::EngineImpl(Store& store, Membership membership, Options options)
    : membership_(membership),
      options_(std::move(options)),
      trace_(!options_.trace.empty(), membership.rank) {
  links_ = std::make_unique<Links>(store, membership_, options_);
  units_ = std::make_unique<Units>(links_.get(), &trace_, options_.nan_check == NanCheck::kStop);
  units_->set_groups(&groups_);
  const std::vector<std::string>& names = links_->host_names();
  for (int rank = 0; rank < membership_.size; ++rank) {
    auto same = std::find_if(hosts_.begin(), hosts_.end(), [&](const std::vector<int>& host) {
      return names[host.front()] == names[rank];
    });
    if (same == hosts_.end()) same = hosts_.insert(hosts_.end(), std::vector<int>{});
    same->push_back(rank);
  }
  std::vector<int> world(membership_.size);
  for (int rank = 0; rank < membership_.size; ++rank) world[rank] = rank;
  insert_group(kWorld, "world", std::move(world));
  has_spoken_.resize(membership_.size);
  is_notified_.resize(membership_.size);
  form();
  begin_tuning(kWorld);
  thread_ = start_thread("engine", [this] { progress(); });
}

void EngineImpl::form() {
  Lock lock(mutex_);
  const double deadline = now_s() + options_.connect_timeout_s;
  while (!links_->formed()) {
    const double left = deadline - now_s();
    if (left <= 0)
      throw CommError(
          -1, "tcp",
          fmt::format("rank {} is not connected to {} after {:g} s (STRETTO_CONNECT_TIMEOUT)",
                      membership_.rank, links_->missing(), options_.connect_timeout_s));
    drive(lock, std::min(left, kInterruptible_s));
    if (!failure_) {
      lock.unlock();
      check_interrupt();
      lock.lock();
      continue;
    }
    lock.unlock();
    leave();  // the destructor does not run; other ranks must get the reason before links break
    std::rethrow_exception(failure_);
  }
}

EngineImpl::~EngineImpl() {
  if (forks_ != forks()) {
    abandon();
    return;
  }
  {
    Lock lock(mutex_);
    stopping_ = true;
    interrupted_ = true;
  }
  progress_wake_.notify_all();
  completion_wake_.notify_all();
  links_->interrupt();
  thread_.join();
  leave();
  if (options_.trace.empty()) return;
  try {
    write_file(options_.trace, trace_.json());
  } catch (const FormatError&) {
    // A destructor cannot throw; trace_json() gives the same text before.
  }
}

// A forked child has no progress thread, and its copy of the lock may be locked for ever.
void EngineImpl::check_process() const {
  if (forks_ != forks())
    throw_invalid("engine: it was made before fork(), and works only in the process that made it");
}

// Does not destroy what belongs to threads and descriptors that a forked child does not have.
void EngineImpl::abandon() {
  const auto renew = []<typename T>(T& object) { new (&object) T(); };
  renew(thread_);
  renew(mutex_);
  renew(progress_wake_);
  renew(waiter_wake_);
  renew(completion_wake_);
  units_.release();
  links_.release();
}

void EngineImpl::leave() {
  Lock lock(mutex_);
  for (auto& link : links_->all()) {
    if (link && link->alive()) link->send_control(FrameType::kBye, {}, membership_.rank, "");
  }
  const double deadline = now_s() + (verdict_ ? kLastWords_s : kGoodbye_s);
  while (now_s() < deadline) {
    bool busy = false;
    for (auto& link : links_->all()) {
      if (!link || !link->alive()) continue;
      busy |= verdict_ ? !link->flushed() : !link->idle();
    }
    if (!busy) return;
    links_->events() = {};
    links_->poll(lock, 0.05);
  }
}

// Polls once. The caller has checked that no other thread polls.
void EngineImpl::drive(Lock& lock, double max_wait_s) {
  driving_ = true;
  if (verdict_ && !failure_)
    max_wait_s = std::min(max_wait_s, std::max(settle_until_s_ - now_s(), 0.0));
  held_bytes_ = 0;
  try {
    links_->poll(lock, max_wait_s);
    process_events();
  } catch (const std::exception& e) {
    fail(membership_.rank, "engine", fmt::format("rank {}: {}", membership_.rank, e.what()));
  }
  driving_ = false;
}

// Reads without sleeping; true when something arrived. The caller has checked that no thread polls.
bool EngineImpl::glance() {
  try {
    if (!links_->glance()) return false;
    process_events();
  } catch (const std::exception& e) {
    fail(membership_.rank, "engine", fmt::format("rank {}: {}", membership_.rank, e.what()));
  }
  return true;
}

void EngineImpl::progress() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (driving_ || waiters_ > 0) {
      progress_wake_.wait_for(lock, seconds(kRecently_s));
    } else if (unfinished_ == 0 && now_s() - last_wait_s_ < kRecently_s) {
      progress_wake_.wait_for(lock, seconds(kRecently_s));
    } else {
      drive(lock, kLongTime_s);
      if (waiters_ > 0) waiter_wake_.notify_all();
    }
  }
}

bool EngineImpl::wait(Handle handle, double timeout_s, int* source) {
  check_process();
  Lock lock(mutex_);
  const auto found = operations_.find(handle);
  if (found == operations_.end())
    throw_invalid("wait: handle {} is unknown, or was waited for before", handle);
  OpenOperation* open = found->second.get();
  if (!await(lock, open, timeout_s)) return false;
  const std::exception_ptr error = open->error;
  if (source) *source = open->operation.kind == Kind::kRecv ? open->operation.peer : -1;
  operations_.erase(handle);
  lock.unlock();
  if (error) std::rethrow_exception(error);
  return true;
}

bool EngineImpl::await(Lock& lock, const OpenOperation* open, double timeout_s) {
  const double deadline = timeout_s < 0 ? now_s() + 1e9 : now_s() + timeout_s;
  ++waiters_;
  const double began = now_s();
  const double spin_until = bytes_of(*open) <= kSmallBytes ? began + options_.spin_s : 0;
  if (!open->done) {  // sends small operations that were held to be fused with later ones
    held_bytes_ = 0;
    process_events();
  }
  while (!open->done) {
    const double left = deadline - now_s();
    if (left <= 0) break;
    if (driving_) {
      waiter_wake_.wait_for(lock, seconds(std::min(left, kLongTime_s)));
    } else if (now_s() < spin_until) {  // waking up takes longer than many small operations
      if (glance()) continue;
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    } else {
      drive(lock, std::min(left, kLongTime_s));
    }
  }
  --waiters_;
  last_wait_s_ = now_s();
  note_wait(*open, last_wait_s_ - began);
  // Another thread must poll now.
  if (waiters_ > 0) {
    waiter_wake_.notify_all();
  } else if (unfinished_ > 0) {
    progress_wake_.notify_one();
  }
  return open->done;
}

bool EngineImpl::poll(Handle handle) {
  check_process();
  Lock lock(mutex_);
  const auto found = operations_.find(handle);
  if (found == operations_.end())
    throw_invalid("poll: handle {} is unknown, or was waited for before", handle);
  if (!found->second->done && !driving_) drive(lock, 0);
  return found->second->done;
}

int EngineImpl::source(Handle handle) {
  Lock lock(mutex_);
  const auto found = operations_.find(handle);
  if (found == operations_.end())
    throw_invalid("source: handle {} is unknown, or was waited for before", handle);
  return found->second->operation.peer;
}

void EngineImpl::deliver(Handle handle) {
  Lock lock(mutex_);
  const auto found = operations_.find(handle);
  if (found == operations_.end())
    throw_invalid("deliver: handle {} is unknown, or was waited for before", handle);
  OpenOperation* open = found->second.get();
  if (open->delivery == Delivery::kQueue)
    throw_invalid("deliver: handle {} is reported through next_completions() already", handle);
  open->delivery = Delivery::kQueue;
  if (open->done) {
    completed_.push_back(open);
    completion_wake_.notify_one();
  } else if (!driving_) {
    progress_wake_.notify_one();
  }
}

size_t EngineImpl::next_completions(std::span<Completion> out, double timeout_s) {
  Lock lock(mutex_);
  completion_wake_.wait_for(lock, seconds(std::min(timeout_s, 1e9)),
                            [&] { return !completed_.empty() || interrupted_; });
  interrupted_ = stopping_;
  size_t count = 0;
  for (; count < out.size() && !completed_.empty(); ++count) {
    OpenOperation* open = completed_.front();
    completed_.pop_front();
    const bool receives = open->operation.kind == Kind::kRecv;
    out[count] = {open->handle, receives ? open->operation.peer : -1, open->error};
    operations_.erase(open->handle);
  }
  return count;
}

void EngineImpl::interrupt() {
  {
    Lock lock(mutex_);
    interrupted_ = true;
  }
  completion_wake_.notify_all();
}

void EngineImpl::abort(std::string_view reason) {
  Lock lock(mutex_);
  fail(membership_.rank, "", std::string(reason));
}

void EngineImpl::report(NonFiniteReport found) {
  Lock lock(mutex_);
  found.rank = membership_.rank;
  if (options_.nan_check == NanCheck::kStop)
    fail(membership_.rank, "",
         fmt::format("rank {}: {} has {} values that are not finite, the first at {}",
                     membership_.rank, found.name, found.count, found.first_offset));
  non_finite_.push_back(std::move(found));
}

std::vector<NonFiniteReport> EngineImpl::take_non_finite() {
  Lock lock(mutex_);
  return std::exchange(non_finite_, {});
}

std::string EngineImpl::trace_json() {
  Lock lock(mutex_);
  return trace_.json();
}

Statistics EngineImpl::statistics() {
  Lock lock(mutex_);
  Statistics s;
  s.operations = done_operations_;
  s.joined = joined_operations_;
  s.sum_s = units_->sum_s();
  for (const auto& link : links_->all()) {
    if (!link) continue;
    s.resent_chunks += link->resent_chunks();
    s.duplicate_chunks += link->duplicate_chunks();
    s.revived_streams += link->revived_streams();
    s.payload_bytes += link->payload_bytes();
    s.peak_eager_bytes += link->peak_eager_bytes();
    LinkStatistics row{.rank = link->rank(),
                       .host = links_->host_names()[link->rank()],
                       .no_rdma = links_->no_rdma(link->rank()),
                       .streams = {}};
    for (const Link::StreamState& stream : link->streams())
      row.streams.push_back({.name = stream.name,
                             .sent_bytes = stream.sent_bytes,
                             .received_bytes = stream.received_bytes,
                             .alive = stream.alive,
                             .used = stream.used,
                             .reason = stream.reason});
    s.links.push_back(std::move(row));
  }
  for (const auto& [id, state] : groups_) {
    if (state->tuning && !state->tuning->finder.model().empty())
      s.tuning.push_back(tuning_statistics(*state));
  }
  return s;
}

void abort_with(Engine& engine, const std::exception_ptr& error) {
  std::string reason = "an unknown error";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    reason = e.what();
  } catch (...) {
  }
  engine.abort(fmt::format("rank {}: {}", engine.membership().rank, reason));
}

}  // namespace stretto::comm
