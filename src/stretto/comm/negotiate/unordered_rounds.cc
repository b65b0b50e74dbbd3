// The thread of an Unordered: begins rounds and exchanges their messages.
#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/negotiate/round_messages.h"
#include "stretto/comm/negotiate/unordered_item.h"

namespace stretto::comm {
namespace {

// Tags within the group: the first bytes of a message, the rest of a long one, and a signal that a
// round has begun.
constexpr uint32_t kFirst = 0, kLong = 1, kWake = 2;

// How long news that nobody waits for may wait for more: after the first name, or, while they are
// small, after the latest one.
constexpr double kPatience_s = 0.2e-3;
constexpr double kMostPatience_s = 2e-3;

// What a busy machine may take to answer in a round, in addition to the time limit of operations.
constexpr double kAnswer_s = 5;

// Bytes for a round without new names, in addition to two bits per name.
constexpr size_t kUsualBytes = 100;

// The same on both sides, because both have the same names.
size_t first_bytes(const Negotiator& negotiator) {
  return kUsualBytes + 16 * ((negotiator.numbers() + 63) / 64);
}

// A receive waits until another rank has news, so the time limit of operations must not apply to
// it.
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

// Waits for its operation also when an exception is thrown, because the engine reads the caller's
// memory.
class Sent {
 public:
  explicit Sent(Engine& engine) : engine_(engine) {}
  ~Sent() {
    for (const Handle handle : handles_) {
      try {
        engine_.wait(handle);
      } catch (const std::exception&) {  // another exception is being thrown
      }
    }
  }
  Sent(const Sent&) = delete;
  Sent& operator=(const Sent&) = delete;
  void add(Handle handle) { handles_.push_back(handle); }
  void wait() {
    while (!handles_.empty()) {
      const Handle handle = handles_.back();
      handles_.pop_back();
      engine_.wait(handle);
    }
  }

 private:
  Engine& engine_;
  std::vector<Handle> handles_;
};

}  // namespace

void Unordered::run() {
  try {
    post_receives();
    do {
      await_cause();
    } while (round());
    attendance_.end();  // a Rest may wait for other threads
    for (const Rest& rest : stood_in_)
      if (rest) rest(-1);
  } catch (...) {
    give_up(std::current_exception());
  }
  attendance_.end();
  std::lock_guard lock(mutex_);
  over_done_ = true;
  over_.notify_all();
}

// A round begins when this rank has news, when another rank has begun it, or when it is time: to
// ask which ranks are missing, or to show that this rank is alive. News wait a moment for more
// unless somebody waits for them: a burst of names is in one round, and rounds of a few names do
// not take processor time from whoever submits them.
void Unordered::await_cause() {
  const double limit_s = now_s() + longest_silence_s(engine_.options());
  while (true) {
    called_ = false;
    const double now = now_s();
    double until = limit_s;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      until = std::min(until, negotiator_.next_report_s());
      if (arrived_s_ > 0) until = std::min(until, answer_s());
      if (news_.any) until = std::min(until, news_.hurry ? now : next_round_s(news_));
    }
    if (now >= until) return;
    attendance_.wait([this] { return called_.load(); }, until - now);
  }
}

double Unordered::next_round_s(const News& news) {
  if (news.bytes >= kManyBytes) return news.first_s + kPatience_s;
  return news.first_s + kMostPatience_s;
}

// When this rank answers a round that another has begun. No name can be agreed upon without this
// rank; one that has nothing to say, or is in the middle of a burst, waits for its own news,
// because a round without them would be followed by another.
double Unordered::answer_s() const {
  const bool more = negotiator_.idle() || news_.any;
  return arrived_s_ + (more && !negotiator_.ends() ? kMostPatience_s : 0);
}

// False when all ranks have left.
bool Unordered::round() {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) throw CommError(engine_.membership().rank, "", name_ + ": closed");
    news_ = {};
    negotiator_.start();
  }
  for (int k = 1; k < negotiator_.exchanges(); ++k) {
    std::byte nothing{};
    engine_.wait(
        engine_.submit(group_, message(Kind::kSend, negotiator_.send_to(k), kWake, &nothing, 1)));
  }
  for (int k = 0; k < negotiator_.exchanges(); ++k) {
    const std::vector<std::byte> received = exchange(k, negotiator_.outgoing());
    try {
      negotiator_.combine(received);
    } catch (const FormatError& e) {
      refuse(negotiator_.receive_from(k), e);
    }
  }
  for (const Posted& wake : wakes_) engine_.wait(wake.handle);
  Negotiator::Result result;
  {
    std::lock_guard lock(mutex_);
    result = negotiator_.finish(now_s());
    news_.any |= result.more;
    news_.hurry |= result.more;
    arrived_s_ = 0;
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
          double none = 0;
          arrived_s_.compare_exchange_strong(none, now_s());
          called_ = true;
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
  Posted& posted = firsts_[k];
  std::vector<std::byte> first = first_part(outgoing, posted.bytes.size());
  const size_t rest = rest_bytes(outgoing.size(), first.size());
  const int to = negotiator_.send_to(k), from = negotiator_.receive_from(k);
  Sent sent(engine_);
  sent.add(engine_.submit(group_, message(Kind::kSend, to, kFirst, first.data(), first.size())));
  if (rest > 0) {
    auto* data = const_cast<std::byte*>(outgoing.data()) + (outgoing.size() - rest);
    sent.add(engine_.submit(group_, message(Kind::kSend, to, kLong, data, rest)));
  }
  await(posted.handle, from);
  std::vector<std::byte> received;
  try {
    received.resize(message_bytes(posted.bytes));
  } catch (const FormatError& e) {
    refuse(from, e);
  }
  const std::span<const std::byte> here = beginning(posted.bytes);
  std::copy(here.begin(), here.end(), received.begin());
  if (here.size() < received.size()) {
    Operation more = message(Kind::kRecv, from, kLong, received.data() + here.size(),
                             received.size() - here.size());
    more.timeout_s = timeout_s_;
    engine_.wait(engine_.submit(group_, more));
  }
  sent.wait();
  return received;
}

// Waits for another rank's message in a round. That comes at once, unless the rank's thread is in a
// function that it has been given, which does not return.
void Unordered::await(Handle handle, int from) {
  while (!engine_.wait(handle, std::min(limit_s() + kAnswer_s, 1e9))) {
    std::lock_guard lock(mutex_);
    if (negotiator_.idle()) continue;  // nobody here waits for the round
    const int rank = ranks_[static_cast<size_t>(from)];
    throw CommError(rank, "",
                    fmt::format("a negotiation of names is not done after {}; rank {} waits for "
                                "rank {}",
                                limit_text(), engine_.membership().rank, rank));
  }
}

// Ends the job at once, so that nobody waits for what a rank of the group has broken.
void Unordered::refuse(int from, const FormatError& error) {
  const int rank = ranks_[static_cast<size_t>(from)];
  const CommError reason(
      rank, "", fmt::format("{}: rank {} breaks the protocol: {}", name_, rank, error.what()));
  abort_with(engine_, std::make_exception_ptr(reason));
  throw reason;
}

// texts[i] of every rank: result[i][rank].
std::vector<std::vector<std::string>> Unordered::exchange(const std::vector<std::string>& texts) {
  const std::string own = pack_texts(texts);
  std::vector<int64_t> sizes(ranks_.size());
  const auto own_size = static_cast<int64_t>(own.size());
  engine_.wait(engine_.submit(group_, {.kind = Kind::kAllGather,
                                       .dtype = DType::kInt64,
                                       .count = 1,
                                       .input = &own_size,
                                       .output = sizes.data(),
                                       .timeout_s = timeout_s_}));
  std::string all(static_cast<size_t>(total_bytes(sizes)), '\0');
  engine_.wait(engine_.submit(group_, {.kind = Kind::kAllGather,
                                       .dtype = DType::kUInt8,
                                       .count = own_size,
                                       .input = own.data(),
                                       .output = all.data(),
                                       .output_counts = sizes,
                                       .timeout_s = timeout_s_}));
  return unpack_texts(all, sizes, texts.size());
}

}  // namespace stretto::comm
