#include "stretto/data/lookahead.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"

namespace stretto::data {

Lookahead::Lookahead(Dataset dataset, Plan plan)
    : dataset_(std::move(dataset)),
      plan_(std::move(plan)),
      tick_places_(std::max<int64_t>(1, plan_.places / kTicks)),
      first_(static_cast<size_t>(dataset_.files()), -1),
      last_(first_) {}

void Lookahead::clear(int64_t at) {
  entries_.clear();
  base_ = asked_ = 0;
  std::fill(first_.begin(), first_.end(), -1);
  std::fill(last_.begin(), last_.end(), -1);
  begin_ = end_ = start_ = at;
  order_epoch_ = -1;
}

void Lookahead::move_to(int64_t epoch, int64_t place) {
  const std::lock_guard lock(mutex_);
  const int64_t at = epoch * plan_.places + place;
  // Batches are counted from another place: others of them are this rank's.
  const Cut cut = plan_.cut(epoch);
  const int64_t first = std::max(epoch * plan_.places, start_);
  const bool same_batches = (at - first) % cut.global() == 0;
  if (at < begin_ || at > end_ || !same_batches) {
    clear(at);
    return;
  }
  begin_ = at;
  const int64_t tick = begin_ / tick_places_;
  while (!entries_.empty() && entries_.front().tick < tick) {
    const Entry& entry = entries_.front();
    const auto file = static_cast<size_t>(entry.file);
    first_[file] = entry.later;
    if (entry.later < 0) last_[file] = -1;
    entries_.pop_front();
    ++base_;
  }
  asked_ = std::max(asked_, base_);
}

void Lookahead::add(int64_t sample, int64_t tick, bool mine) {
  if (sample < 0 || sample >= dataset_.size()) return;  // another part's
  int64_t file = 0;
  try {
    file = file_of(dataset_, sample);
  } catch (const FormatError&) {
    return;  // a damaged index; the loader says it with the sample's batch
  }
  add_file(file, tick, mine);
  if (plan_.masks && dataset_.has_masks_beside()) add_file(dataset_.mask_file(sample), tick, mine);
}

void Lookahead::add_file(int64_t file, int64_t tick, bool mine) {
  const auto f = static_cast<size_t>(file);
  if (last_[f] >= 0) {
    Entry& last = entries_[static_cast<size_t>(last_[f] - base_)];
    // One that next() has passed by keeps its owner: the file is fetched when it is read.
    if (last.tick == tick) {
      last.mine = last.mine || mine;
      return;
    }
    last.later = base_ + static_cast<int64_t>(entries_.size());
  }
  last_[f] = base_ + static_cast<int64_t>(entries_.size());
  if (first_[f] < 0) first_[f] = last_[f];
  entries_.push_back({.file = file, .tick = tick, .later = -1, .mine = mine});
}

bool Lookahead::look() {
  const int64_t horizon = (begin_ / plan_.places + 2) * plan_.places;  // the next epoch's end
  if (end_ >= horizon || entries_.size() >= kMostEntries) return false;
  const int64_t epoch = end_ / plan_.places;
  if (epoch != order_epoch_) {
    order_ = plan_.order(epoch);
    cut_ = plan_.cut(epoch);
    order_epoch_ = epoch;
  }
  const int64_t epoch_begin = epoch * plan_.places;
  const int64_t first = std::max(epoch_begin, start_);
  const int64_t stop = std::min({end_ + kPiece, epoch_begin + plan_.places, horizon});
  for (; end_ < stop; ++end_) {
    const int64_t in_batch = (end_ - first) % cut_.global() - cut_.begin();
    const bool mine = in_batch >= 0 && in_batch < cut_.batch;
    add((*order_)(end_ - epoch_begin) - plan_.begin, end_ / tick_places_, mine);
  }
  return true;
}

std::optional<Lookahead::Next> Lookahead::next(bool& more) {
  const std::lock_guard lock(mutex_);
  more = look();
  // The last tick may get more of this rank's files.
  const int64_t complete = more ? end_ / tick_places_ : INT64_MAX;
  for (; asked_ < base_ + static_cast<int64_t>(entries_.size()); ++asked_) {
    const Entry& entry = entries_[static_cast<size_t>(asked_ - base_)];
    if (entry.tick >= complete) break;
    if (!entry.mine || needed_before(entry.file, asked_)) continue;
    ++asked_;
    return Next{.file = entry.file, .use = entry.tick - begin_ / tick_places_};
  }
  return std::nullopt;
}

// Whether an entry before this one asks for the file.
bool Lookahead::needed_before(int64_t file, int64_t number) const {
  for (int64_t n = first_[static_cast<size_t>(file)]; n >= 0 && n < number;) {
    const Entry& entry = entries_[static_cast<size_t>(n - base_)];
    if (entry.mine) return true;
    n = entry.later;
  }
  return false;
}

void Lookahead::put_back(const Next& next) {
  const std::lock_guard lock(mutex_);
  const int64_t first = first_[static_cast<size_t>(next.file)];
  if (first >= 0) asked_ = std::min(asked_, first);
}

std::vector<Lookahead::Next> Lookahead::uses() {
  for (bool more = true; more;) {  // others may have the lock between
    const std::lock_guard lock(mutex_);
    more = look();
  }
  const std::lock_guard lock(mutex_);
  const int64_t now = begin_ / tick_places_;
  std::vector<Next> all;
  for (size_t file = 0; file < first_.size(); ++file) {
    if (first_[file] < 0) continue;
    const Entry& entry = entries_[static_cast<size_t>(first_[file] - base_)];
    all.push_back({.file = static_cast<int64_t>(file), .use = entry.tick - now});
  }
  return all;
}

}  // namespace stretto::data
