// Learns what links cost from the all-reduces of a job, without messages of its own.
//
// Operations of many bytes tell what a byte costs; those that overlap are taken together. An
// operation of few bytes that begins when no other is under way tells what a round costs. An
// operation that waits for a slow rank, or for a processor, looks longer than its links are slow,
// never shorter: so the lower quartile of what bytes took, which a few bursts do not move, and the
// least of latencies. Where encoding takes a good part of the time, the rest is only an upper
// bound.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "stretto/comm/collective/algorithm.h"

namespace stretto::comm {

// What an operation moves through the busiest card and inside the busiest host.
struct Traffic {
  double wire_bytes = 0, wire_rounds = 0, local_bytes = 0, local_rounds = 0;
};

// Seconds per byte and per round between hosts and inside a host; 0: not known.
enum LinkCostKind : size_t { kWireByte, kWireLatency, kLocalByte, kLocalLatency, kLinkCosts };
using LinkCosts = std::array<double, kLinkCosts>;

// All-reduces of at least so many bytes tell what a byte costs.
inline constexpr double kTellingBytes = 256 << 10;

class LinkObserver {
 public:
  // An operation is over; all that end are noted, in order. traffic: null if unknown; coding_s:
  // what this rank spent on encoding and decoding its units.
  void observe(const Traffic* traffic, double started_s, double ended_s, double coding_s = 0,
               int64_t units = 1);
  LinkCosts costs() const;

 private:
  void end_busy();
  void note(LinkCostKind which, double value);
  double cost(size_t which) const;

  std::array<std::deque<double>, kLinkCosts> samples_;  // the last of each cost
  // A time without a pause, in which operations were under way. It is over when one ends that began
  // later.
  struct Busy {
    double begin_s = 0, end_s = 0, wire_bytes = 0, local_bytes = 0;
    double coding_s = 0, bare_coding_s = 0;  // in all; what no transfer hides, that of one unit
    bool known = true;                       // the bytes of all operations
  } busy_;
};

LinkCosts costs_of(const LinkModel& model);
// `before` with the costs that are known.
LinkModel model_of(const LinkCosts& costs, const LinkModel& before);
// The costs of `first`, and those of `second` where `first` does not know them.
LinkCosts first_known(const LinkCosts& first, const LinkCosts& second);
// Whether a known cost differs by so much from the model's that another algorithm may be better.
bool differ(const LinkCosts& known, const LinkCosts& model);

// "wire 8.1e-09 s/B 6e-05 s, local 1.5e-10 s/B 2e-06 s", as the tuning cache keeps them.
std::string link_costs_text(const LinkCosts& costs);
std::optional<LinkCosts> parse_link_costs(std::string_view text);

}  // namespace stretto::comm
