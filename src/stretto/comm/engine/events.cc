// Handles what the links report, and ends operations.
#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/comm/engine/inside.h"

namespace stretto::comm {

// Repeats until there are no events, because one event may cause the next. What they all sent is
// written together at the end.
void EngineImpl::process_events(Flush flush) {
  bool wrote = false;
  // True when there is more to do. Events may come without writing: small messages are copied.
  const auto write = [&] {
    const bool again = flush == Flush::kAll && !callers_.wait();
    if (flush == Flush::kNone) return !links_->events().empty();
    if (wrote && !again) {
      links_->defer();
      return !links_->events().empty();
    }
    links_->flush();
    wrote = true;
    return !links_->events().empty() || (again && links_->unwritten());
  };
  if (now_s() >= next_check_s_) check_time();
  while (true) {
    if (const OpenOperation* open = units_->take_stopped()) stop_for_non_finite(*open);
    const Events events = std::exchange(links_->events(), {});
    on_controls(events.controls);
    if (ending_->has_begun()) {
      if (!events.empty()) continue;
      write();
      settle();
      if (links_->events().empty()) return;
      continue;  // writing showed that a rank has left, and what it said before
    }
    for (const Events::Arrival& arrival : events.arrivals) on_arrival(arrival);
    for (const Events::Written& written : events.written) units_->on_written(written);
    for (const Ticket& ticket : events.done) units_->on_done(ticket);
    for (const Units::Mismatch& mismatch : units_->take_mismatches())
      on_mismatch(mismatch.rank, mismatch.key, mismatch.lengths);
    units_->advance_freed();
    const std::vector<OpenOperation*> finished = units_->take_finished();
    for (OpenOperation* open : finished) finish(open);
    for (const Events::Loss& loss : events.losses) on_loss(loss);
    if (!events.empty() || !finished.empty()) continue;
    if (write()) continue;
    check_departed();  // after everything that they sent has been handled
    if (!ending_->has_begun()) return;
  }
}

void EngineImpl::on_loss(const Events::Loss& loss) {
  if (links_->link_to(loss.rank).departed) return;
  if (loss.silent && membership_.size > 2 && !links_->hears_anyone()) {
    fail(membership_.rank, loss.link,
         fmt::format("rank {} is cut off: it receives nothing from any rank ({}: {})",
                     membership_.rank, loss.link, loss.reason));
    return;
  }
  fail(loss.rank, loss.link,
       fmt::format("rank {} is lost ({} of rank {}: {})", loss.rank, loss.link, membership_.rank,
                   loss.reason));
}

void EngineImpl::on_arrival(const Events::Arrival& arrival) {
  GroupState* found = groups_.find(arrival.key.group);
  if (!found) {
    if (groups_.was_erased(arrival.key.group)) {
      groups_.count_dropped(links_->link_to(arrival.rank).drop(arrival.key));
    } else if (!groups_.keep_early(arrival)) {
      fail(arrival.rank, "",
           fmt::format("rank {} sends messages of a group that rank {} has not made", arrival.rank,
                       membership_.rank));
    }
    return;
  }
  GroupState& state = *found;
  if (arrival.mismatch) {
    on_mismatch(arrival.rank, arrival.key, arrival.lengths);
  } else if (arrival.key.unit == kPointToPoint) {
    const auto place = std::find(state.ranks.begin(), state.ranks.end(), arrival.rank);
    if (place == state.ranks.end()) return;
    const PointToPoint::From from{static_cast<int>(place - state.ranks.begin()), arrival.key.tag};
    note_arrival(state.point_to_point, from, arrival.key.sequence);
    while (OpenOperation* open = match_any(state.point_to_point, from))
      units_->start_point_to_point(open, from.first);
  } else if (options_.order_check && contradicts(state.order, arrival, state.next_sequence)) {
    on_mismatch(arrival.rank, arrival.key);
  }
}

// Verdicts come first. A rank that sent one may have left since, and nobody waits for those that
// have left.
void EngineImpl::on_controls(const std::vector<Events::Control>& controls) {
  for (const Events::Control& control : controls) {
    if (control.frame.type != FrameType::kAbort) continue;
    const auto round = static_cast<int>(std::min<uint64_t>(control.frame.key.sequence, 64));
    const Verdict verdict = parse_abort(control.frame, control.text);
    if (!ending_->hear(control.rank, round, verdict)) continue;
    keep_flight(verdict.text);
    stop_all();
  }
  for (const Events::Control& control : controls) {
    if (control.frame.type != FrameType::kMismatch) continue;
    const MessageKey& key = control.frame.key;
    std::string mine = "another operation";
    std::string where = "a group that is unknown here";
    if (const GroupState* group = groups_.find(key.group)) {
      where = fmt::format("group '{}'", group->name);
      mine = describe_past(group->order, key.sequence);
    }
    fail(-1, "",
         fmt::format(
             "ranks submitted different operations as number {} of {}: rank {}: {}; rank {}: "
             "{}",
             key.sequence, where, control.rank, control.text, membership_.rank, mine));
  }
}

// Sends this rank's operation to the remote rank, which ends the job with both descriptions.
void EngineImpl::on_mismatch(int rank, const MessageKey& key, Lengths lengths) {
  if (ending_->has_begun()) return;
  if (key.unit == kPointToPoint) {
    fail(-1, "",
         fmt::format("rank {} sent rank {} {} bytes with tag {}, but rank {} receives {} bytes",
                     rank, membership_.rank, lengths.sent, key.tag, membership_.rank,
                     lengths.expected));
    return;
  }
  links_->link_to(rank).send_control(FrameType::kMismatch, key, membership_.rank,
                                     describe_past(groups_.at(key.group).order, key.sequence));
}

void EngineImpl::finish_small(GroupState& state, OpenOperation* open) {
  const std::unique_ptr<OpenOperation> carrier = std::move(state.fusion.carrier);
  note_over(state.fusion, *open);
  if (!carrier) {
    finish(open);
  } else {
    split(*carrier);
    for (OpenOperation* member : carrier->members) {
      operations_.count_fused(*member);
      finish(member);
    }
  }
  start_small(state);
}

void EngineImpl::finish(OpenOperation* open) {
  GroupState& state = groups_.at(open->group);
  if (state.fusion.under_way == open) {
    finish_small(state, open);
    return;
  }
  const OperationTable::Shared kept = operations_.find(open->handle);
  operations_.end(open, state.internal);
  --state.open;
  if (!open->error) unpack(open);
  if (!open->pieces.empty()) open->packed_output = {};  // the handle may never be released
  if (open->non_finite > 0) non_finite_.add(*open);
  const double now = now_s();
  trace_.operation(*open, now);
  if (!state.internal) flight_.finished(*open, now);
  if (state.tuning) note_done(*state.tuning, *open);
  if (state.internal) {
    operations_.release(open->handle);
    const Group channel = open->group, served = state.serves;
    if (groups_.release(channel)) {
      erase_group(channel);
    } else if (!open->error) {
      on_agreed(served);
    }
    return;
  }
  if (open->delivery == Delivery::kQueue) {
    completions_.add(kept);
  }
  wake(polling_.on_over());
  if (open->notify) open->notify();
}

}  // namespace stretto::comm
