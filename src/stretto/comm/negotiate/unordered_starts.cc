// Handles the result of a round: operations that start, fail, or get zeros from a rank that has
// joined.
#include <algorithm>
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
    if (options_.stalled) options_.stalled(named);
  }
  // Where descriptions differ, or a rank that has joined needs one, all ranks exchange them.
  std::vector<std::string> texts;
  for (const Negotiator::Agreed& agreed : result.agreed) {
    if (!agreed.differs && !result.someone_joined) continue;
    std::lock_guard lock(mutex_);
    const auto found = waiting_.find(agreed.name);
    texts.push_back(found != waiting_.end() ? found->second->description : "");
  }
  const auto said = texts.empty() ? std::vector<std::vector<std::string>>{} : exchange(texts);
  // A rank that has joined stands in for one operation after the other.
  std::vector<std::shared_ptr<Item>> ready;
  size_t next = 0;
  for (const Negotiator::Agreed& agreed : result.agreed) {
    if (!agreed.differs && !result.someone_joined) {
      ready.push_back(take(agreed.name));
      continue;
    }
    begin(std::exchange(ready, {}), true);
    settle(agreed, said[next++]);
  }
  begin(ready, true);
  if (result.left >= 0) {
    const int rank = ranks_[static_cast<size_t>(result.left)];
    const auto fail = [&](const std::shared_ptr<Item>& item) {
      finish(item, thrown([&] {
               throw CommError(
                   rank, "",
                   fmt::format("'{}' cannot be done: rank {} has left the job", item->name, rank));
             }));
    };
    for (const std::string& name : result.hopeless) fail(take(name));
    std::vector<std::shared_ptr<Item>> joining;
    {
      std::lock_guard lock(mutex_);
      joining.swap(joining_);
    }
    for (const auto& item : joining) fail(item);
  }
  if (result.last_joined < 0) return;
  std::lock_guard lock(mutex_);
  last_joined_ = result.last_joined;
  for (const auto& item : std::exchange(joining_, {})) item->started = true;
  over_.notify_all();
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
  const std::shared_ptr<Item> item = agreed.name.empty() ? nullptr : take(agreed.name);
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
void Unordered::begin(std::span<const std::shared_ptr<Item>> items, bool together) {
  while (!items.empty()) {
    size_t count = 1;
    if (items[0]->start) {
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

// Starts the operations of the first items that are in one group together. Returns how many items
// have begun or failed.
size_t Unordered::begin_operations(std::span<const std::shared_ptr<Item>> items, bool together) {
  std::vector<Operation> operations;
  std::vector<size_t> ends;  // of each item in `operations`
  operations.reserve(items.size());
  ends.reserve(items.size());
  for (const auto& item : items) {
    if (item->start || item->group != items[0]->group) break;
    operations.insert(operations.end(), item->operations.begin(), item->operations.end());
    ends.push_back(operations.size());
  }
  std::vector<Handle> handles;
  std::exception_ptr error;
  const size_t all = operations.size();
  try {
    if (together) engine_.submit_together(items[0]->group, std::move(operations), &handles);
    for (size_t i = 0; !together && i < all; ++i)
      handles.push_back(engine_.submit(items[0]->group, operations[i]));
  } catch (...) {
    error = std::current_exception();
  }
  handles.resize(all, kNoHandle);
  // Nothing is started when an operation is not valid, whose ever it is.
  const auto started = [](Handle handle) { return handle != kNoHandle; };
  if (error && ends.size() > 1 && std::none_of(handles.begin(), handles.end(), started))
    return begin_operations(items.first(1), together);
  std::unordered_map<Handle, std::shared_ptr<Carrier>> carriers;
  for (size_t i = 0, at = 0; i < ends.size(); ++i) {
    Item& item = *items[i];
    for (; at < ends[i]; ++at) {
      if (handles[at] == kNoHandle) {
        item.error = error;
        continue;
      }
      std::shared_ptr<Carrier>& carrier = carriers[handles[at]];
      if (!carrier) carrier = std::make_shared<Carrier>(engine_, handles[at]);
      if (item.carriers.empty() || item.carriers.back() != carrier)
        item.carriers.push_back(carrier);
    }
  }
  return ends.size();
}

void Unordered::stand_in(const std::string& description) {
  if (!options_.stand_in)
    throw_invalid("join: this rank cannot contribute zeros to {}", description);
  std::erase_if(stood_in_, [](const Rest& rest) { return !rest || rest(0); });
  stood_in_.push_back(options_.stand_in(description));
}

std::shared_ptr<Unordered::Item> Unordered::take(const std::string& name) {
  std::lock_guard lock(mutex_);
  const auto found = waiting_.find(name);
  STRETTO_CHECK(found != waiting_.end(), "'{}' was agreed on and is not there", name);
  std::shared_ptr<Item> item = std::move(found->second);
  waiting_.erase(found);
  return item;
}

void Unordered::finish(std::span<const std::shared_ptr<Item>> items) {
  // Destroyed after the lock is released: it may hold Python objects.
  std::vector<Start> done;
  for (const auto& item : items) {
    if (item->start) done.push_back(std::exchange(item->start, nullptr));
  }
  std::lock_guard lock(mutex_);
  for (const auto& item : items) item->started = true;
  over_.notify_all();
}

void Unordered::finish(const std::shared_ptr<Item>& item, std::exception_ptr error) {
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
  std::vector<std::shared_ptr<Item>> open;
  {
    std::lock_guard lock(mutex_);
    broken_ = error;
    open = std::exchange(joining_, {});
    for (auto& [name, item] : std::exchange(waiting_, {})) open.push_back(std::move(item));
  }
  for (const auto& item : open) finish(item, error);
}

}  // namespace stretto::comm
