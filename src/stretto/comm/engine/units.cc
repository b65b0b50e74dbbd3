#include "stretto/comm/engine/units.h"

#include <algorithm>
#include <set>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/collective/builder.h"
#include "stretto/comm/collective/local_step.h"
#include "stretto/comm/collective/unit_window.h"
#include "stretto/comm/reduce/scan.h"

namespace stretto::comm {
namespace {

// Local steps that read less are run at once: that takes less time than to hand them to a thread.
constexpr int64_t kInlineBytes = 64 << 10;

constexpr int64_t kSearchedBytes = 16 << 10;  // of a block that is searched, then added

constexpr int32_t kAskedFor = -1;  // Unit::waits_left of a receive that the link knows of

Part part_of(const OpenOperation& open, int64_t unit) { return unit_of_tensor(open.problem, unit); }

// What the part holds of NaN and infinity; `first` counts from the beginning of the tensor.
NonFinite scan(const OpenOperation& open, Part part, Isa isa) {
  const auto element = static_cast<int64_t>(dtype_bytes(open.operation.dtype));
  const auto* input = static_cast<const std::byte*>(open.operation.input);
  NonFinite found =
      scan_non_finite(isa, open.operation.dtype, input + part.begin * element, part.count());
  if (found.count > 0) found.first += part.begin;
  return found;
}

NonFinite both(const NonFinite& a, const NonFinite& b) {
  if (a.count == 0 || b.count == 0) return a.count == 0 ? b : a;
  return {.count = a.count + b.count, .first = std::min(a.first, b.first)};
}

void add(OpenOperation* open, const NonFinite& found) {
  const NonFinite all = both({.count = open->non_finite, .first = open->first_non_finite}, found);
  open->non_finite = all.count;
  open->first_non_finite = all.first;
}

// Releases the lock while it lives, and counts itself.
class Without {
 public:
  Without(std::unique_lock<std::mutex>& lock, int* count) : lock_(lock), count_(*count) {
    ++count_;
    lock_.unlock();
  }
  ~Without() {
    lock_.lock();
    --count_;
  }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
  int& count_;
};

}  // namespace

void Units::advance(GroupState& group) {
  while (!group.waiting.empty()) {
    OpenOperation* open = group.waiting.front();
    if (!unit_may_start(group.active_bytes, open->unit_bytes)) return;
    if (open->units == 0) {
      group.waiting.pop_front();
      finished_.push_back(open);
      continue;
    }
    group.active_bytes += window_share(open->unit_bytes);
    const bool last = open->started_units + 1 == open->units;
    if (last) group.waiting.pop_front();
    start(open);
  }
}

void Units::advance_freed() {
  for (const Group id : std::exchange(freed_, {})) {
    if (GroupState* group = groups_.find(id)) advance(*group);
  }
}

void Units::start(OpenOperation* open) {
  const int64_t index = open->started_units++;
  if (index == 0) open->started_s = now_s();
  auto unit = std::make_shared<Unit>(
      open, index,
      open->whole ? open->whole
                  : std::make_shared<UnitPlan>(open->algorithm->schedule(open->problem, index),
                                               open->searches));
  unit->ahead = open->ahead;
  // With a residual the schedule works in place, on the input plus the residual.
  if (open->operation.residual) open->input = open->output;
  const bool prepares = (open->scans && !unit->searches()) || open->operation.residual;
  launch(std::move(unit), prepares);
}

void Units::start_point_to_point(OpenOperation* open, int peer) {
  const bool sends = open->operation.kind == Kind::kSend;
  Schedule schedule;
  schedule.steps.push_back({.action = sends ? Action::kSend : Action::kReceive,
                            .peer = peer,
                            .tag = static_cast<int32_t>(open->operation.tag),
                            .count = open->operation.count,
                            .place = {sends ? Buffer::kInput : Buffer::kOutput, 0}});
  open->units = open->started_units = 1;
  open->started_s = now_s();
  launch(std::make_shared<Unit>(open, 0, std::make_shared<UnitPlan>(std::move(schedule))), false);
}

// Expects everything that will arrive, and runs the steps that are ready.
void Units::launch(std::shared_ptr<Unit> owned, bool prepares) {
  Unit& unit = *owned;
  units_.emplace(&unit, owned);
  if (trace_.on()) unit.started_s = now_s();
  const Schedule& schedule = unit.schedule;
  unit.steps_left = static_cast<int32_t>(schedule.steps.size());
  unit.waits_left = unit.plan->waits;
  unit.step_done.resize(schedule.steps.size());
  const size_t element = std::max<size_t>(dtype_bytes(unit.open->operation.dtype), 1);
  if (schedule.scratch_elements > 0)
    unit.scratch = memory_.take(static_cast<size_t>(schedule.scratch_elements) * element);
  for (int64_t elements : schedule.coded_slots) {
    unit.coded.push_back(
        memory_.take(static_cast<size_t>(unit.open->codec->encoded_bytes(elements))));
    unit.slots.push_back(unit.coded.back().get());
  }
  if (!prepares) {
    run(unit, unit.plan->ready);
    return;
  }
  for (size_t i = 0; i < schedule.steps.size(); ++i)
    unit.waits_left[i] += schedule.steps[i].action != Action::kReceive;
  if (part_of(*unit.open, unit.index).count() * static_cast<int64_t>(element) <= kInlineBytes) {
    prepared(unit, prepare(unit));
    return;
  }
  // Nobody sends a result before this rank has contributed, so the output is free meanwhile. Sums
  // wait, because what they add may have arrived already.
  std::vector<int32_t> receives;
  for (const int32_t step : unit.plan->ready)
    if (schedule.steps[step].action == Action::kReceive) receives.push_back(step);
  local_.push_back({std::move(owned), kPrepare});
  run(unit, std::move(receives));
}

NonFinite Units::prepare(const Unit& unit) const {
  const OpenOperation& open = *unit.open;
  const Operation& op = open.operation;
  const Part part = part_of(open, unit.index);
  NonFinite found;
  if (open.scans) found = scan(open, part, isa_);
  if (op.residual && (found.count == 0 || !stop_at_non_finite_))
    add_residual(static_cast<const float*>(op.input) + part.begin, op.residual + part.begin,
                 part.count(), static_cast<float*>(op.output) + part.begin);
  return found;
}

void Units::prepared(Unit& unit, const NonFinite& found) {
  OpenOperation* open = unit.open;
  add(open, found);
  if (stop_at_non_finite_ && found.count > 0 && !stopped_) {
    // The report counts all of them.
    for (int64_t i = open->started_units; i < open->units; ++i)
      add(open, scan(*open, part_of(*open, i), isa_));
    for (const Local& local : local_) {
      if (local.step == kPrepare && local.unit->open == open)
        add(open, scan(*open, part_of(*open, local.unit->index), isa_));
    }
    stopped_ = open;
    return;
  }
  std::vector<int32_t> ready;
  for (size_t i = 0; i < unit.schedule.steps.size(); ++i) {
    int32_t& left = unit.waits_left[i];
    const bool receives = unit.schedule.steps[i].action == Action::kReceive;
    if (receives ? left == 0 : --left == 0) ready.push_back(static_cast<int32_t>(i));
  }
  run(unit, std::move(ready));
}

// Runs the steps of `ready` and those that become ready by them. The unit may be destroyed by it.
void Units::run(Unit& unit, std::vector<int32_t> ready) {
  for (size_t i = 0; i < ready.size(); ++i) {
    const int32_t step = ready[i];
    if (execute(unit, step, &ready)) done(unit, step, &ready);
  }
  if (unit.steps_left == 0) finish(unit);
}

void Units::done(Unit& unit, int32_t step, std::vector<int32_t>* ready) {
  unit.step_done[step] = true;
  --unit.steps_left;
  const UnitPlan& plan = *unit.plan;
  for (int32_t f = plan.first_follower[step]; f < plan.first_follower[step + 1]; ++f) {
    if (--unit.waits_left[plan.followers[f]] == 0) ready->push_back(plan.followers[f]);
  }
}

// What has just been written is in the cache, so searching it takes less time than writing took.
void Units::on_written(const Events::Written& written) {
  const auto found = units_.find(static_cast<Unit*>(written.ticket.owner));
  if (found == units_.end()) return;
  Unit& unit = *found->second;
  const int32_t step = written.ticket.step;
  // An element that lies in two chunks belongs to that in which it ends.
  const size_t element = dtype_bytes(unit.open->operation.dtype);
  const int64_t from = unit.plan->searched[step].begin;
  std::vector<int32_t> ready;
  search(unit, step,
         {from + static_cast<int64_t>(written.offset / element),
          from + static_cast<int64_t>((written.offset + written.length) / element)},
         &ready);
  run(unit, std::move(ready));
}

void Units::on_done(const Ticket& ticket) {
  const auto found = units_.find(static_cast<Unit*>(ticket.owner));
  if (found == units_.end()) return;
  Unit& unit = *found->second;
  unit.ahead = std::min(unit.ahead, ticket.ahead);
  std::vector<int32_t> ready;
  // A message that was copied is done before it is written.
  if (unit.searches()) search(unit, ticket.step, unit.plan->searched[ticket.step], &ready);
  done(unit, ticket.step, &ready);
  run(unit, std::move(ready));
}

// Does nothing when the step's part has been searched already.
void Units::search(Unit& unit, int32_t step, Part part, std::vector<int32_t>* ready) {
  if (unit.unsearched[step] > 0)
    note_searched(unit, step, part.count(), scan(*unit.open, part, isa_), ready);
}

void Units::note_searched(Unit& unit, int32_t step, int64_t count, const NonFinite& found,
                          std::vector<int32_t>* ready) {
  if (count == 0) return;
  add(unit.open, found);
  unit.unsearched[step] -= count;
  if (unit.unsearched[step] > 0) return;
  // Results may overwrite it now.
  for (const int32_t receive : unit.plan->searched_before[step])
    if (--unit.waits_left[receive] == 0) ready->push_back(receive);
}

void Units::run_local(std::unique_lock<std::mutex>& lock) {
  if (local_.empty()) return;
  const Local local = std::move(local_.front());
  local_.pop_front();
  Unit& unit = *local.unit;
  const double start = now_s();
  NonFinite found;
  {
    const Without without(lock, &running_);
    if (local.step == kPrepare) {
      found = prepare(unit);
    } else {
      found = run_step(unit, local.step);
    }
  }
  if (!units_.contains(&unit)) return;  // the job has failed meanwhile
  if (local.step == kPrepare) {
    prepared(unit, found);
    return;
  }
  note_time(unit, unit.schedule.steps[local.step], start);
  std::vector<int32_t> ready;
  if (unit.searches())
    note_searched(unit, local.step, unit.plan->searched[local.step].count(), found, &ready);
  done(unit, local.step, &ready);
  run(unit, std::move(ready));
}

void Units::finish(Unit& unit) {
  OpenOperation* open = unit.open;
  if (trace_.on()) trace_.unit(*open, unit.index, unit.started_s, now_s());
  if (open->algorithm) {
    GroupState& group = groups_.at(open->group);
    group.active_bytes -= window_share(open->unit_bytes);
    if (!group.waiting.empty()) freed_.push_back(open->group);
  }
  open->ahead = std::min(open->ahead, unit.ahead);
  units_.erase(&unit);
  if (++open->done_units == open->units) finished_.push_back(open);
}

std::byte* Units::at(Unit& unit, const Place& place) {
  OpenOperation& open = *unit.open;
  const auto offset = static_cast<size_t>(place.offset) * dtype_bytes(open.operation.dtype);
  switch (place.buffer) {
    case Buffer::kInput:
      return const_cast<std::byte*>(open.input) + offset;
    case Buffer::kOutput:
      return open.output + offset;
    case Buffer::kScratch:
      return unit.scratch.get() + offset;
    case Buffer::kCoded:
      return unit.slots[static_cast<size_t>(place.offset)];
  }
  return nullptr;
}

MessageKey Units::key(const Unit& unit, const Step& step) const {
  return {.group = unit.open->group,
          .sequence = unit.open->sequence,
          .unit = unit.open->algorithm ? static_cast<uint32_t>(unit.index) |
                                             (unit.open->members.empty() ? 0 : kJoined)
                                       : kPointToPoint,
          .tag = static_cast<uint32_t>(step.tag)};
}

int64_t Units::bytes(const Unit& unit, const Step& step) const {
  if (step.place.buffer == Buffer::kCoded) return unit.open->codec->encoded_bytes(step.count);
  return step.count * static_cast<int64_t>(dtype_bytes(unit.open->operation.dtype));
}

bool Units::execute(Unit& unit, int32_t index, std::vector<int32_t>* ready) {
  const Step& step = unit.schedule.steps[index];
  OpenOperation& open = *unit.open;
  switch (step.action) {
    case Action::kSend: {
      const int rank = groups_.at(open.group).ranks[step.peer];
      const auto size = static_cast<uint64_t>(bytes(unit, step));
      if (open.streams > 1) links_.open_streams(rank, open.streams);
      links_.link_to(rank).send(
          {.key = key(unit, step),
           .fingerprint = open.fingerprint,
           .data = size > 0 ? at(unit, step.place) : nullptr,
           .bytes = size,
           .ticket = {&unit, index},
           .ahead = unit.ahead,
           .rendezvous = open.operation.rendezvous,
           .streams = open.streams,
           .tells_written = unit.searches() && !unit.plan->searched[index].empty(),
           .following_bytes = size * static_cast<uint64_t>(open.units - open.started_units)});
      return false;
    }
    case Action::kReceive: {
      unit.waits_left[index] = kAskedFor;
      const int rank = groups_.at(open.group).ranks[step.peer];
      const auto size = static_cast<uint64_t>(bytes(unit, step));
      const MessageKey message = key(unit, step);
      int32_t ahead = 0;
      Link& link = links_.link_to(rank);
      const Expect outcome = link.expect(message, size > 0 ? at(unit, step.place) : nullptr, size,
                                         open.fingerprint, {&unit, index}, &ahead);
      if (outcome == Expect::kComplete) unit.ahead = std::min(unit.ahead, ahead);
      if (outcome == Expect::kMismatch)
        mismatches_.push_back({rank, message, {link.announced_bytes(message), size}});
      return outcome == Expect::kComplete;
    }
    default:
      break;
  }
  const int64_t reads = bytes(unit, step) * std::max(step.source_count, 1);
  if (reads > kInlineBytes) {
    local_.push_back({units_.at(&unit), index});
    return false;
  }
  const double start = now_s();
  const NonFinite found = run_step(unit, index);
  if (unit.searches()) note_searched(unit, index, unit.plan->searched[index].count(), found, ready);
  note_time(unit, step, start);
  return true;
}

// Returns what it found of NaN and infinity where it searches.
NonFinite Units::run_step(const Unit& unit, int32_t index) const {
  const OpenOperation& open = *unit.open;
  Step step = unit.schedule.steps[index];
  LocalBuffers buffers{.input = open.input,
                       .output = open.output,
                       .scratch = unit.scratch.get(),
                       .slots = unit.slots,
                       .residual = open.operation.residual};
  const LocalContext context{.isa = isa_,
                             .reduction = {.dtype = open.operation.dtype,
                                           .op = open.operation.reduction,
                                           .ranks = open.problem.ranks()},
                             .codec = open.codec};
  const Part searched = unit.searches() ? unit.plan->searched[index] : Part{};
  if (searched.empty()) {
    run_local_step(unit.schedule, step, buffers, context);
    return {};
  }
  NonFinite found;
  const auto element = static_cast<int64_t>(dtype_bytes(open.operation.dtype));
  const int64_t block = kSearchedBytes / element;
  for (int64_t begin = 0; begin < searched.count(); begin += block) {
    step.count = std::min(block, searched.count() - begin);
    const Part part{searched.begin + begin, searched.begin + begin + step.count};
    found = both(found, scan(open, part, isa_));
    run_local_step(unit.schedule, step, buffers, context);
    buffers.input += step.count * element;
    buffers.output += step.count * element;
    if (buffers.scratch) buffers.scratch += step.count * element;
  }
  return found;
}

void Units::note_time(const Unit& unit, const Step& step, double start) {
  if (step.action == Action::kCopy) return;
  const double end = now_s();
  if (step.action != Action::kReduce) {
    unit.open->coding_s += end - start;
    return;
  }
  sum_s_ += end - start;
  if (trace_.on()) trace_.sum(*unit.open, unit.index, start, end);
}

std::vector<int> Units::awaited(const OpenOperation* open) const {
  std::set<int> ranks;
  for (const auto& [key, unit] : units_) {
    if (unit->open != open && unit->open != open->carrier) continue;
    const GroupState& group = groups_.at(open->group);
    for (size_t i = 0; i < unit->schedule.steps.size(); ++i) {
      const Step& step = unit->schedule.steps[i];
      if (step.action == Action::kReceive && !unit->step_done[i])
        ranks.insert(group.ranks[step.peer]);
    }
  }
  return {ranks.begin(), ranks.end()};
}

void Units::forget_all() {
  units_.clear();
  local_.clear();
  freed_.clear();
  finished_.clear();
  mismatches_.clear();
  stopped_ = nullptr;
}

}  // namespace stretto::comm
