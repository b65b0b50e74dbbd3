// The calls of threads that submit and wait.
#include "stretto/comm/negotiate/unordered.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/thread.h"
#include "stretto/comm/negotiate/unordered_item.h"

namespace stretto::comm {
namespace {

// Places beyond these keep no item for the next operation.
constexpr size_t kMostSpare = 4096;

// The low bits of a handle are its place.
constexpr int kPlaceBits = 24;

std::chrono::duration<double> at_most(double timeout_s) {
  return std::chrono::duration<double>(timeout_s < 0 ? 1e9 : std::min(timeout_s, 1e9));
}

// Waits without asking for the time if there is no limit.
template <typename Predicate>
bool wait_on(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, double timeout_s,
             Predicate&& predicate) {
  if (timeout_s >= 0) return changed.wait_for(lock, at_most(timeout_s), predicate);
  changed.wait(lock, predicate);
  return true;
}

// Operations come one after the other, so the next one's memory is read while this one is worked
// on. Null is allowed.
void prefetch(const void* memory) {
  if (!memory) return;
  __builtin_prefetch(memory);
  __builtin_prefetch(static_cast<const std::byte*>(memory) + 64);
}

// Counts down from a time limit; the clock is read only if there is one.
class Limit {
 public:
  explicit Limit(double timeout_s)
      : timeout_s_(timeout_s), end_s_(timeout_s > 0 ? now_s() + timeout_s : 0) {}
  double left_s() const { return timeout_s_ > 0 ? std::max(end_s_ - now_s(), 0.0) : timeout_s_; }

 private:
  const double timeout_s_, end_s_;
};

}  // namespace

bool Carrier::wait(double timeout_s) {
  if (!over_.load(std::memory_order_acquire)) {
    const Limit limit(timeout_s);
    std::unique_lock lock(mutex_);
    if (!wait_on(freed_, lock, timeout_s, [&] { return !taken_; })) return false;
    if (!over_) {
      taken_ = true;
      lock.unlock();
      bool over = true;
      std::exception_ptr error;
      try {
        over = engine_.wait(handle_, limit.left_s());
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      taken_ = false;
      error_ = error;
      over_.store(over, std::memory_order_release);
      freed_.notify_all();
      if (!over) return false;
    }
  }
  if (error_) std::rethrow_exception(error_);
  return true;
}

Unordered::Unordered(Engine& engine, std::string_view name, std::vector<int> ranks,
                     UnorderedOptions options)
    : engine_(engine),
      name_(name),
      ranks_(std::move(ranks)),
      options_(std::move(options)),
      group_(engine.add_group(name_ + ", negotiation", ranks_)),
      rank_(static_cast<int>(std::find(ranks_.begin(), ranks_.end(), engine.membership().rank) -
                             ranks_.begin())),
      attendance_(engine),
      negotiator_(rank_, static_cast<int>(ranks_.size()), options_.stall_s) {
  negotiator_.set_limit(limit_s());
  try {
    thread_ = start_thread("named operations", [this] { run(); });
  } catch (...) {
    engine_.remove_group(group_);
    throw;
  }
}

Unordered::~Unordered() {
  bool alone = false;
  {
    std::lock_guard lock(mutex_);
    alone = !over_done_;
  }
  // First, so that this text is the reason and not what the thread finds.
  if (alone && ranks_.size() > 1)
    engine_.abort(
        fmt::format("rank {} has gone without leaving '{}'", engine_.membership().rank, name_));
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  call();
  thread_.join();
  try {
    engine_.remove_group(group_);
  } catch (const std::exception&) {
    // Receives of a job that is ending; they end with the engine.
  }
}

// A forked child has no thread for the rounds, and its copy of the lock may be locked for ever.
void Unordered::check_process() const {
  if (forks_ != forks())
    throw_invalid(
        "named operations: made before fork(), they work only in the process that made them");
}

Handle Unordered::submit(std::string_view name, std::string_view description, Start start) {
  const auto text = std::make_shared<const std::string>(description);
  return submit(name, [&](Item& item) {
    item.description = text;
    item.start = std::move(start);
  });
}

Handle Unordered::submit(std::string_view name, std::string_view description, Group group,
                         std::vector<Operation> operations) {
  const auto text = std::make_shared<const std::string>(description);
  return submit(name, [&](Item& item) {
    item.description = text;
    item.group = group;
    item.operations = std::move(operations);
  });
}

Handle Unordered::submit(std::string_view name, const std::shared_ptr<const Recurring>& what,
                         void* data) {
  return submit(name, [&](Item& item) {
    item.description = {what, &what->description};
    item.group = what->group;
    item.recurring = what.get();
    item.data = data;
  });
}

// `fill` writes what is submitted into a new item.
template <typename Fill>
Handle Unordered::submit(std::string_view name, Fill&& fill) {
  check_process();
  std::unique_lock lock(mutex_);
  if (broken_) std::rethrow_exception(broken_);
  if (over_done_) throw_invalid("'{}' was submitted after all ranks have left the job", name);
  Item& item = insert();
  const Handle handle = item.handle;
  const double now = now_s();
  try {
    fill(item);
    negotiator_.add(name, *item.description, now, handle);
  } catch (...) {
    const std::shared_ptr<Item> undone = release(*find(handle));
    lock.unlock();
    throw;
  }
  if (item.start) news_.bytes += kManyBytes;  // nobody knows
  if (item.recurring) news_.bytes += bytes_of(item.recurring->operation);
  for (const Operation& operation : item.operations) news_.bytes += bytes_of(operation);
  if (std::exchange(news_.any, true)) return handle;
  news_.first_s = now;
  lock.unlock();
  call();
  return handle;
}

// A new item. Called with the lock.
Unordered::Item& Unordered::insert() {
  if (free_places_.empty()) {
    if (places_.size() >> kPlaceBits != 0)
      throw_unsupported("named operations: more than {} that nobody has waited for",
                        (1 << kPlaceBits) - 1);
    places_.emplace_back();
    free_places_.reserve(places_.capacity());  // release() cannot fail
    free_places_.push_back(static_cast<uint32_t>(places_.size() - 1));
  }
  Place& place = places_[free_places_.back()];
  if (!place.item) place.item = std::make_shared<Item>();
  place.handle = ++place.uses << kPlaceBits | free_places_.back();
  free_places_.pop_back();
  place.item->handle = place.handle;
  if (!free_places_.empty()) prefetch(places_[free_places_.back()].item.get());
  return *place.item;
}

// Frees a place. What it returns is to be destroyed without the lock. Called with the lock.
std::shared_ptr<Unordered::Item> Unordered::release(Place& place) {
  free_places_.push_back(static_cast<uint32_t>(&place - places_.data()));
  place.handle = kNoHandle;
  return std::exchange(place.item, nullptr);
}

// Null: the handle is not known, or not any more. Called with the lock.
Unordered::Place* Unordered::find(Handle handle) {
  const size_t at = handle & ((Handle{1} << kPlaceBits) - 1);
  if (at >= places_.size() || handle == kNoHandle || places_[at].handle != handle) return nullptr;
  return &places_[at];
}

// Called with the lock.
const std::shared_ptr<Unordered::Item>& Unordered::find(Handle handle, std::string_view method) {
  Place* const place = find(handle);
  if (!place) throw_invalid("{}: handle {} is unknown, or was waited for before", method, handle);
  return place->item;
}

Handle Unordered::join() {
  check_process();
  std::unique_lock lock(mutex_);
  if (broken_) std::rethrow_exception(broken_);
  negotiator_.join();
  Item& item = insert();
  const Handle handle = item.handle;
  joining_.push_back(&item);
  news_.any = news_.hurry = true;
  lock.unlock();
  call();
  return handle;
}

void Unordered::set_timeout(double timeout_s) {
  check_process();
  {
    std::lock_guard lock(mutex_);
    timeout_s_ = timeout_s;
    negotiator_.set_limit(limit_s());
  }
  call();
}

double Unordered::limit_s() const {
  const double own = timeout_s_, usual = engine_.options().operation_timeout_s;
  if (own > 0) return own;
  return usual > 0 ? usual : std::numeric_limits<double>::infinity();
}

std::string Unordered::limit_text() const {
  return fmt::format("{:g} s ({})", limit_s(),
                     timeout_s_ > 0 ? fmt::format("the timeout of group '{}'", name_)
                                    : "STRETTO_OPERATION_TIMEOUT");
}

int Unordered::last_joined() const {
  check_process();
  std::lock_guard lock(mutex_);
  return last_joined_;
}

void Unordered::leave() {
  check_process();
  {
    std::lock_guard lock(mutex_);
    negotiator_.leave();
    news_.any = news_.hurry = true;
  }
  call();
}

bool Unordered::wait_left(double timeout_s) {
  check_process();
  std::unique_lock lock(mutex_);
  return wait_on(over_, lock, timeout_s, [&] { return over_done_; });
}

bool Unordered::poll(Handle handle) {
  check_process();
  std::shared_ptr<Item> item;
  {
    std::unique_lock lock(mutex_);
    item = find(handle, "poll");
    if (!item->started) {
      const bool calls = hurry();
      lock.unlock();
      if (calls) call();
      return false;
    }
  }
  std::unique_lock resting(item->resting, std::try_to_lock);
  if (!resting) return false;  // another thread waits for it
  return rest(*item, 0);
}

bool Unordered::wait(Handle handle, double timeout_s) {
  check_process();
  const Limit limit(timeout_s);
  std::shared_ptr<Item> item;
  {
    std::unique_lock lock(mutex_);
    item = find(handle, "wait");
    if (!item->started && hurry()) {
      lock.unlock();
      call();
      lock.lock();
    }
    if (!wait_on(over_, lock, timeout_s, [&] { return item->started; })) return false;
  }
  {
    std::lock_guard resting(item->resting);
    if (!rest(*item, limit.left_s())) return false;
  }
  std::shared_ptr<Item> done;  // destroyed without the lock
  std::unique_lock lock(mutex_);
  if (Place* const place = find(handle)) done = release(*place);
  const std::exception_ptr error = item->error;  // another thread may wait for it, too
  lock.unlock();
  if (error) std::rethrow_exception(error);
  return true;
}

bool Unordered::take_over(Handle handle) {
  check_process();
  std::shared_ptr<Item> done;  // destroyed without the lock
  std::lock_guard lock(mutex_);
  Place* const place = find(handle);
  if (!place || !place->item->started) return false;
  Item& item = *place->item;
  // Places are used in turns upwards and downwards.
  if (place != places_.data()) prefetch(place[-1].item.get());
  if (place != &places_.back()) prefetch(place[1].item.get());
  std::unique_lock resting(item.resting, std::try_to_lock);
  if (!resting || item.rest || item.error) return false;
  if (item.carrier && !item.carrier->succeeded()) return false;
  for (const auto& carrier : item.more_carriers)
    if (!carrier->succeeded()) return false;
  resting.unlock();
  done = release(*place);
  // No other thread waits for it, and none can find it any more.
  if (done.use_count() > 1 || (handle & ((Handle{1} << kPlaceBits) - 1)) >= kMostSpare) return true;
  item.started = false;
  item.recurring = nullptr;
  item.operations.clear();
  item.carrier = nullptr;
  item.more_carriers.clear();
  place->item = std::move(done);
  return true;
}

// Somebody waits for the news; without news, for the round that goes on. Called with the lock. True
// if the thread is to be called then.
bool Unordered::hurry() { return news_.any && !std::exchange(news_.hurry, true); }

// The thread looks again for a cause of a round. Called without the lock.
void Unordered::call() {
  called_ = true;
  engine_.call_attendants();
}

// Waits for the carriers and removes them; false after timeout_s seconds. An error is kept until
// all are over, because their buffers are in use until then.
bool Unordered::wait_carriers(Item& item, double timeout_s) {
  const Limit limit(timeout_s);
  while (item.carrier) {
    auto& last = item.more_carriers.empty() ? item.carrier : item.more_carriers.back();
    try {
      if (!last->wait(limit.left_s())) return false;
    } catch (...) {
      item.error = std::current_exception();
    }
    if (item.more_carriers.empty()) {
      item.carrier = nullptr;
    } else {
      item.more_carriers.pop_back();
    }
  }
  return true;
}

// Waits for what has started; its error is kept.
bool Unordered::rest(Item& item, double timeout_s) {
  if (!wait_carriers(item, timeout_s)) return false;
  if (!item.rest) return true;
  try {
    if (!item.rest(timeout_s)) return false;
  } catch (...) {
    item.error = std::current_exception();
  }
  item.rest = nullptr;
  return true;
}

}  // namespace stretto::comm
