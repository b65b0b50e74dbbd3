#include "stretto/comm/trace.h"

#include <nlohmann/json.hpp>

namespace stretto::comm {
namespace {

constexpr size_t kMaxEvents = 100'000;

}  // namespace

void Trace::add(const OpenOperation& open, double now) {
  if (!on_) return;
  if (events_.size() == kMaxEvents) events_.pop_front();
  const double started = open.started_s > 0 ? open.started_s : now;
  events_.push_back(
      {.name = describe(open.operation),
       .group = open.group,
       .sequence = open.sequence,
       .submitted_s = open.submitted_s,
       .started_s = started,
       .ended_s = now,
       .bytes = open.operation.count * static_cast<int64_t>(dtype_bytes(open.operation.dtype)),
       .failed = open.error != nullptr});
}

std::string Trace::json() const {
  if (!on_) return "";
  nlohmann::json list = nlohmann::json::array();
  for (const Event& e : events_) {
    const auto span = [&](const char* phase, double from, double to) {
      list.push_back({{"ph", "X"},
                      {"pid", 0},
                      {"tid", phase},
                      {"name", e.name},
                      {"cat", phase},
                      {"ts", from * 1e6},
                      {"dur", (to - from) * 1e6},
                      {"args",
                       {{"group", e.group},
                        {"sequence", e.sequence},
                        {"bytes", e.bytes},
                        {"failed", e.failed}}}});
    };
    span("queue", e.submitted_s, e.started_s);
    span("wire", e.started_s, e.ended_s);
  }
  return nlohmann::json{{"traceEvents", std::move(list)}}.dump();
}

}  // namespace stretto::comm
