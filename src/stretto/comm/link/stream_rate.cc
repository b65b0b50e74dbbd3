#include "stretto/comm/link/stream_rate.h"

#include <algorithm>

namespace stretto::comm {
namespace {

constexpr double kWindow_s = 5e-3;
constexpr double kNews = 0.5;       // the share of a new window in the rate
constexpr double kStill_s = 50e-3;  // a stream that holds bytes and moves none for so long is stuck
constexpr double kClearly = 0.9;

}  // namespace

void StreamRate::observe(int64_t acknowledged, int64_t held, double now_s) {
  if (acknowledged > last_bytes_ || !held_) moved_s_ = now_s;
  last_bytes_ = acknowledged;
  // A window counts only if the stream had something to send from its beginning to its end.
  if (held_ && held > 0 && now_s - window_s_ < kWindow_s) return;
  if (held_ && held > 0) {
    const double rate = static_cast<double>(acknowledged - window_bytes_) / (now_s - window_s_);
    rate_ = rate_ == 0 ? rate : kNews * rate + (1 - kNews) * rate_;
  }
  held_ = held > 0;
  window_bytes_ = acknowledged;
  window_s_ = now_s;
}

bool StreamRate::due(double now_s) const { return !held_ || now_s - window_s_ >= kWindow_s; }

std::optional<double> StreamRate::bytes_per_s(double now_s) const {
  if (rate_ <= 0 || (held_ && now_s - moved_s_ > kStill_s)) return std::nullopt;
  return rate_;
}

bool finish_first(std::span<const StreamLoad> others, const StreamLoad& slow, int64_t chunk_bytes,
                  int64_t chunks) {
  const double until_s = kClearly * static_cast<double>(slow.held + chunk_bytes) / slow.bytes_per_s;
  for (const StreamLoad& other : others) {
    const double room = until_s * other.bytes_per_s - static_cast<double>(other.held);
    const double fit = std::max(room, 0.0) / static_cast<double>(chunk_bytes);
    // A stream that hardly moves leaves more room than a whole number holds.
    if (fit >= static_cast<double>(chunks)) return true;
    chunks -= static_cast<int64_t>(fit);
  }
  return chunks <= 0;
}

}  // namespace stretto::comm
