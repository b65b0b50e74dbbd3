// The calls of threads that submit and wait.
#include "stretto/comm/negotiate/unordered.h"

#include <algorithm>
#include <chrono>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/thread.h"
#include "stretto/comm/negotiate/unordered_item.h"

namespace stretto::comm {
namespace {

constexpr size_t kMostSpare = 4096;

std::chrono::duration<double> at_most(double timeout_s) {
  return std::chrono::duration<double>(timeout_s < 0 ? 1e9 : std::min(timeout_s, 1e9));
}

// Waits for the carriers and removes them; false after timeout_s seconds. An error is kept until
// all are over, because their buffers are in use until then.
bool wait_all(std::vector<std::shared_ptr<Carrier>>& carriers, double timeout_s,
              std::exception_ptr* error) {
  const double end = timeout_s > 0 ? now_s() + timeout_s : 0;
  while (!carriers.empty()) {
    try {
      if (!carriers.back()->wait(timeout_s > 0 ? std::max(end - now_s(), 0.0) : timeout_s))
        return false;
    } catch (...) {
      *error = std::current_exception();
    }
    carriers.pop_back();
  }
  return true;
}

}  // namespace

bool Carrier::wait(double timeout_s) {
  if (!over_.load(std::memory_order_acquire)) {
    const double end = now_s() + timeout_s;
    std::unique_lock lock(mutex_);
    if (!freed_.wait_for(lock, at_most(timeout_s), [&] { return !taken_; })) return false;
    if (!over_) {
      taken_ = true;
      lock.unlock();
      bool over = true;
      std::exception_ptr error;
      try {
        over = engine_.wait(handle_, timeout_s < 0 ? -1 : std::max(end - now_s(), 0.0));
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
  std::unique_lock lock(mutex_);
  if (broken_) std::rethrow_exception(broken_);
  if (over_done_) throw_invalid("'{}' was submitted after all ranks have left the job", name);
  const auto place = insert();
  const Handle handle = place->first;
  Item& item = *place->second;
  const double now = now_s();
  try {
    fill(item);
    negotiator_.add(name, *item.description, now, static_cast<uint64_t>(handle));
  } catch (...) {
    items_.erase(place);
    throw;
  }
  news_.latest_s = now;
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
Unordered::Items::iterator Unordered::insert() {
  const Handle handle = next_handle_++;
  if (spare_.empty()) return items_.emplace(handle, std::make_shared<Item>()).first;
  Items::node_type node = std::move(spare_.back());
  spare_.pop_back();
  node.key() = handle;
  return items_.insert(std::move(node)).position;
}

// Called with the lock.
std::shared_ptr<Unordered::Item> Unordered::find(Handle handle, std::string_view method) {
  const auto found = items_.find(handle);
  if (found == items_.end())
    throw_invalid("{}: handle {} is unknown, or was waited for before", method, handle);
  return found->second;
}

Handle Unordered::join() {
  std::unique_lock lock(mutex_);
  if (broken_) std::rethrow_exception(broken_);
  negotiator_.join();
  const auto place = insert();
  const Handle handle = place->first;
  joining_.push_back(place->second.get());
  news_.any = news_.hurry = true;
  lock.unlock();
  call();
  return handle;
}

int Unordered::last_joined() const {
  std::lock_guard lock(mutex_);
  return last_joined_;
}

void Unordered::leave() {
  {
    std::lock_guard lock(mutex_);
    negotiator_.leave();
    news_.any = news_.hurry = true;
  }
  call();
}

bool Unordered::wait_left(double timeout_s) {
  std::unique_lock lock(mutex_);
  return over_.wait_for(lock, at_most(timeout_s), [&] { return over_done_; });
}

bool Unordered::poll(Handle handle) {
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
  const double end = now_s() + timeout_s;
  std::shared_ptr<Item> item;
  {
    std::unique_lock lock(mutex_);
    item = find(handle, "wait");
    if (!item->started && hurry()) {
      lock.unlock();
      call();
      lock.lock();
    }
    if (!item->started) {
      if (!over_.wait_for(lock, at_most(timeout_s), [&] { return item->started; })) return false;
    }
  }
  {
    std::lock_guard resting(item->resting);
    if (!rest(*item, timeout_s < 0 ? -1 : std::max(end - now_s(), 0.0))) return false;
  }
  std::unique_lock lock(mutex_);
  items_.erase(handle);
  const std::exception_ptr error = item->error;  // another thread may wait for it, too
  lock.unlock();
  if (error) std::rethrow_exception(error);
  return true;
}

bool Unordered::take_over(Handle handle) {
  Items::node_type done;  // destroyed without the lock
  std::lock_guard lock(mutex_);
  const auto found = items_.find(handle);
  if (found == items_.end() || !found->second->started) return false;
  Item& item = *found->second;
  std::unique_lock resting(item.resting, std::try_to_lock);
  if (!resting || item.rest || item.error) return false;
  for (const auto& carrier : item.carriers)
    if (!carrier->succeeded()) return false;
  resting.unlock();
  done = items_.extract(found);
  // No other thread waits for it, and none can find it any more.
  if (done.mapped().use_count() > 1 || spare_.size() >= kMostSpare) return true;
  item.started = false;
  item.recurring = nullptr;
  item.operations.clear();
  item.carriers.clear();
  spare_.push_back(std::move(done));
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

// Waits for what has started; its error is kept.
bool Unordered::rest(Item& item, double timeout_s) {
  if (!wait_all(item.carriers, timeout_s, &item.error)) return false;
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
