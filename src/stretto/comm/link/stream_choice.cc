#include "stretto/comm/link/stream_choice.h"

#include <algorithm>
#include <utility>

namespace stretto::comm {
namespace {

// A window is so long that scheduling noise and a single acknowledgement do not matter. After a
// change, the data that the streams held before it must be sent first; no window counts that time.
constexpr double kWindow_s = 50e-3, kSettle_s = 30e-3;
constexpr int64_t kWindowBytes = 4 << 20, kSettleBytes = 3 << 20;

// A trial is compared with what was in use right before it. It is over when it loses the first
// round; then one more may be lost, because a busy moment can halve the rate of a window.
constexpr int kWins = 2, kLosses = 2;
constexpr double kMore = 1.2;   // twice the streams have to carry this many times as much
constexpr double kSame = 0.95;  // half the streams have to
// A first trial that was lost is soon repeated, because a busy moment may have decided it, and then
// ever more rarely.
constexpr double kLongestPause_s = 60, kLongerPause = 4;

}  // namespace

bool StreamChoice::observe(bool pressed, int64_t acknowledged_bytes, double now_s) {
  if (start_ == most_) return false;
  if (pressed_) {
    seconds_ += now_s - last_s_;
    bytes_ += acknowledged_bytes - last_bytes_;
  }
  pressed_ = pressed;
  last_s_ = now_s;
  last_bytes_ = acknowledged_bytes;
  if (trial_ == 0) {
    if (now_s < try_at_s_ || !pressed) return false;
    has_won_ = false;
    propose(2 * kept_);
    if (trial_ == 0) decide(false, now_s);
    return false;
  }
  if (seconds_ < (settling_ ? kSettle_s : kWindow_s) ||
      bytes_ < (settling_ ? kSettleBytes : kWindowBytes))
    return false;
  if (!settling_) return end_window(now_s);
  begin_window(false);
  return false;
}

bool StreamChoice::begin_round_again() {
  begin_window(true);
  return std::exchange(testing_, false);
}

void StreamChoice::begin_window(bool settling) {
  settling_ = settling;
  seconds_ = 0;
  bytes_ = 0;
}

bool StreamChoice::end_window(double now_s) {
  const double rate = static_cast<double>(bytes_) / seconds_;
  const int before = count();
  if (!testing_) {
    kept_rate_ = rate;
    testing_ = true;
    begin_window(true);
    return true;
  }
  testing_ = false;
  begin_window(true);
  const bool wins = rate >= (trial_ > kept_ ? kMore : kSame) * kept_rate_;
  ++(wins ? wins_ : losses_);
  if (wins_ == kWins) {
    decide(true, now_s);
  } else if (wins_ == 0 || losses_ == kLosses) {
    decide(false, now_s);
  }
  return count() != before;
}

void StreamChoice::propose(int count) {
  count = std::clamp(count, start_, most_);
  trial_ = count == kept_ ? 0 : count;
  wins_ = losses_ = 0;
  begin_window(true);
}

// After a win the next trial goes in the same direction. Fewer streams are tried after more have
// lost.
void StreamChoice::decide(bool won, double now_s) {
  const bool fewer = trial_ != 0 && trial_ < kept_;
  if (won) {
    kept_ = trial_;
    has_won_ = true;
    pause_s_ = kLongestPause_s;  // it has won twice
  }
  const bool reverses = !won && !fewer && !has_won_;
  if (won || reverses) {
    propose(fewer || reverses ? kept_ / 2 : kept_ * 2);
    if (trial_ != 0) return;
  }
  trial_ = 0;
  try_at_s_ = now_s + pause_s_;
  pause_s_ = std::min(kLongerPause * pause_s_, kLongestPause_s);
}

}  // namespace stretto::comm
