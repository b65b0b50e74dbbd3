// Handles what the links report, and ends operations.
#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/comm/engine/engine_impl.h"

namespace stretto::comm {
namespace {

std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return text;
}

}  // namespace

// Repeats until there are no events, because one event may cause the next. What they all sent is
// written together at the end.
void EngineImpl::process_events(bool flush) {
  if (now_s() >= next_check_s_) check_time();
  while (true) {
    if (const OpenOperation* open = units_->take_stopped()) stop_for_non_finite(*open);
    const Events events = std::exchange(links_->events(), {});
    if (events.empty()) {
      if (flush) links_->flush();
      if (!links_->events().empty()) continue;
      check_departed();  // after everything that they sent has been handled
      break;
    }
    for (const Events::Control& control : events.controls) on_control(control);
    if (verdict_) continue;
    for (const Events::Arrival& arrival : events.arrivals) on_arrival(arrival);
    for (const Ticket& ticket : events.done) units_->on_done(ticket);
    for (const Units::Mismatch& mismatch : units_->take_mismatches())
      on_mismatch(mismatch.rank, mismatch.key);
    std::vector<OpenOperation*> finished = units_->take_finished();
    for (auto& [id, state] : groups_) {
      if (!state->waiting.empty()) units_->advance(*state);
    }
    for (OpenOperation* open : finished) finish(open);
    for (const Events::Loss& loss : events.losses) on_loss(loss);
  }
  // Operations that needed no message, or ended while the last events were handled.
  for (OpenOperation* open : units_->take_finished()) finish(open);
  for (const Units::Mismatch& mismatch : units_->take_mismatches())
    on_mismatch(mismatch.rank, mismatch.key);
  settle();
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
  const auto found = groups_.find(arrival.key.group);
  if (found == groups_.end()) {
    early_arrivals_[arrival.key.group].push_back(arrival);
    return;
  }
  GroupState& state = *found->second;
  if (arrival.mismatch) {
    on_mismatch(arrival.rank, arrival.key);
    return;
  }
  if (arrival.key.unit == kPointToPoint) {
    claim(state, arrival.rank, arrival.key);
    return;
  }
  if (arrival.key.unit & kJoined) {
    check_joined(arrival, state);
    return;
  }
  if (arrival.key.sequence >= state.next_sequence) {
    state.early.try_emplace(arrival.key.sequence, arrival.rank, arrival.fingerprint);
    return;
  }
  const auto past = std::find_if(state.past.begin(), state.past.end(), [&](const auto& entry) {
    return entry.sequence == arrival.key.sequence;
  });
  if (past != state.past.end() && past->fingerprint != arrival.fingerprint)
    on_mismatch(arrival.rank, arrival.key);
}

// Gives a message to the first kRecv from any rank with its tag, or leaves it for a later kRecv.
void EngineImpl::claim(GroupState& state, int rank, const MessageKey& key) {
  const auto place = std::find(state.ranks.begin(), state.ranks.end(), rank);
  if (place == state.ranks.end()) return;
  const std::pair<int, uint32_t> from{static_cast<int>(place - state.ranks.begin()), key.tag};
  uint64_t& begun = state.begun[from];
  begun = std::max(begun, key.sequence + 1);
  uint64_t& received = state.receives[from];
  while (begun > received) {
    const auto taker =
        std::find_if(state.any_receives.begin(), state.any_receives.end(),
                     [&](const OpenOperation* open) { return open->operation.tag == key.tag; });
    if (taker == state.any_receives.end()) break;
    OpenOperation* open = *taker;
    state.any_receives.erase(taker);
    open->operation.peer = from.first;
    open->sequence = received++;
    units_->start_point_to_point(open, from.first);
  }
}

void EngineImpl::on_control(const Events::Control& control) {
  if (control.frame.type == FrameType::kAbort) {
    on_abort(control.rank, parse_abort(control.frame, control.text));
  } else if (control.frame.type == FrameType::kMismatch) {
    const MessageKey& key = control.frame.key;
    std::string mine = "another operation";
    std::string where = "a group that is unknown here";
    if (const auto found = groups_.find(key.group); found != groups_.end()) {
      where = fmt::format("group '{}'", found->second->name);
      for (const auto& entry : found->second->past) {
        if (entry.sequence == key.sequence) mine = describe(entry.operation);
      }
    }
    fail(-1, "",
         fmt::format(
             "ranks submitted different operations as number {} of {}: rank {}: {}; rank {}: "
             "{}",
             key.sequence, where, control.rank, control.text, membership_.rank, mine));
  }
}

// Sends this rank's operation to the remote rank, which ends the job with both descriptions.
void EngineImpl::on_mismatch(int rank, const MessageKey& key) {
  if (verdict_) return;
  if (key.unit == kPointToPoint) {
    fail(-1, "",
         fmt::format("rank {} sent rank {} a message with tag {} that is not as long as expected",
                     rank, membership_.rank, key.tag));
    return;
  }
  std::string mine = "another operation";
  for (const auto& entry : groups_.at(key.group)->past) {
    if (entry.sequence == key.sequence) mine = describe(entry.operation);
  }
  links_->link_to(rank).send_control(FrameType::kMismatch, key, membership_.rank, mine);
}

void EngineImpl::check_time() {
  next_check_s_ = now_s() + 0.5;
  if (verdict_ || options_.operation_timeout_s <= 0) return;
  for (const auto& [handle, open] : operations_) {
    if (open->done || now_s() - open->submitted_s < options_.operation_timeout_s) continue;
    const std::vector<int> awaited = units_->awaited(open.get());
    fail(awaited.empty() ? -1 : awaited.front(), "",
         fmt::format(
             "{} is not done after {:g} s (STRETTO_OPERATION_TIMEOUT); rank {} waits for rank{} {}",
             describe(open->operation), options_.operation_timeout_s, membership_.rank,
             awaited.size() == 1 ? "" : "s", list(awaited)));
    return;
  }
}

// A rank that has left is an error only if an operation still waits for it.
void EngineImpl::check_departed() {
  for (const auto& link : links_->all()) {
    if (verdict_ || !link || !link->departed || link->alive() || !link->owes()) continue;
    fail(link->rank(), "",
         fmt::format("rank {} has left the job while rank {} waits for it", link->rank(),
                     membership_.rank));
  }
}

void EngineImpl::finish(OpenOperation* open) {
  if (verdict_ && !open->members.empty()) return;  // its members end one by one
  if (GroupState& state = *groups_.at(open->group); state.small_under_way == open && !verdict_) {
    finish_small(state, open);
    return;
  }
  open->done = true;
  --unfinished_;
  if (!groups_.at(open->group)->internal && !open->operation.unseen) ++done_operations_;
  if (!open->error) unpack(open);
  if (open->non_finite > 0)
    non_finite_.push_back({.rank = membership_.rank,
                           .name = open->operation.name,
                           .group = open->group,
                           .sequence = open->sequence,
                           .first_offset = open->first_non_finite,
                           .count = open->non_finite});
  trace_.operation(*open, now_s());
  note_done(*open);
  if (open->delivery == Delivery::kQueue) {
    completed_.push_back(open);
    completion_wake_.notify_one();
  } else if (waiters_ > 0) {
    waiter_wake_.notify_all();
  }
  if (open->notify) open->notify();
}

}  // namespace stretto::comm
