#include "stretto/comm/unordered.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

// Tags within the group: a message's first bytes, the rest of a long one, and a word that only
// says that a round has begun.
constexpr uint32_t kFirst = 0, kLong = 1, kWake = 2;

// Before the payload: how long it is.
constexpr size_t kSizeBytes = 4;
// Room for a round without new names, beside two bits per name.
constexpr size_t kUsualBytes = 96;

// The same on both sides, who know the same names.
size_t first_bytes(const Negotiator& negotiator) {
  return kSizeBytes + kUsualBytes + 16 * ((negotiator.numbers() + 63) / 64);
}

// A receive that waits for the others' next word must not run into the time limit of operations.
double longest_silence_s(const Options& options) {
  return options.operation_timeout_s > 0 ? options.operation_timeout_s / 4 : 3600;
}

Operation message(Kind kind, int peer, uint32_t tag, std::byte* data, size_t bytes) {
  return {.kind = kind,
          .dtype = DType::kUInt8,
          .peer = peer,
          .tag = tag,
          .count = static_cast<int64_t>(bytes),
          .input = kind == Kind::kSend ? data : nullptr,
          .output = kind == Kind::kSend ? nullptr : data,
          .name = "negotiation",
          .unseen = true};
}

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

// Waits for what it holds also when something is thrown: the engine reads the caller's memory.
class Sent {
 public:
  explicit Sent(Engine& engine) : engine_(engine) {}
  ~Sent() {
    for (const Handle handle : handles_) {
      try {
        engine_.wait(handle);
      } catch (const std::exception&) {  // another one is on its way
      }
    }
  }
  Sent(const Sent&) = delete;
  Sent& operator=(const Sent&) = delete;
  void add(Handle handle) { handles_.push_back(handle); }
  void wait() {
    for (const Handle handle : std::exchange(handles_, {})) engine_.wait(handle);
  }

 private:
  Engine& engine_;
  std::vector<Handle> handles_;
};

std::chrono::duration<double> at_most(double timeout_s) {
  return std::chrono::duration<double>(timeout_s < 0 ? 1e9 : std::min(timeout_s, 1e9));
}

}  // namespace

// From submission until somebody has waited for it.
struct Unordered::Item {
  std::string name, description;
  Start start;
  bool started = false;  // or failed
  std::mutex resting;    // one thread waits for the rest at a time
  Rest rest;
  std::exception_ptr error;
};

Start start_operations(Engine& engine, Group group, std::vector<Operation> operations) {
  return [&engine, group, operations = std::move(operations)]() -> Rest {
    auto handles = std::make_shared<std::vector<Handle>>();
    for (const Operation& operation : operations)
      handles->push_back(engine.submit(group, operation));
    return [&engine, handles](double timeout_s) {
      const double end = now_s() + timeout_s;
      std::exception_ptr error;
      while (!handles->empty()) {
        try {
          const double left = timeout_s < 0 ? -1 : std::max(end - now_s(), 0.0);
          if (!engine.wait(handles->back(), left)) return false;
        } catch (const CommError&) {  // the others end as well: their buffers are in use till then
          error = std::current_exception();
        }
        handles->pop_back();
      }
      if (error) std::rethrow_exception(error);
      return true;
    };
  };
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
      negotiator_(rank_, static_cast<int>(ranks_.size()), options_.stall_s) {
  thread_ = std::thread([this] { run(); });
}

Unordered::~Unordered() {
  bool alone = false;
  {
    std::lock_guard lock(mutex_);
    alone = !over_done_;
  }
  // In these words, before the thread finds its own.
  if (alone && ranks_.size() > 1)
    engine_.abort(
        fmt::format("rank {} has gone without leaving '{}'", engine_.membership().rank, name_));
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  cause_.notify_all();
  thread_.join();
  try {
    engine_.remove_group(group_);
  } catch (const std::exception&) {
    // Receives of a job that is just ending; the engine drops them with itself.
  }
}

Handle Unordered::submit(std::string_view name, std::string_view description, Start start) {
  auto item = std::make_shared<Item>();
  item->name = name;
  item->description = description;
  item->start = std::move(start);
  std::lock_guard lock(mutex_);
  if (broken_) std::rethrow_exception(broken_);
  if (over_done_) throw_invalid("'{}': submitted after all ranks have left", name);
  negotiator_.add(name, description, now_s());
  waiting_[item->name] = item;
  const Handle handle = next_handle_++;
  items_.emplace(handle, std::move(item));
  news_ = true;
  cause_.notify_one();
  return handle;
}

Handle Unordered::join() {
  std::lock_guard lock(mutex_);
  if (broken_) std::rethrow_exception(broken_);
  negotiator_.join();
  joining_.push_back(std::make_shared<Item>());
  joining_.back()->name = "join";
  const Handle handle = next_handle_++;
  items_.emplace(handle, joining_.back());
  news_ = true;
  cause_.notify_one();
  return handle;
}

int Unordered::last_joined() const {
  std::lock_guard lock(mutex_);
  return last_joined_;
}

void Unordered::leave() {
  std::lock_guard lock(mutex_);
  negotiator_.leave();
  news_ = true;
  cause_.notify_one();
}

bool Unordered::wait_left(double timeout_s) {
  std::unique_lock lock(mutex_);
  return over_.wait_for(lock, at_most(timeout_s), [&] { return over_done_; });
}

bool Unordered::poll(Handle handle) {
  std::shared_ptr<Item> item;
  {
    std::lock_guard lock(mutex_);
    const auto found = items_.find(handle);
    if (found == items_.end()) throw_invalid("poll: no operation has handle {}", handle);
    item = found->second;
    if (!item->started) return false;
  }
  std::unique_lock rest(item->resting, std::try_to_lock);
  if (!rest) return false;  // somebody is waiting for it
  if (!item->rest) return true;
  try {
    if (!item->rest(0)) return false;
  } catch (...) {
    item->error = std::current_exception();
  }
  item->rest = nullptr;
  return true;
}

bool Unordered::wait(Handle handle, double timeout_s) {
  const double end = now_s() + timeout_s;
  std::shared_ptr<Item> item;
  {
    std::unique_lock lock(mutex_);
    const auto found = items_.find(handle);
    if (found == items_.end()) throw_invalid("wait: no operation has handle {}", handle);
    item = found->second;
    if (!over_.wait_for(lock, at_most(timeout_s), [&] { return item->started; })) return false;
  }
  {
    std::lock_guard rest(item->resting);
    try {
      if (item->rest && !item->rest(timeout_s < 0 ? -1 : std::max(end - now_s(), 0.0)))
        return false;
    } catch (...) {
      item->error = std::current_exception();
    }
    item->rest = nullptr;
  }
  std::unique_lock lock(mutex_);
  items_.erase(handle);
  const std::exception_ptr error = std::exchange(item->error, nullptr);
  lock.unlock();
  if (error) std::rethrow_exception(error);
  return true;
}

// The thread.

void Unordered::run() {
  try {
    post_receives();
    do {
      await_cause();
    } while (round());
    for (const Rest& rest : stood_in_)
      if (rest) rest(-1);
  } catch (...) {
    give_up(std::current_exception());
  }
  std::lock_guard lock(mutex_);
  over_done_ = true;
  over_.notify_all();
}

// A round begins because this rank has news, because somebody else has begun it, or because it is
// time: to ask who is missing, or just to show that this rank is there.
void Unordered::await_cause() {
  std::unique_lock lock(mutex_);
  const double limit_s = now_s() + longest_silence_s(engine_.options());
  while (!news_ && !arrived_ && !stopping_) {
    const double left = std::min(limit_s, negotiator_.next_report_s()) - now_s();
    if (left <= 0) return;
    cause_.wait_for(lock, std::chrono::duration<double>(left));
  }
}

// False when all ranks have left.
bool Unordered::round() {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) throw CommError(engine_.membership().rank, "", name_ + ": closed");
    news_ = false;
    negotiator_.start();
  }
  for (int k = 1; k < negotiator_.exchanges(); ++k) {
    std::byte nothing{};
    engine_.wait(
        engine_.submit(group_, message(Kind::kSend, negotiator_.send_to(k), kWake, &nothing, 1)));
  }
  for (int k = 0; k < negotiator_.exchanges(); ++k)
    negotiator_.combine(exchange(k, negotiator_.outgoing()));
  for (const Posted& wake : wakes_) engine_.wait(wake.handle);
  Negotiator::Result result;
  {
    std::lock_guard lock(mutex_);
    result = negotiator_.finish(now_s());
    news_ |= result.more;
    arrived_ = false;
  }
  if (!result.all_left) post_receives();
  start_agreed(result);
  return !result.all_left;
}

void Unordered::post_receives() {
  const auto post = [&](int k, uint32_t tag, size_t bytes) {
    Posted posted;
    posted.bytes.resize(bytes);
    posted.handle = engine_.submit(
        group_, message(Kind::kRecv, negotiator_.receive_from(k), tag, posted.bytes.data(), bytes),
        Delivery::kWait, [this] {
          std::lock_guard lock(mutex_);
          arrived_ = true;
          cause_.notify_one();
        });
    return posted;
  };
  firsts_.clear();
  wakes_.clear();
  for (int k = 0; k < negotiator_.exchanges(); ++k)
    firsts_.push_back(post(k, kFirst, first_bytes(negotiator_)));
  for (int k = 1; k < negotiator_.exchanges(); ++k) wakes_.push_back(post(k, kWake, 1));
}

std::vector<std::byte> Unordered::exchange(int k, const std::vector<std::byte>& outgoing) {
  std::vector<std::byte> first(firsts_[k].bytes.size());
  const auto size = static_cast<uint32_t>(outgoing.size());
  std::memcpy(first.data(), &size, kSizeBytes);
  const size_t here = std::min(outgoing.size(), first.size() - kSizeBytes);
  std::memcpy(first.data() + kSizeBytes, outgoing.data(), here);
  const int to = negotiator_.send_to(k), from = negotiator_.receive_from(k);
  Sent sent(engine_);
  sent.add(engine_.submit(group_, message(Kind::kSend, to, kFirst, first.data(), first.size())));
  if (here < outgoing.size()) {
    auto* rest = const_cast<std::byte*>(outgoing.data()) + here;
    sent.add(engine_.submit(group_, message(Kind::kSend, to, kLong, rest, outgoing.size() - here)));
  }
  engine_.wait(firsts_[k].handle);
  uint32_t incoming = 0;
  std::memcpy(&incoming, firsts_[k].bytes.data(), kSizeBytes);
  std::vector<std::byte> received(incoming);
  const size_t got = std::min<size_t>(incoming, first.size() - kSizeBytes);
  std::memcpy(received.data(), firsts_[k].bytes.data() + kSizeBytes, got);
  if (got < incoming)
    engine_.wait(engine_.submit(
        group_, message(Kind::kRecv, from, kLong, received.data() + got, incoming - got)));
  sent.wait();
  return received;
}

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

// texts[i] of every rank: result[i][rank].
std::vector<std::vector<std::string>> Unordered::tell(const std::vector<std::string>& texts) {
  std::string own;
  for (const std::string& text : texts) own += text + '\0';
  const size_t n = ranks_.size();
  std::vector<int64_t> sizes(n);
  const auto own_size = static_cast<int64_t>(own.size());
  engine_.wait(engine_.submit(group_, {.kind = Kind::kAllGather,
                                       .dtype = DType::kInt64,
                                       .count = 1,
                                       .input = &own_size,
                                       .output = sizes.data()}));
  int64_t total = 0;
  for (const int64_t size : sizes) total += size;
  std::string all(static_cast<size_t>(total), '\0');
  engine_.wait(engine_.submit(group_, {.kind = Kind::kAllGather,
                                       .dtype = DType::kUInt8,
                                       .count = own_size,
                                       .input = own.data(),
                                       .output = all.data(),
                                       .output_counts = sizes}));
  std::vector<std::vector<std::string>> said(texts.size(), std::vector<std::string>(n));
  size_t at = 0;
  for (size_t rank = 0; rank < n; ++rank) {
    for (size_t i = 0; i < texts.size(); ++i) {
      STRETTO_CHECK(at < all.size(), "{}: ranks agreed on different names", name_);
      said[i][rank] = all.c_str() + at;
      at += said[i][rank].size() + 1;
    }
  }
  return said;
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
  std::string reason = "an unknown error";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    reason = e.what();
  } catch (...) {
  }
  engine_.abort(fmt::format("rank {}: {}", engine_.membership().rank, reason));
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
