// Handles the result of a round: operations that start, fail, or get zeros from a rank that has
// joined.
#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "stretto/base/error.h"
#include "stretto/comm/negotiate/unordered_item.h"

namespace stretto::comm {
namespace {

// The exception that `function` throws, null for none. Only the returned pointer refers to it, so
// that the last user destroys it.
template <typename Throw>
std::exception_ptr thrown(Throw&& function) {
  try {
    function();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

void Unordered::start_agreed(const Negotiator::Result& result) {
  for (const Stall& stall : result.stalls) {
    Stall named = stall;
    for (int& rank : named.missing) rank = ranks_[static_cast<size_t>(rank)];
    if (stall.waiting_s >= limit_s()) time_out(named);
    if (!options_.stalled) continue;
    attendance_.end();
    options_.stalled(named);
  }
  // Where descriptions differ, or a rank that has joined needs one, all ranks exchange them.
  std::vector<std::string> texts;
  for (const Negotiator::Agreed& agreed : result.agreed) {
    if (!agreed.differs && !result.someone_joined) continue;
    const Item* item = submitted(agreed);
    texts.push_back(item ? *item->description : "");
  }
  if (texts.empty()) {
    begin(locate(result.agreed), true);
  } else {
    start_told(result, exchange(texts));
  }
  if (result.left >= 0) {
    const int rank = ranks_[static_cast<size_t>(result.left)];
    const auto fail = [&](Item* item, std::string_view name) {
      finish(item, thrown([&] {
               throw CommError(
                   rank, "",
                   fmt::format("'{}' cannot be done: rank {} has left the job", name, rank));
             }));
    };
    for (const Negotiator::Agreed& hopeless : result.hopeless)
      fail(submitted(hopeless), hopeless.name);
    std::vector<Item*> joining;
    {
      std::lock_guard lock(mutex_);
      joining.swap(joining_);
    }
    for (Item* item : joining) fail(item, "join");
  }
  if (result.last_joined < 0) return;
  std::lock_guard lock(mutex_);
  last_joined_ = result.last_joined;
  for (Item* item : std::exchange(joining_, {})) item->started = true;
  over_.notify_all();
}

// `said[i]` is what ranks have said of the i-th name that needs it. A rank that has joined stands
// in for one operation after the other.
void Unordered::start_told(const Negotiator::Result& result,
                           const std::vector<std::vector<std::string>>& said) {
  std::vector<Item*> ready;
  size_t next = 0;
  for (const Negotiator::Agreed& agreed : result.agreed) {
    if (!agreed.differs && !result.someone_joined) {
      ready.push_back(submitted(agreed));
      continue;
    }
    begin(std::exchange(ready, {}), true);
    settle(agreed, said[next++]);
  }
  begin(ready, true);
}

// Ends the job, as the engine does when one of its operations takes too long.
void Unordered::time_out(const Stall& stall) {
  std::string missing;
  for (const int rank : stall.missing)
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
  const bool one = stall.missing.size() == 1;
  throw CommError(
      stall.missing.front(), "",
      fmt::format("'{}' is not done after {}; rank {} waits for rank{} {}, which {} not submitted "
                  "it",
                  stall.name, limit_text(), engine_.membership().rank, one ? "" : "s", missing,
                  one ? "has" : "have"));
}

void Unordered::settle(const Negotiator::Agreed& agreed, const std::vector<std::string>& said) {
  std::string first, list;
  bool same = true;
  for (size_t rank = 0; rank < said.size(); ++rank) {
    if (said[rank].empty()) continue;
    if (first.empty()) first = said[rank];
    same &= said[rank] == first;
    list += fmt::format("{}rank {}: {}", list.empty() ? "" : "; ", ranks_[rank], said[rank]);
  }
  {
    std::lock_guard lock(mutex_);
    negotiator_.settle(agreed.hash, first);
  }
  Item* item = submitted(agreed);
  if (!same) {
    if (item)
      finish(item,
             thrown([&] { throw_invalid("'{}' differs between ranks: {}", agreed.name, list); }));
  } else if (item) {
    begin({&item, 1}, false);
  } else {
    stand_in(first);
  }
}

// Exceptions are thrown by wait(). `together`: all ranks start these operations in one call; a rank
// that stands in for another does not.
void Unordered::begin(std::span<Item* const> items, bool together) {
  while (!items.empty()) {
    size_t count = 1;
    if (items[0]->start) {
      attendance_.end();
      try {
        items[0]->rest = items[0]->start();
      } catch (...) {
        items[0]->error = std::current_exception();
      }
    } else {
      count = begin_operations(items, together);
    }
    finish(items.first(count));
    items = items.subspan(count);
  }
}

Operation Unordered::operation_of(const Item& item) {
  Operation operation = item.recurring->operation;
  operation.input = operation.output = item.data;
  if (item.recurring->named) operation.name = item.name;
  return operation;
}

// Starts the operations of the first items that are in one group together. Returns how many items
// have begun or failed.
size_t Unordered::begin_operations(std::span<Item* const> items, bool together) {
  std::vector<Operation> operations;
  std::vector<size_t> ends;  // of each item in `operations`
  operations.reserve(items.size());
  ends.reserve(items.size());
  for (Item* item : items) {
    if (item->start || item->group != items[0]->group) break;
    if (item->recurring) operations.push_back(operation_of(*item));
    std::move(item->operations.begin(), item->operations.end(), std::back_inserter(operations));
    ends.push_back(operations.size());
  }
  std::vector<Handle> handles;
  std::exception_ptr error;
  const size_t all = operations.size();
  for (Operation& operation : operations)
    if (operation.timeout_s == 0) operation.timeout_s = timeout_s_;
  try {
    if (together) engine_.submit_together(items[0]->group, std::move(operations), &handles);
    for (size_t i = 0; !together && i < all; ++i)
      handles.push_back(engine_.submit(items[0]->group, operations[i]));
  } catch (...) {
    error = std::current_exception();
  }
  // Nothing is started when an operation is not valid, whose ever it is.
  if (error && handles.empty() && ends.size() > 1) {
    for (size_t i = 0, at = 0; i < ends.size(); at = ends[i++])
      for (Operation& operation : items[i]->operations) operation = std::move(operations[at++]);
    return begin_operations(items.first(1), together);
  }
  handles.resize(all, kNoHandle);
  std::unordered_map<Handle, std::shared_ptr<Carrier>> carriers;
  std::shared_ptr<Carrier> carrier;  // of the last handle: fused operations have the same
  Handle last = kNoHandle;
  for (size_t i = 0, at = 0; i < ends.size(); ++i) {
    Item& item = *items[i];
    for (; at < ends[i]; ++at) {
      if (handles[at] == kNoHandle) {
        item.error = error;
        continue;
      }
      if (std::exchange(last, handles[at]) != handles[at]) {
        std::shared_ptr<Carrier>& known = carriers[last];
        if (!known) known = std::make_shared<Carrier>(engine_, last);
        carrier = known;
      }
      item.add(carrier);
    }
  }
  return ends.size();
}

void Unordered::stand_in(const std::string& description) {
  if (!options_.stand_in)
    throw_invalid("join: this rank cannot contribute zeros to {}", description);
  attendance_.end();
  std::erase_if(stood_in_, [](const Rest& rest) { return !rest || rest(0); });
  stood_in_.push_back(options_.stand_in(description));
}

// Null: this rank has not submitted it. Nobody else frees an item that has not started.
Unordered::Item* Unordered::submitted(const Negotiator::Agreed& agreed) {
  return locate({&agreed, 1}).front();
}

std::vector<Unordered::Item*> Unordered::locate(std::span<const Negotiator::Agreed> agreed) {
  std::vector<Item*> items;
  items.reserve(agreed.size());
  std::lock_guard lock(mutex_);
  for (const Negotiator::Agreed& one : agreed) {
    items.push_back(nullptr);
    if (one.name.empty()) continue;
    const Place* place = find(one.ticket);
    STRETTO_CHECK(place, "'{}' was agreed on and is not there", one.name);
    items.back() = place->item.get();
    items.back()->name = one.name;
    __builtin_prefetch(one.name.data());  // it is copied soon
  }
  return items;
}

void Unordered::finish(std::span<Item* const> items) {
  // Destroyed after the lock is released: it may hold Python objects.
  std::vector<Start> done;
  for (Item* item : items) {
    if (item->start) done.push_back(std::exchange(item->start, nullptr));
  }
  if (!done.empty()) attendance_.end();
  {
    std::lock_guard lock(mutex_);
    for (Item* item : items) item->started = true;
  }
  over_.notify_all();  // without the lock, which those that wake up take first of all
}

void Unordered::finish(Item* item, std::exception_ptr error) {
  item->error = std::move(error);
  finish({&item, 1});
}

// The job has failed: ends all items of this rank with the error, and notifies the other ranks.
void Unordered::give_up(std::exception_ptr error) {
  abort_with(engine_, error);
  for (const auto* posted : {&firsts_, &wakes_}) {
    for (const Posted& receive : *posted) {
      try {  // these receives write into memory that is about to be freed
        engine_.wait(receive.handle);
      } catch (const std::exception&) {
      }
    }
  }
  std::vector<Item*> open;
  {
    std::lock_guard lock(mutex_);
    broken_ = error;
    joining_.clear();
    for (const Place& place : places_)
      if (place.handle != kNoHandle && !place.item->started) open.push_back(place.item.get());
  }
  for (Item* item : open) finish(item, error);
}

}  // namespace stretto::comm
