// Finds how many streams should carry large messages, while some are under way. It tries twice as
// many streams, alternately with those in use, and keeps them if they carry clearly more. That
// helps where single connections are capped or lose packets. Where the network is the bottleneck,
// more streams only cost time, and the first trial shows it. Where processors are, one stream
// carries the most. Trials, of more streams and of fewer, are repeated once a minute, and the first
// one, if it was lost, after 2, 8 and 32 seconds too.
//
// A pure state machine: the same observations give the same choice. A rank has one choice for all
// its links, because on a shared wire more streams of one link only take from the others.
#pragma once

#include <cstdint>

namespace stretto::comm {

class StreamChoice {
 public:
  // Chooses between `start` and `most` streams; if they are equal, there is nothing to choose.
  StreamChoice(int start, int most) : start_(start), most_(most), kept_(start) {}

  int count() const { return testing_ ? trial_ : kept_; }

  // Called often. pressed: from now on so much is under way that the links are the bottleneck.
  // acknowledged_bytes: since the start. True when count() has changed.
  bool observe(bool pressed, int64_t acknowledged_bytes, double now_s);

  // Something else has changed that rates depend on: what was measured in this round does not
  // count. True when count() has changed.
  bool begin_round_again();

 private:
  static constexpr double kFirstPause_s = 2;

  void begin_window(bool settling);
  bool end_window(double now_s);
  void propose(int count);
  void decide(bool won, double now_s);

  int start_, most_;
  int kept_;
  int trial_ = 0;  // streams being tried; 0: none until try_at_s_
  bool testing_ = false, settling_ = true;
  bool has_won_ = false;       // a trial has won since try_at_s_
  int wins_ = 0, losses_ = 0;  // rounds of the trial so far
  double kept_rate_ = 0;       // bytes per second with kept_ streams, in this round
  double try_at_s_ = 0, pause_s_ = kFirstPause_s;

  // The current window: only time in which the links are the bottleneck.
  double seconds_ = 0;
  int64_t bytes_ = 0;

  bool pressed_ = false;
  double last_s_ = 0;
  int64_t last_bytes_ = 0;
};

}  // namespace stretto::comm
