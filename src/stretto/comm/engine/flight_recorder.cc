#include "stretto/comm/engine/flight_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "stretto/base/clock.h"

namespace stretto::comm {
namespace {

double unix_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// A collective gets its number when it begins, which may be later than its submission.
constexpr uint64_t kNoNumber = std::numeric_limits<uint64_t>::max();
uint64_t number_of(const OpenOperation& open) {
  return open.algorithm || is_message(open.operation.kind) ? open.sequence : kNoNumber;
}

}  // namespace

void FlightRecorder::submitted(const OpenOperation& open) {
  ++submitted_;
  Record& record = slot(open.handle);
  record.handle = open.handle;
  record.group = open.group;
  record.sequence = 0;
  record.bytes = bytes_of(open);
  record.submitted_s = open.submitted_s;
  record.started_s = record.done_s = 0;
  record.peer = open.operation.peer;
  record.tag = open.operation.tag;
  record.kind = open.operation.kind;
  record.dtype = open.operation.dtype;
  record.state = State::kOpen;
  const std::string& name = open.operation.name;
  const size_t length = std::min(name.size(), kNameBytes - 1);
  std::memcpy(record.name.data(), name.data(), length);
  record.name[length] = '\0';
}

void FlightRecorder::finished(const OpenOperation& open, double now) {
  ++finished_;
  failed_ += open.error != nullptr;
  Record& record = slot(open.handle);
  if (record.handle != open.handle) return;  // a thousand others were submitted meanwhile
  record.sequence = number_of(open);
  record.peer = open.operation.peer;
  record.started_s = open.started_s;
  record.done_s = now;
  record.state = open.error ? State::kFailed : State::kDone;
}

std::string FlightRecorder::json(const Context& context) const {
  const double now = now_s(), offset = unix_s() - now;
  nlohmann::json groups = nlohmann::json::array(), peers = nlohmann::json::array();
  std::map<comm::Group, size_t> place;
  for (const Group& group : context.groups) {
    place[group.id] = groups.size();
    groups.push_back(
        {{"name", group.name}, {"ranks", group.ranks}, {"next_sequence", group.next_sequence}});
  }
  for (const Peer& peer : context.peers)
    peers.push_back({{"rank", peer.rank},
                     {"connected", peer.alive},
                     {"departed", peer.departed},
                     {"silent_s", peer.silent_s}});
  std::map<Handle, const Pending*> pending;
  for (const Pending& p : context.pending) pending[p.open->handle] = &p;

  std::vector<const Record*> ordered;
  for (const Record& record : records_) {
    if (record.state != State::kNone) ordered.push_back(&record);
  }
  std::sort(ordered.begin(), ordered.end(),
            [](const Record* a, const Record* b) { return a->handle < b->handle; });
  nlohmann::json operations = nlohmann::json::array();
  for (const Record* r : ordered) {
    const auto open = pending.find(r->handle);
    // The engine refused an operation that is open and unknown to it.
    if (r->state == State::kOpen && open == pending.end()) continue;
    const auto group = place.find(r->group);
    nlohmann::json row{{"kind", kind_name(r->kind)},
                       {"dtype", dtype_name(r->dtype)},
                       {"bytes", r->bytes},
                       {"name", r->name.data()},
                       {"group", group == place.end() ? -1 : static_cast<int>(group->second)},
                       {"submitted", r->submitted_s + offset}};
    const OpenOperation* o = open == pending.end() ? nullptr : open->second->open;
    const double started = !o ? r->started_s : o->carrier ? o->carrier->started_s : o->started_s;
    const uint64_t number = o ? number_of(*o) : r->sequence;
    row["sequence"] = number == kNoNumber ? nlohmann::json() : nlohmann::json(number);
    if (is_message(r->kind)) {
      row["peer"] = o ? o->operation.peer : r->peer;
      row["tag"] = r->tag;
    }
    row["started"] = started > 0 ? nlohmann::json(started + offset) : nlohmann::json();
    if (o) {
      row["state"] = started > 0 ? "under way" : "waiting";
      row["age_s"] = now - r->submitted_s;
      row["awaited"] = open->second->awaited;
    } else {
      row["state"] = r->state == State::kFailed ? "failed" : "done";
      row["done"] = r->done_s + offset;
    }
    operations.push_back(std::move(row));
  }
  const auto invalid = nlohmann::json::error_handler_t::replace;  // a name may end within a letter
  return nlohmann::json{{"format", "stretto flight record 1"},
                        {"rank", context.membership.rank},
                        {"size", context.membership.size},
                        {"epoch", context.membership.epoch},
                        {"host", context.host},
                        {"pid", getpid()},
                        {"time", now + offset},
                        {"reason", context.reason},
                        {"submitted", submitted_},
                        {"finished", finished_},
                        {"failed", failed_},
                        {"groups", std::move(groups)},
                        {"peers", std::move(peers)},
                        {"operations", std::move(operations)}}
             .dump(-1, ' ', false, invalid) +
         "\n";
}

}  // namespace stretto::comm
