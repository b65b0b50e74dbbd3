#include "stretto/comm/tuning/link_observer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace stretto::comm {
namespace {

constexpr size_t kSamples = 32;        // kept of each cost
constexpr size_t kEnough = 8;          // before a cost counts as known
constexpr double kFewBytes = 8 << 10;  // operations of at most so many tell what a round costs
// The links' share of an operation's time is at least this, however long encoding took: on a busy
// host it takes long, and part of it ran while data were on the way. A cost that is half as large
// as the links' seldom changes a choice, one of a tenth does.
constexpr double kLeastWire = 0.5;
constexpr double kMuchCoding = 0.1;  // of an operation's time: what is left is an upper bound
constexpr double kClear = 1.25;      // ratio of costs that matters
// An unknown latency is at most what so many bytes take: between two hosts without a limit of the
// network, all-reduces of 128 KB to 16 MB fit to 15 us, which these take there.
constexpr double kLatencyBytes = 64 << 10;

bool sane(double seconds) { return std::isfinite(seconds) && seconds > 0 && seconds < 1; }

}  // namespace

void LinkObserver::observe(const Traffic* traffic, double started_s, double ended_s,
                           double coding_s, int64_t units) {
  const bool alone = started_s >= busy_.end_s;
  if (alone) {
    end_busy();
    busy_.begin_s = started_s;
  }
  busy_.begin_s = std::min(busy_.begin_s, started_s);
  busy_.end_s = std::max(busy_.end_s, ended_s);
  busy_.coding_s += coding_s;
  busy_.bare_coding_s += coding_s / static_cast<double>(std::max<int64_t>(units, 1));
  if (!traffic) {
    busy_.known = false;
    return;
  }
  const Traffic& t = *traffic;
  busy_.wire_bytes += t.wire_bytes;
  if (t.wire_rounds == 0) busy_.local_bytes += t.local_bytes;
  if (!alone) return;
  if (t.wire_rounds > 0) {
    if (t.wire_bytes <= kFewBytes) note(kWireLatency, (ended_s - started_s) / t.wire_rounds);
  } else if (t.local_rounds > 0) {
    if (t.local_bytes <= kFewBytes) note(kLocalLatency, (ended_s - started_s) / t.local_rounds);
  }
}

// Operations that overlap share the links, so only all of their bytes in all of their time tell
// what a byte costs.
void LinkObserver::end_busy() {
  const double elapsed = busy_.end_s - busy_.begin_s;
  const double seconds = std::max(elapsed - busy_.bare_coding_s, kLeastWire * elapsed);
  const bool wire = busy_.wire_bytes >= kTellingBytes;
  if (busy_.known && (wire || busy_.local_bytes >= kTellingBytes)) {
    const LinkCostKind which = wire ? kWireByte : kLocalByte;
    const double byte_s = seconds / (wire ? busy_.wire_bytes : busy_.local_bytes);
    const bool clear = busy_.coding_s <= kMuchCoding * elapsed;
    if (clear || samples_[which].size() < kEnough || byte_s < cost(which)) note(which, byte_s);
  }
  busy_ = {.end_s = busy_.end_s};
}

void LinkObserver::note(LinkCostKind which, double value) {
  if (!sane(value)) return;
  samples_[which].push_back(value);
  if (samples_[which].size() > kSamples) samples_[which].pop_front();
}

double LinkObserver::cost(size_t which) const {
  const std::deque<double>& samples = samples_[which];
  if (samples.size() < kEnough) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const bool latency = which == kWireLatency || which == kLocalLatency;
  return latency ? sorted.front() : sorted[sorted.size() / 4];
}

LinkCosts LinkObserver::costs() const {
  LinkCosts costs{};
  for (size_t i = 0; i < costs.size(); ++i) costs[i] = cost(i);
  return costs;
}

LinkCosts costs_of(const LinkModel& m) {
  return {m.wire_byte_s, m.wire_latency_s, m.local_byte_s, m.local_latency_s};
}

LinkModel model_of(const LinkCosts& costs, const LinkModel& before) {
  LinkModel model = before;
  if (sane(costs[kWireByte])) model.wire_byte_s = costs[kWireByte];
  if (sane(costs[kLocalByte])) model.local_byte_s = costs[kLocalByte];
  // A faster network has a shorter latency, too. A message takes a share of what a round takes.
  const double latency = sane(costs[kWireLatency])
                             ? costs[kWireLatency]
                             : std::min(model.wire_latency_s, kLatencyBytes * model.wire_byte_s);
  model.wire_message_s *= latency / model.wire_latency_s;
  model.wire_latency_s = latency;
  if (sane(costs[kLocalLatency])) {
    model.local_message_s *= costs[kLocalLatency] / model.local_latency_s;
    model.local_latency_s = costs[kLocalLatency];
  }
  return model;
}

LinkCosts first_known(const LinkCosts& first, const LinkCosts& second) {
  LinkCosts costs = second;
  for (size_t i = 0; i < costs.size(); ++i)
    if (sane(first[i])) costs[i] = first[i];
  return costs;
}

bool differ(const LinkCosts& known, const LinkCosts& model) {
  for (size_t i = 0; i < known.size(); ++i) {
    if (sane(known[i]) && (known[i] > model[i] * kClear || known[i] < model[i] / kClear))
      return true;
  }
  return false;
}

std::string link_costs_text(const LinkCosts& c) {
  return fmt::format("wire {:.3g} s/B {:.3g} s, local {:.3g} s/B {:.3g} s", c[0], c[1], c[2], c[3]);
}

std::optional<LinkCosts> parse_link_costs(std::string_view text) {
  LinkCosts c{};
  const std::string copy(text);
  if (std::sscanf(copy.c_str(), "wire %lf s/B %lf s, local %lf s/B %lf s", &c[0], &c[1], &c[2],
                  &c[3]) != 4)
    return std::nullopt;
  for (const double cost : c)
    if (!std::isfinite(cost) || cost < 0) return std::nullopt;
  return c;
}

}  // namespace stretto::comm
