#include "stretto/comm/engine/trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace stretto::comm {
namespace {

constexpr size_t kMaxEvents = 100'000;
constexpr std::array kPhases{"ready", "queue", "wire", "sum"};
constexpr int kLanes = 1000;  // of a phase, for events at the same time

}  // namespace

void Trace::add(Phase phase, const OpenOperation& open, int64_t unit, double from, double to,
                const Piece* piece) {
  if (!on_ || open.operation.unseen) return;
  if (events_.size() == kMaxEvents) events_.pop_front();
  const auto element = static_cast<int64_t>(dtype_bytes(open.operation.dtype));
  Operation shown = open.operation;
  if (piece) {
    shown.count = piece->count;
    shown.name = piece->name;
  }
  const int64_t whole = shown.count * element;
  events_.push_back(
      {.phase = phase,
       .failed = open.error != nullptr,
       .from_s = from,
       .to_s = to,
       .name = describe(shown),
       .group = open.group,
       .sequence = open.sequence,
       .unit = unit,
       .bytes = unit < 0 || open.units <= 1 ? whole : std::min(open.unit_bytes, whole)});
}

void Trace::start(double now) {
  on_ = true;
  since_s_ = now;
}

std::string Trace::stop() {
  std::string text = json_since(since_s_);
  since_s_ = 0;
  on_ = always_;
  if (!on_) events_.clear();
  return text;
}

void Trace::operation(const OpenOperation& open, double now) {
  if (!on_) return;
  const auto add_both = [&](const Piece* piece) {
    add(kReady, open, -1, open.submitted_s, open.submitted_s, piece);
    add(kQueue, open, -1, open.submitted_s, open.started_s > 0 ? open.started_s : now, piece);
  };
  for (const Piece& piece : open.pieces) add_both(&piece);
  if (open.pieces.empty()) add_both(nullptr);
}

void Trace::unit(const OpenOperation& open, int64_t index, double from, double to) {
  if (from > 0) add(kWire, open, index, from, to);  // else it began before start()
}

void Trace::sum(const OpenOperation& open, int64_t unit, double from, double to) {
  add(kSum, open, unit, from, to);
}

std::string Trace::json_since(double from_s) const {
  if (!on_) return "";
  nlohmann::json list = nlohmann::json::array();
  const auto name = [&](const char* what, int thread, std::string text) {
    list.push_back({{"ph", "M"},
                    {"pid", rank_},
                    {"tid", thread},
                    {"name", what},
                    {"args", {{"name", std::move(text)}}}});
  };
  name("process_name", 0, fmt::format("rank {}", rank_));

  std::vector<const Event*> ordered;
  for (const Event& e : events_) {
    if (e.to_s >= from_s) ordered.push_back(&e);
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Event* a, const Event* b) { return a->from_s < b->from_s; });
  // Events of one thread must not overlap, so each goes to the first free lane of its phase.
  std::array<std::vector<double>, kPhases.size()> free_from;
  for (const Event* e : ordered) {
    std::vector<double>& lanes = free_from[e->phase];
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](double t) { return t <= e->from_s; });
    if (lane == lanes.end()) lane = lanes.insert(lane, 0);
    *lane = e->to_s;
    const int thread = e->phase * kLanes + static_cast<int>(lane - lanes.begin());
    nlohmann::json event{{"ph", e->phase == kReady ? "i" : "X"},
                         {"pid", rank_},
                         {"tid", thread},
                         {"name", e->name},
                         {"cat", kPhases[e->phase]},
                         {"ts", e->from_s * 1e6},
                         {"args",
                          {{"group", e->group},
                           {"sequence", e->sequence},
                           {"bytes", e->bytes},
                           {"failed", e->failed}}}};
    if (e->phase == kReady) {
      event["s"] = "t";
    } else {
      event["dur"] = (e->to_s - e->from_s) * 1e6;
    }
    if (e->unit >= 0) event["args"]["unit"] = e->unit;
    list.push_back(std::move(event));
  }
  for (size_t phase = 0; phase < kPhases.size(); ++phase) {
    for (size_t lane = 0; lane < free_from[phase].size(); ++lane)
      name("thread_name", static_cast<int>(phase) * kLanes + static_cast<int>(lane),
           kPhases[phase]);
  }
  return nlohmann::json{{"traceEvents", std::move(list)}}.dump();
}

}  // namespace stretto::comm
