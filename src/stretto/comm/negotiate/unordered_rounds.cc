// The thread of an Unordered: begins rounds and exchanges their messages.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/negotiate/unordered_item.h"

namespace stretto::comm {
namespace {

// Tags within the group: the first bytes of a message, the rest of a long one, and a signal that a
// round has begun.
constexpr uint32_t kFirst = 0, kLong = 1, kWake = 2;

// The length of the payload, which stands before it.
constexpr size_t kSizeBytes = 4;
// Bytes for a round without new names, in addition to two bits per name.
constexpr size_t kUsualBytes = 96;

// The same on both sides, because both have the same names.
size_t first_bytes(const Negotiator& negotiator) {
  return kSizeBytes + kUsualBytes + 16 * ((negotiator.numbers() + 63) / 64);
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
    for (const Rest& rest : stood_in_)
      if (rest) rest(-1);
  } catch (...) {
    give_up(std::current_exception());
  }
  std::lock_guard lock(mutex_);
  over_done_ = true;
  over_.notify_all();
}

// A round begins when this rank has news, when another rank has begun it, or when it is time: to
// ask which ranks are missing, or to show that this rank is alive.
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

// texts[i] of every rank: result[i][rank].
std::vector<std::vector<std::string>> Unordered::exchange(const std::vector<std::string>& texts) {
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

}  // namespace stretto::comm
