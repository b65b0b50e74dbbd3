#include "stretto/comm/tuning/step_finder.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace stretto::comm {
namespace {

constexpr size_t kHistory = 4096;
constexpr size_t kLongestPeriod = 1024;
// A sequence must be this long, because layers of equal size look like a repeated step at first.
constexpr size_t kLeastEvidence = 64;
constexpr size_t kLeastPeriods = 3;
constexpr size_t kBetweenLooks = 64;  // operations, where what repeats is too small to be a step
// So many foreign operations, such as an averaged loss, do not end a sequence; an evaluation does.
constexpr int kMostOutsiders = 4;
// Steps that move fewer bytes are joined, until agreeing on their time costs little in comparison.
constexpr int64_t kLeastBytes = 256 << 10;
constexpr int64_t kJoinedBytes = 8 << 20;
constexpr int kStepsAlike = 3;

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 32;
}

}  // namespace

StepFinder::Event StepFinder::operation(uint64_t hash, int64_t bytes) {
  if (told_) {
    if (since_.size() < kHistory) since_.push_back({hash, bytes});
    return Event::kNothing;
  }
  if (!sequence_.empty()) return follow({hash, bytes});
  // The period ends before this operation.
  if (const size_t period = find_period();
      period > 0 && history_[history_.size() - period].hash == hash) {
    adopt(history_.data() + history_.size() - period, period);
    history_.clear();
    possible_size_ = 0;
    at_ = sequence_.size() == 1 ? 0 : 1;
    return Event::kModel;
  }
  if (history_.size() == kHistory) {
    history_.erase(history_.begin(), history_.begin() + kHistory / 2);
    possible_size_ = 0;
  }
  history_.push_back({hash, bytes});
  return Event::kNothing;
}

StepFinder::Event StepFinder::follow(const Seen& next) {
  if (sequence_[at_].hash != next.hash) {
    disturbed_ = true;
    if (++outsiders_ <= kMostOutsiders) return Event::kNothing;
    sequence_.clear();
    history_.assign(1, next);
    return Event::kOther;
  }
  const bool begins = at_ == 0;
  at_ = (at_ + 1) % sequence_.size();
  if (!begins) return Event::kNothing;
  outsiders_ = 0;
  if (++repeat_ < repeats_) return Event::kNothing;
  repeat_ = 0;
  const bool clean = !disturbed_;
  disturbed_ = false;
  return clean ? Event::kStep : Event::kOther;
}

size_t StepFinder::find_period() {
  const size_t size = history_.size();
  if (size < possible_size_) return 0;
  possible_size_ = kHistory;
  for (size_t period = 1; period <= kLongestPeriod; ++period) {
    const size_t needed = std::max(kLeastPeriods * period, kLeastEvidence);
    if (needed > size) {
      possible_size_ = std::min(possible_size_, needed);
      return 0;
    }
    const size_t first = size - needed;
    size_t at = size - 1;
    while (at >= first + period && history_[at].hash == history_[at - period].hash) --at;
    if (at >=
        first + period) {  // these two differ until they are no longer among the last `needed`
      possible_size_ = std::min(possible_size_, at + needed - period + 1);
      continue;
    }
    int64_t bytes = 0;
    for (size_t i = size - period; i < size; ++i) bytes += history_[i].bytes;
    possible_size_ = bytes >= kLeastBytes ? 0 : size + kBetweenLooks;
    return bytes >= kLeastBytes ? period : 0;
  }
  return 0;
}

void StepFinder::adopt(const Seen* begin, size_t count) {
  int64_t bytes = 0;
  uint64_t hash = count;
  for (size_t i = 0; i < count; ++i) {
    bytes += begin[i].bytes;
    hash = mix(hash, begin[i].hash);
  }
  sequence_.assign(begin, begin + count);
  repeats_ = std::max<int64_t>(1, (kJoinedBytes + bytes - 1) / std::max<int64_t>(bytes, 1));
  repeat_ = outsiders_ = 0;
  disturbed_ = false;
  model_ = fmt::format("{} operations, {:.2f} MiB, {:016x}", count,
                       static_cast<double>(bytes) / (1 << 20), hash);
}

StepFinder::Event StepFinder::step() {
  if (!told_) {
    *this = StepFinder();
    told_ = true;
    return Event::kOther;
  }
  const std::vector<Seen> ended = std::exchange(since_, {});
  uint64_t hash = ended.size();
  int64_t bytes = 0;
  for (const Seen& seen : ended) {
    hash = mix(hash, seen.hash);
    bytes += seen.bytes;
  }
  alike_ = hash == last_hash_ ? alike_ + 1 : 1;
  last_hash_ = hash;
  const bool known = !sequence_.empty() && sequence_[0].hash == hash;
  if (known) return Event::kStep;
  if (alike_ < kStepsAlike || bytes < kLeastBytes) return Event::kOther;
  adopt(ended.data(), ended.size());
  sequence_.assign(1, {hash, bytes});
  return Event::kModel;
}

}  // namespace stretto::comm
