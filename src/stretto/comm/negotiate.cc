#include "stretto/comm/negotiate.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

// Flags start out set where a rank has the property; the combination is the AND.
constexpr uint32_t kJoined = 1, kIdle = 2;

size_t words_for(size_t bits) { return (bits + 63) / 64; }

class Writer {
 public:
  void word(uint32_t value) { append(&value, sizeof value); }
  void words(std::span<const uint64_t> values) { append(values.data(), values.size_bytes()); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* data, size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint32_t word() {
    uint32_t value;
    std::memcpy(&value, next(sizeof value), sizeof value);
    return value;
  }
  std::vector<uint64_t> words(size_t count) {
    if (count > bytes_.size() / sizeof(uint64_t)) fail("more words than bytes");
    std::vector<uint64_t> values(count);
    if (count > 0) std::memcpy(values.data(), next(8 * count), 8 * count);
    return values;
  }
  void finish() const {
    if (!bytes_.empty()) fail("bytes after the end");
  }
  [[noreturn]] void fail(const char* problem) const {
    throw FormatError("negotiation message", -1, problem);
  }

 private:
  const std::byte* next(size_t size) {
    if (size > bytes_.size()) fail("ends too early");
    const std::byte* at = bytes_.data();
    bytes_ = bytes_.subspan(size);
    return at;
  }
  std::span<const std::byte> bytes_;
};

}  // namespace

Negotiator::Negotiator(int rank, int ranks, double stall_s)
    : rank_(rank), ranks_(ranks), stall_s_(stall_s) {
  if (ranks < 1 || rank < 0 || rank >= ranks)
    throw_invalid("negotiator: expected a rank below {}, got {}", ranks, rank);
}

uint64_t Negotiator::hash(std::string_view name, std::string_view fingerprint) {
  return XXH3_64bits_withSeed(fingerprint.data(), fingerprint.size(),
                              XXH3_64bits(name.data(), name.size()));
}

void Negotiator::add(std::string_view name, std::string_view fingerprint, double now_s) {
  if (!names_.emplace(name).second) throw_invalid("{}: already handed in, and not done yet", name);
  open_.emplace(hash(name, fingerprint), Open{std::string(name), now_s, now_s});
}

int Negotiator::exchanges() const {
  int count = 0;
  while ((int64_t{1} << count) < ranks_) ++count;
  return count;
}

int Negotiator::send_to(int k) const {
  return static_cast<int>((rank_ + (int64_t{1} << k)) % ranks_);
}

int Negotiator::receive_from(int k) const {
  return static_cast<int>((rank_ - (int64_t{1} << k) + ranks_) % ranks_);
}

void Negotiator::start() {
  flags_ = (joined_ ? kJoined : 0) | (open_.empty() ? kIdle : 0);
  ready_.assign(words_for(hashes_.size()), joined_ ? ~uint64_t{0} : 0);
  fresh_.clear();
  for (const auto& [hash, open] : open_) {
    const auto known = number_.find(hash);
    if (known == number_.end())
      fresh_.insert(hash);
    else
      ready_[static_cast<size_t>(known->second) / 64] |= uint64_t{1} << (known->second % 64);
  }
  handed_in_.assign(diagnosed_.size(), std::vector<uint64_t>(words_for(ranks_)));
  for (size_t i = 0; i < diagnosed_.size(); ++i)
    if (joined_ || open_.count(diagnosed_[i]) != 0)
      handed_in_[i][static_cast<size_t>(rank_) / 64] |= uint64_t{1} << (rank_ % 64);
}

std::vector<std::byte> Negotiator::outgoing() const {
  Writer message;
  message.word(flags_);
  message.word(static_cast<uint32_t>(ready_.size()));
  message.word(static_cast<uint32_t>(fresh_.size()));
  message.word(static_cast<uint32_t>(asked_.size()));
  message.words(ready_);
  message.words(std::vector<uint64_t>(fresh_.begin(), fresh_.end()));
  message.words(std::vector<uint64_t>(asked_.begin(), asked_.end()));
  for (const auto& ranks : handed_in_) message.words(ranks);
  return message.take();
}

void Negotiator::combine(std::span<const std::byte> message) {
  Reader reader(message);
  const uint32_t flags = reader.word(), ready = reader.word(), fresh = reader.word(),
                 asked = reader.word();
  if (ready != ready_.size()) reader.fail("the sender knows other names");
  const std::vector<uint64_t> bits = reader.words(ready);
  const std::vector<uint64_t> names = reader.words(fresh);
  const std::vector<uint64_t> questions = reader.words(asked);
  std::vector<std::vector<uint64_t>> handed_in;
  for (size_t i = 0; i < handed_in_.size(); ++i)
    handed_in.push_back(reader.words(handed_in_[i].size()));
  reader.finish();

  flags_ &= flags;
  for (size_t i = 0; i < ready_.size(); ++i) ready_[i] &= bits[i];
  fresh_.insert(names.begin(), names.end());
  asked_.insert(questions.begin(), questions.end());
  for (size_t i = 0; i < handed_in_.size(); ++i)
    for (size_t w = 0; w < handed_in_[i].size(); ++w) handed_in_[i][w] |= handed_in[i][w];
}

Negotiator::Result Negotiator::finish(double now_s) {
  Result result{.all_joined = (flags_ & kJoined) != 0, .idle = (flags_ & kIdle) != 0};
  // While every rank has joined, all bits are set and mean nothing.
  for (size_t number = 0; number < hashes_.size() && !result.all_joined; ++number) {
    if ((ready_[number / 64] >> (number % 64) & 1) == 0) continue;
    const uint64_t hash = hashes_[number];
    result.agreed_hashes.push_back(hash);
    const auto open = open_.find(hash);
    result.agreed.push_back(open != open_.end() ? open->second.name : "");
    if (open == open_.end()) continue;
    names_.erase(open->second.name);
    open_.erase(open);
  }
  for (const uint64_t hash : fresh_) {
    number_.emplace(hash, static_cast<int>(hashes_.size()));
    hashes_.push_back(hash);
  }
  result.stalls = diagnose(now_s);
  return result;
}

// Reads the answers to the questions of the round before, passes those of this round on to the
// next, and asks about what has waited too long here.
std::vector<Stall> Negotiator::diagnose(double now_s) {
  std::vector<Stall> stalls;
  for (size_t i = 0; i < diagnosed_.size(); ++i) {
    Stall stall;
    for (int rank = 0; rank < ranks_; ++rank)
      if ((handed_in_[i][static_cast<size_t>(rank) / 64] >> (rank % 64) & 1) == 0)
        stall.missing.push_back(rank);
    if (stall.missing.empty()) continue;  // it has come in the meantime
    const auto open = open_.find(diagnosed_[i]);
    stall.name = open != open_.end() ? open->second.name : fmt::format("#{:016x}", diagnosed_[i]);
    stall.waiting_s = open != open_.end() ? now_s - open->second.since_s : 0;
    stalls.push_back(std::move(stall));
  }
  diagnosed_.assign(asked_.begin(), asked_.end());
  asked_.clear();
  for (auto& [hash, open] : open_) {
    if (now_s - open.reported_s < stall_s_) continue;
    open.reported_s = now_s;
    asked_.insert(hash);
  }
  return stalls;
}

}  // namespace stretto::comm
