// How fast the streams of a link are, and whether a slow one should take another chunk at the end
// of what is queued. Cards of unlike speed make streams of unlike speed, and the last chunk that
// the slow one takes is what everybody waits for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace stretto::comm {

// The rate at which a stream's bytes are acknowledged while it has some to send.
class StreamRate {
 public:
  // acknowledged: bytes since the start. held: bytes written that are not acknowledged.
  void observe(int64_t acknowledged, int64_t held, double now_s);

  // Whether observe() has something new to learn.
  bool due(double now_s) const;

  // Bytes per second. None when nothing is known, or when the stream holds bytes and has been
  // standing still for long.
  std::optional<double> bytes_per_s(double now_s) const;

 private:
  double rate_ = 0;  // 0: not known
  bool held_ = false;
  int64_t window_bytes_ = 0, last_bytes_ = 0;  // acknowledged when the window began, and now
  double window_s_ = 0, moved_s_ = 0;          // when the window began; when bytes last moved
};

struct StreamLoad {
  double bytes_per_s;
  int64_t held;  // bytes written that are not acknowledged
};

// Whether `others` finish `chunks` more chunks clearly before `slow` finishes one.
bool finish_first(std::span<const StreamLoad> others, const StreamLoad& slow, int64_t chunk_bytes,
                  int64_t chunks);

}  // namespace stretto::comm
