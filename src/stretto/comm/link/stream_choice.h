// How many streams carry large messages, found while some are under way: twice as many are tried,
// alternately with what is in use, and kept when clearly more gets through. Where single
// connections are capped or suffer from loss, twice the streams carry up to twice as much; where
// the wire is the limit they carry nothing more and cost time, so the first trial ends there. It is
// repeated now and then, in both directions.
//
// A pure state machine: the same observations give the same choice. One for all links of a rank,
// because on a shared wire more streams to one peer would only take from the others.
#pragma once

#include <cstdint>

namespace stretto::comm {

class StreamChoice {
 public:
  // From `start` to `most`; equal: there is nothing to choose.
  StreamChoice(int start, int most) : start_(start), most_(most), kept_(start) {}

  int count() const { return testing_ ? trial_ : kept_; }

  // Any number of times: whether so much is on its way that the links are the limit from now on,
  // and how many bytes others have acknowledged, ever. True when count() has changed.
  bool observe(bool pressed, int64_t acknowledged_bytes, double now_s);

 private:
  void begin_window(bool settling);
  bool end_window(double now_s);
  void propose(int count);
  void decide(bool won, double now_s);

  const int start_, most_;
  int kept_;
  int trial_ = 0;  // 0: nothing is tried before try_at_s_
  bool testing_ = false, settling_ = true;
  bool has_won_ = false;  // some trial since try_at_s_
  int turns_ = 0;         // of the trial that are over
  double kept_rate_ = 0;  // bytes per second of what is in use, in this turn
  double try_at_s_ = 0;

  // Of the window under way: only time in which the links are the limit.
  double seconds_ = 0;
  int64_t bytes_ = 0;

  bool pressed_ = false;
  double last_s_ = 0;
  int64_t last_bytes_ = 0;
};

}  // namespace stretto::comm
