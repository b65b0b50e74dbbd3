// What a round has led to: operations that start, fail or are stood in for.
#include "stretto/base/error.h"
#include "stretto/comm/unordered_item.h"

namespace stretto::comm {
namespace {

// What it throws, with no second copy whose end another thread would have to wait for.
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
  // Where ranks differ, or one may not know what it stands in for, everyone says what it means.
  std::vector<std::string> texts;
  for (const Negotiator::Agreed& agreed : result.agreed) {
    if (!agreed.differs && !result.someone_joined) continue;
    std::lock_guard lock(mutex_);
    const auto found = waiting_.find(agreed.name);
    texts.push_back(found != waiting_.end() ? found->second->description : "");
  }
  const auto said = texts.empty() ? std::vector<std::vector<std::string>>{} : tell(texts);
  size_t next = 0;
  for (const Negotiator::Agreed& agreed : result.agreed) {
    if (agreed.differs || result.someone_joined) {
      settle(agreed, said[next++]);
    } else {
      begin(take(agreed.name));
    }
  }
  if (result.left >= 0) {
    const int rank = ranks_[static_cast<size_t>(result.left)];
    const auto fail = [&](const std::shared_ptr<Item>& item) {
      finish(item, thrown([&] {
               throw CommError(
                   rank, "",
                   fmt::format("'{}' cannot be done: rank {} has left", item->name, rank));
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
    begin(item);
  } else {
    stand_in(first);
  }
}

// Whatever goes wrong in a start belongs to its submitter.
void Unordered::begin(const std::shared_ptr<Item>& item) {
  std::exception_ptr error;
  try {
    item->rest = item->start();
  } catch (...) {
    error = std::current_exception();
  }
  finish(item, std::move(error));
}

void Unordered::stand_in(const std::string& description) {
  if (!options_.stand_in) throw_invalid("join: this rank cannot stand in for {}", description);
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

void Unordered::finish(const std::shared_ptr<Item>& item, std::exception_ptr error) {
  const Start done =
      std::exchange(item->start, nullptr);  // gone after the lock: it may be Python's
  std::lock_guard lock(mutex_);
  item->error = std::move(error);
  item->started = true;
  over_.notify_all();
}

// The job is broken for this group: whoever waits is told, and so are the others.
void Unordered::give_up(std::exception_ptr error) {
  abort_with(engine_, error);
  for (const auto* posted : {&firsts_, &wakes_}) {
    for (const Posted& receive : *posted) {
      try {  // into memory that is about to go
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
    for (auto& [name, item] : std::exchange(waiting_, {})) open.push_back(item);
  }
  for (const auto& item : open) finish(item, error);
}

}  // namespace stretto::comm
