// A timeline of operations for chrome://tracing and Perfetto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "stretto/comm/engine/state.h"

namespace stretto::comm {

class Trace {
 public:
  // always: from the beginning, whatever start() and stop() do.
  Trace(bool always, int rank) : always_(always), on_(always), rank_(rank) {}
  bool on() const { return on_; }

  void start(double now);
  // What happened since start(), as json() gives it; empty if nothing is recorded.
  std::string stop();

  // An operation that has just ended; one of its units; one of the sums in a unit.
  void operation(const OpenOperation& open, double now);
  void unit(const OpenOperation& open, int64_t index, double from, double to);
  void sum(const OpenOperation& open, int64_t unit, double from, double to);

  // The last 100,000 events as a JSON object with "traceEvents"; empty when off. The rank is the
  // process, and the phases are its threads: when each operation was submitted and how long it was
  // queued, how long each unit was on the wire, and each sum.
  std::string json() const { return json_since(0); }

 private:
  enum Phase : uint8_t { kReady, kQueue, kWire, kSum };
  struct Event {
    Phase phase;
    bool failed;
    double from_s, to_s;
    std::string name;
    Group group;
    uint64_t sequence;
    int64_t unit, bytes;
  };
  std::string json_since(double from_s) const;
  void add(Phase phase, const OpenOperation& open, int64_t unit, double from, double to,
           const Piece* piece = nullptr);

  const bool always_;
  bool on_;
  const int rank_;
  double since_s_ = 0;
  std::deque<Event> events_;
};

}  // namespace stretto::comm
