// A timeline of operations for chrome://tracing and Perfetto.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "stretto/comm/engine_state.h"

namespace stretto::comm {

class Trace {
 public:
  explicit Trace(bool on) : on_(on) {}

  // An operation that has just ended; the last 100,000 are kept.
  void add(const OpenOperation& open, double now);

  // A JSON object with "traceEvents": for each operation the time it was queued and the time it was
  // under way. Empty when off.
  std::string json() const;

 private:
  struct Event {
    std::string name;
    Group group;
    uint64_t sequence;
    double submitted_s, started_s, ended_s;
    int64_t bytes;
    bool failed;
  };
  const bool on_;
  std::deque<Event> events_;
};

}  // namespace stretto::comm
