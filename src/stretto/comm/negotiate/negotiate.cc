#include "stretto/comm/negotiate/negotiate.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

// A rank sets the flags that are true for it; flags combine by AND.
constexpr uint32_t kJoinedAndDone = 1, kLeft = 2;

// Names keep their numbers until there are more than kMostNames; then only the half that was used
// last does, so that a name that is used once does not cost a bit for ever.
constexpr size_t kMostNames = 4096;

// A round and a rank in one number that is ordered by round.
constexpr int kRankBits = 24;
constexpr uint64_t kRankMask = (uint64_t{1} << kRankBits) - 1;

// Names whose memory is read ahead.
constexpr size_t kAhead = 4;

size_t words_for(size_t bits) { return (bits + 63) / 64; }

bool bit(const std::vector<uint64_t>& words, size_t at) {
  return (words[at / 64] >> (at % 64) & 1) != 0;
}

void set_bit(std::vector<uint64_t>* words, size_t at) {
  (*words)[at / 64] |= uint64_t{1} << (at % 64);
}

void clear_bit(std::vector<uint64_t>* words, size_t at) {
  (*words)[at / 64] &= ~(uint64_t{1} << (at % 64));
}

// Ascending. `function` may clear the bit that it gets.
template <typename Function>
void for_each_bit(const std::vector<uint64_t>& words, Function&& function) {
  for (size_t w = 0; w < words.size(); ++w)
    for (uint64_t rest = words[w]; rest != 0; rest &= rest - 1)
      function(64 * w + static_cast<size_t>(std::countr_zero(rest)));
}

uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

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
  if (ranks < 1 || rank < 0 || rank >= ranks || ranks >= 1 << kRankBits)
    throw_invalid("negotiator: expected a rank below {}, got {}", ranks, rank);
}

void Negotiator::add(std::string_view name, std::string_view description, double now_s,
                     uint64_t ticket) {
  const uint64_t hash = hash_of(name);
  const int known = number_.find(hash);
  const auto number = static_cast<size_t>(known);
  if (known == NameNumbers::kNone ? unknown_.contains(hash) : bit(open_bits_, number))
    throw_invalid("'{}' was submitted again before it was done: give every tensor a different name",
                  name);
  Own& own = known == NameNumbers::kNone ? unknown_[hash] : known_[number].own;
  // Ranks submit names again in much the same order.
  if (const auto after = static_cast<size_t>(known + 1); after < known_.size())
    __builtin_prefetch(&known_[after].own);
  // Equal hashes are taken for equal names everywhere, so its text need not be read again.
  if (own.name.size() != name.size()) own.name = name;
  own.meaning = hash_of(description);
  own.ticket = ticket;
  own.since_s = own.reported_s = now_s;
  reported_s_ = std::min(reported_s_, now_s);
  since_s_ = std::min(since_s_, now_s);
  if (known != NameNumbers::kNone) open(number);
  ++open_;
}

void Negotiator::open(size_t number) {
  const Known& known = known_[number];
  set_bit(&open_bits_, number);
  if (known.meaning != known.own.meaning) set_bit(&otherwise_bits_, number);
}

// Null: this rank waits for no such name.
Negotiator::Own* Negotiator::find_open(uint64_t hash) {
  if (const int known = number_.find(hash); known != NameNumbers::kNone) {
    const auto number = static_cast<size_t>(known);
    return bit(open_bits_, number) ? &known_[number].own : nullptr;
  }
  const auto unknown = unknown_.find(hash);
  return unknown == unknown_.end() ? nullptr : &unknown->second;
}

template <typename Function>
void Negotiator::for_each_open(Function&& function) {
  if (idle()) return;
  for (auto& [hash, own] : unknown_) function(hash, own);
  for_each_bit(open_bits_,
               [&](size_t number) { function(known_[number].hash, known_[number].own); });
}

void Negotiator::join() {
  if (joined_ == 0) joined_ = round_ + 1;
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
  ++round_;
  const bool joined = joined_ != 0;
  done_ = idle();
  flags_ = (joined && done_ ? kJoinedAndDone : 0) | (left_ && done_ ? kLeft : 0);
  left_rank_ = left_ && done_ ? static_cast<uint32_t>(rank_) + 1 : 0;
  last_joined_ = joined ? joined_ << kRankBits | static_cast<uint64_t>(rank_) : 0;
  ready_ = handed_ = open_bits_;
  if (joined) ready_.assign(ready_.size(), ~uint64_t{0});
  fresh_.clear();
  differing_.clear();
  for (const auto& [hash, own] : unknown_) fresh_.emplace(hash, own.meaning);
  for_each_bit(otherwise_bits_, [&](size_t number) { differing_.insert(known_[number].hash); });
  handed_in_.assign(diagnosed_.size(), std::vector<uint64_t>(words_for(ranks_)));
  for (size_t i = 0; i < diagnosed_.size(); ++i)
    if (joined || find_open(diagnosed_[i])) set_bit(&handed_in_[i], static_cast<size_t>(rank_));
}

std::vector<std::byte> Negotiator::outgoing() const {
  Writer message;
  message.word(flags_);
  message.word(left_rank_);
  for (const size_t size : {ready_.size(), fresh_.size(), differing_.size(), asked_.size()})
    message.word(static_cast<uint32_t>(size));
  message.words(std::array{last_joined_});
  message.words(ready_);
  message.words(handed_);
  for (const auto& [hash, meaning] : fresh_) message.words(std::array{hash, meaning});
  message.words(std::vector<uint64_t>(differing_.begin(), differing_.end()));
  message.words(std::vector<uint64_t>(asked_.begin(), asked_.end()));
  for (const auto& ranks : handed_in_) message.words(ranks);
  return message.take();
}

void Negotiator::combine(std::span<const std::byte> message) {
  Reader reader(message);
  const uint32_t flags = reader.word(), left = reader.word(), words = reader.word(),
                 fresh = reader.word(), differing = reader.word(), asked = reader.word();
  if (words != ready_.size()) reader.fail("the sender knows other names");
  if (left > static_cast<uint32_t>(ranks_)) reader.fail("a rank that is none");
  const uint64_t last_joined = reader.words(1)[0];
  if ((last_joined & kRankMask) >= static_cast<uint64_t>(ranks_))
    reader.fail("a rank that is none");
  const std::vector<uint64_t> ready = reader.words(words), handed = reader.words(words);
  const std::vector<uint64_t> names = reader.words(2 * size_t{fresh});
  const std::vector<uint64_t> differences = reader.words(differing);
  const std::vector<uint64_t> questions = reader.words(asked);
  std::vector<std::vector<uint64_t>> handed_in;
  for (const auto& ranks : handed_in_) handed_in.push_back(reader.words(ranks.size()));
  reader.finish();
  for (size_t i = 0; i < names.size(); i += 2)
    if (number_.find(names[i]) != NameNumbers::kNone) reader.fail("a new name that has a number");

  flags_ &= flags;
  left_rank_ = std::max(left_rank_, left);
  last_joined_ = std::max(last_joined_, last_joined);
  for (size_t i = 0; i < words; ++i) {
    ready_[i] &= ready[i];
    handed_[i] |= handed[i];
  }
  // If ranks describe a new name differently, all take the least hash.
  for (size_t i = 0; i < names.size(); i += 2) {
    uint64_t& meaning = fresh_.try_emplace(names[i], names[i + 1]).first->second;
    meaning = std::min(meaning, names[i + 1]);
  }
  differing_.insert(differences.begin(), differences.end());
  asked_.insert(questions.begin(), questions.end());
  for (size_t i = 0; i < handed_in_.size(); ++i)
    for (size_t w = 0; w < handed_in_[i].size(); ++w) handed_in_[i][w] |= handed_in[i][w];
}

Negotiator::Result Negotiator::finish(double now_s) {
  Result result{.someone_joined = last_joined_ != 0,
                .left = static_cast<int>(left_rank_) - 1,
                .all_left = (flags_ & kLeft) != 0,
                .more = !fresh_.empty() || !asked_.empty()};
  for_each_bit(handed_, [&](size_t at) {
    if (at >= known_.size()) return;
    if (at + kAhead < known_.size()) __builtin_prefetch(&known_[at + kAhead]);
    Known& known = known_[at];
    if (known.used == 0) return;
    known.used = round_;
    const bool agreed = bit(ready_, at), hopeless = !agreed && result.left >= 0;
    if (!agreed && !hopeless) return;
    if (agreed)
      result.agreed.push_back({.hash = known.hash, .differs = differing_.contains(known.hash)});
    if (!bit(open_bits_, at)) return;
    clear_bit(&open_bits_, at);
    clear_bit(&otherwise_bits_, at);
    --open_;
    Agreed& here = agreed ? result.agreed.back() : result.hopeless.emplace_back();
    here.name = known.own.name;
    here.ticket = known.own.ticket;
  });
  if ((flags_ & kJoinedAndDone) != 0) {
    result.last_joined = static_cast<int>(last_joined_ & kRankMask);
    joined_ = 0;
  }
  for (const auto& [hash, meaning] : fresh_) number(hash, meaning);
  forget_old();
  result.stalls = diagnose(now_s);
  // A rank may have joined or left after it sent its flags for this round.
  result.more |= !asked_.empty() || ((left_ || joined_ != 0) && !done_ && idle());
  return result;
}

void Negotiator::number(uint64_t hash, uint64_t meaning) {
  if (free_.empty()) {
    free_.push_back(static_cast<int>(known_.size()));
    known_.emplace_back();
    open_bits_.resize(words_for(known_.size()));
    otherwise_bits_.resize(open_bits_.size());
  }
  const auto at = static_cast<size_t>(free_.back());
  number_.insert(hash, free_.back());
  free_.pop_back();
  Known& known = known_[at];
  known = {.hash = hash, .meaning = meaning, .used = round_, .own = {}};
  auto unknown = unknown_.extract(hash);
  if (unknown.empty()) return;
  known.own = std::move(unknown.mapped());
  open(at);
}

// Depends only on what all ranks have seen. A forgotten name that was submitted meanwhile is new.
void Negotiator::forget_old() {
  if (number_.size() <= kMostNames) return;
  std::vector<std::pair<uint64_t, int>> unused;  // last round, number
  for (size_t at = 0; at < known_.size(); ++at)
    if (known_[at].used != 0 && known_[at].used != round_)
      unused.emplace_back(known_[at].used, static_cast<int>(at));
  std::sort(unused.begin(), unused.end());
  for (const auto& [used, at] : unused) {
    if (number_.size() <= kMostNames / 2) break;
    Known& known = known_[static_cast<size_t>(at)];
    number_.erase(known.hash);
    if (bit(open_bits_, static_cast<size_t>(at))) unknown_[known.hash] = std::move(known.own);
    clear_bit(&open_bits_, static_cast<size_t>(at));
    clear_bit(&otherwise_bits_, static_cast<size_t>(at));
    known = {};
    free_.push_back(at);
  }
  std::sort(free_.rbegin(), free_.rend());
}

void Negotiator::settle(uint64_t hash, std::string_view description) {
  const int known = number_.find(hash);
  if (known == NameNumbers::kNone) return;
  const auto number = static_cast<size_t>(known);
  known_[number].meaning = hash_of(description);
  clear_bit(&otherwise_bits_, number);
  if (bit(open_bits_, number)) open(number);
}

// Reads the answers to the questions of the last round, passes this round's questions on to the
// next, and asks about names that have waited too long here.
std::vector<Stall> Negotiator::diagnose(double now_s) {
  std::vector<Stall> stalls;
  for (size_t i = 0; i < diagnosed_.size(); ++i) {
    Own* own = find_open(diagnosed_[i]);
    if (!own) continue;
    own->reported_s = now_s;  // also if another rank asked
    Stall stall{.name = own->name, .missing = {}, .waiting_s = now_s - own->since_s};
    for (int rank = 0; rank < ranks_; ++rank)
      if (!bit(handed_in_[i], static_cast<size_t>(rank))) stall.missing.push_back(rank);
    if (!stall.missing.empty()) stalls.push_back(std::move(stall));
  }
  diagnosed_.assign(asked_.begin(), asked_.end());
  asked_.clear();
  reported_s_ = since_s_ = kNever_s;
  for_each_open([&](uint64_t hash, Own& own) {
    if (now_s - own.reported_s >= stall_s_ || now_s - own.since_s >= limit_s_) {
      own.reported_s = now_s;
      asked_.insert(hash);
    }
    reported_s_ = std::min(reported_s_, own.reported_s);
    since_s_ = std::min(since_s_, own.since_s);
  });
  return stalls;
}

}  // namespace stretto::comm
