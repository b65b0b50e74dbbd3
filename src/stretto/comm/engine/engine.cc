// The life of an engine, from its first connection to its end.
#include "stretto/comm/engine/engine.h"

#include <algorithm>
#include <new>

#include "stretto/base/clock.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/log.h"
#include "stretto/comm/engine/inside.h"

namespace stretto::comm {
namespace {

constexpr double kLastWords_s = 1;  // for notifying other ranks of a failure
constexpr double kGoodbye_s = 5;    // for data that remote ranks have not acknowledged at the end
// With more ranks, agreements on settings take several rounds, in which all ranks have a part.
constexpr int kOneRound = 16;

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
      non_finite_(membership.rank),
      trace_(!options_.trace.empty(), membership.rank) {
  if (tells_cache(membership_.rank, static_cast<size_t>(membership_.size), options_))
    cache_ = read_cache(options_);
  links_ = std::make_unique<Links>(store, membership_, options_, &callers_);
  units_.emplace(links_.get(), &trace_, &groups_, options_.nan_check == NanCheck::kStop);
  ending_.emplace(*links_, membership_, options_);
  hosts_ = find_job_hosts(links_->host_names(), links_->rack_names());
  polling_.set_cores(static_cast<size_t>(cpu_info().cores),
                     hosts_.ranks[hosts_.host[membership_.rank]].size());
  std::vector<int> world(membership_.size);
  for (int rank = 0; rank < membership_.size; ++rank) world[rank] = rank;
  GroupState& state = make_group(kWorld, "world", std::move(world));
  form();
  begin_tuning(state);
  try {
    start_threads();
    dump_signal_.emplace([this] { on_dump_signal(); });
  } catch (const std::exception& e) {  // the destructor does not run; tell the other ranks
    Lock lock(mutex_);
    fail(membership_.rank, "", fmt::format("rank {}: {}", membership_.rank, e.what()));
    polling_.stop();
    lock.unlock();
    join_threads();
    lock.lock();
    leave(lock);
    throw;
  }
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
    if (!ending_->error()) {
      lock.unlock();
      check_interrupt();
      lock.lock();
      continue;
    }
    leave(lock);  // the destructor does not run; other ranks must get the reason before links break
    std::rethrow_exception(ending_->error());
  }
}

EngineImpl::~EngineImpl() {
  if (forks_ != forks()) {
    abandon();
    return;
  }
  close();
  Lock lock(mutex_);
  exit_wake_.wait(lock, [&] { return inside_ == 0; });
}

void EngineImpl::close() {
  if (forks_ != forks()) return;
  {
    Lock lock(mutex_);
    if (closed_) {
      exit_wake_.wait(lock, [&] { return left_; });
      return;
    }
    closed_ = true;
    polling_.stop();
    completions_.close();
    non_finite_.close();
  }
  dump_signal_.reset();
  join_threads();
  {
    Lock lock(mutex_);
    exit_wake_.wait(lock, [&] { return !polling_.under_way(); });
    leave(lock);
    last_statistics_ = gather_statistics();
    fail_open(ending_->error() ? ending_->error()
                               : std::make_exception_ptr(
                                     CommError(membership_.rank, "", "the engine was closed")));
    links_.reset();
    left_ = true;
  }
  exit_wake_.notify_all();
  if (options_.trace.empty()) return;
  try {
    write_file(options_.trace, trace_json());
  } catch (const FormatError& error) {
    // trace_json() gives the same text.
    log_message(LogLevel::kWarning, fmt::format("STRETTO_TRACE: {}", error.what()));
  }
}

// Does not destroy what belongs to threads and descriptors that a forked child does not have.
void EngineImpl::abandon() {
  const auto renew = []<typename T>(T& object) { new (&object) T(); };
  renew(thread_);
  renew(helper_);
  renew(mutex_);
  polling_.forget_sleepers();
  completions_.forget_sleepers();
  non_finite_.forget_sleepers();
  renew(exit_wake_);
  renew(units_);
  links_.release();
}

// Says goodbye, and lets go of the callers' memory. No other thread polls.
void EngineImpl::leave(Lock& lock) {
  polling_.begin();
  const double began = now_s();
  try {
    while (membership_.size > kOneRound && operations_.unfinished() > 0 &&
           !operations_.callers_wait() && !ending_->has_begun() && now_s() < began + kLastWords_s) {
      links_->poll(lock, 0.05);
      process_events();
    }
    const bool hurries = ending_->has_begun() || operations_.callers_wait();
    say_goodbye(lock, now_s() + (hurries ? kLastWords_s : kGoodbye_s));
  } catch (const std::exception&) {
    // There are no descriptors or no memory left to do so, and nobody to say it to.
  }
  for (Link* link : links_->all()) link->forget_messages();
  polling_.end();
}

void EngineImpl::say_goodbye(Lock& lock, double deadline) {
  std::vector<bool> has_bye(membership_.size);
  const double began = now_s();
  while (true) {
    bool busy = links_->shakes_hands() && now_s() < began + kLastWords_s;
    for (Link* link : links_->all()) {
      if (link->alive() && !has_bye[link->rank()]) {
        has_bye[link->rank()] = true;
        link->send_control(FrameType::kBye, {}, membership_.rank, "");
      }
      // Messages may still wait for a link to stand.
      if (!link->alive() && !links_->is_connecting(link->rank())) continue;
      busy |= ending_->has_begun() ? !link->flushed() : !link->idle();
    }
    if (!busy || now_s() >= deadline) return;
    links_->events() = {};
    links_->poll(lock, 0.05);
  }
}

void EngineImpl::fail_open(const std::exception_ptr& error) {
  const std::vector<OperationTable::Shared> open = operations_.under_way();
  if (!open.empty()) stop_all();
  for (const auto& operation : open) {
    operation->error = error;
    finish(operation.get());
  }
}

OperationTable::Shared EngineImpl::find(Handle handle, std::string_view method) const {
  if (OperationTable::Shared found = operations_.find(handle)) return found;
  if (closed_) throw CommError(membership_.rank, "", "the engine was closed");
  throw_invalid("{}: handle {} is unknown, or was waited for before", method, handle);
}

int EngineImpl::source(Handle handle) {
  Inside inside(*this);
  return find(handle, "source")->operation.peer;
}

std::vector<int> EngineImpl::awaited(Handle handle) {
  Inside inside(*this);
  return units_->awaited(find(handle, "awaited").get());
}

void EngineImpl::abort(std::string_view reason) {
  Inside inside(*this);
  if (!closed_) fail(membership_.rank, "", std::string(reason));
}

void EngineImpl::report(NonFiniteReport found) {
  Inside inside(*this);
  if (options_.nan_check == NanCheck::kStop && !closed_)
    fail(membership_.rank, "", non_finite_.reason(found.name, found.count, found.first_offset));
  non_finite_.add(std::move(found));
}

std::vector<NonFiniteReport> EngineImpl::take_non_finite() {
  Inside inside(*this);
  return non_finite_.take();
}

void EngineImpl::wait_non_finite(double timeout_s) {
  Inside inside(*this);
  non_finite_.wait(inside.lock, timeout_s);
}

std::string EngineImpl::trace_json() {
  Inside inside(*this);
  return trace_.json();
}

void EngineImpl::start_trace() {
  Inside inside(*this);
  trace_.start(now_s());
}

std::string EngineImpl::stop_trace() {
  Inside inside(*this);
  return trace_.stop();
}

Statistics EngineImpl::statistics() {
  Inside inside(*this);
  return closed_ && !links_ ? last_statistics_ : gather_statistics();
}

Statistics EngineImpl::gather_statistics() const {
  Statistics s;
  s.operations = operations_.completed();
  s.joined = operations_.joined();
  s.dropped_messages = groups_.dropped_messages();
  s.sum_s = units_->sum_s();
  for (const Link* link : links_->all()) {
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
  for (const auto& [id, state] : groups_.all()) {
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
