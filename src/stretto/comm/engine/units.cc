#include "stretto/comm/engine/units.h"

#include <algorithm>
#include <set>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/collective/builder.h"
#include "stretto/comm/collective/local_step.h"

namespace stretto::comm {
namespace {

// Bytes of a group's units under way: enough to send and add at the same time, few enough to stay
// in the cache.
constexpr int64_t kWindowBytes = 8 << 20;
constexpr int64_t kSmallUnitBytes = 64 << 10;  // a smaller unit counts as this many bytes

// Searches from the first value of a unit to the last of `units`.
void scan(OpenOperation* open, int64_t unit, int64_t units, Isa isa) {
  const Part part{unit_of_tensor(open->problem, unit).begin,
                  unit_of_tensor(open->problem, unit + units - 1).end};
  const auto element = static_cast<int64_t>(dtype_bytes(open->operation.dtype));
  const auto* input = static_cast<const std::byte*>(open->operation.input);
  const NonFinite found =
      scan_non_finite(isa, open->operation.dtype, input + part.begin * element, part.count());
  if (found.count == 0) return;
  if (open->non_finite == 0) open->first_non_finite = part.begin + found.first;
  open->non_finite += found.count;
}

// After this the schedule works in place, on the input plus the residual.
void pay_residual(OpenOperation* open, int64_t unit) {
  const Operation& op = open->operation;
  const Part part = unit_of_tensor(open->problem, unit);
  add_residual(static_cast<const float*>(op.input) + part.begin, op.residual + part.begin,
               part.count(), static_cast<float*>(op.output) + part.begin);
  open->input = open->output;
}

}  // namespace

void Units::advance(GroupState& group) {
  while (!group.waiting.empty()) {
    OpenOperation* open = group.waiting.front();
    const int64_t bytes = std::max(open->unit_bytes, kSmallUnitBytes);
    if (group.active_bytes > 0 && group.active_bytes + bytes > kWindowBytes) return;
    if (open->units == 0) {
      group.waiting.pop_front();
      finished_.push_back(open);
      continue;
    }
    group.active_bytes += bytes;
    const bool last = open->started_units + 1 == open->units;
    if (last) group.waiting.pop_front();
    start(open);
  }
}

void Units::start(OpenOperation* open) {
  const int64_t index = open->started_units++;
  if (index == 0) open->started_s = now_s();
  if (open->scans) scan(open, index, 1, isa_);
  if (stop_at_non_finite_ && open->scans && open->non_finite > 0) {
    open->non_finite = 0;
    scan(open, index, open->units - index, isa_);  // to count all of them in the report
    stopped_ = open;
    return;
  }
  if (open->operation.residual) pay_residual(open, index);
  auto unit = std::make_unique<Unit>(
      open, index,
      open->whole ? open->whole
                  : std::make_shared<UnitPlan>(open->algorithm->schedule(open->problem, index)));
  unit->ahead = open->ahead;
  launch(std::move(unit));
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
  launch(std::make_unique<Unit>(open, 0, std::make_shared<UnitPlan>(std::move(schedule))));
}

// Expects everything that will arrive, and runs the steps that are ready.
void Units::launch(std::unique_ptr<Unit> owned) {
  Unit& unit = *owned;
  units_.emplace(&unit, std::move(owned));
  if (trace_.on()) unit.started_s = now_s();
  const Schedule& schedule = unit.schedule;
  unit.steps_left = static_cast<int32_t>(schedule.steps.size());
  unit.waits_left = unit.plan->waits;
  unit.step_done.resize(schedule.steps.size());
  const size_t element = std::max<size_t>(dtype_bytes(unit.open->operation.dtype), 1);
  if (schedule.scratch_elements > 0)
    unit.scratch = memory_.take(static_cast<size_t>(schedule.scratch_elements) * element);
  for (int64_t elements : schedule.coded_slots)
    unit.coded.push_back(
        memory_.take(static_cast<size_t>(unit.open->codec->encoded_bytes(elements))));
  run(unit, unit.plan->ready);
}

// Runs the steps of `ready` and those that become ready by them. The unit may be destroyed by it.
void Units::run(Unit& unit, std::vector<int32_t> ready) {
  for (size_t i = 0; i < ready.size(); ++i) {
    const int32_t step = ready[i];
    if (execute(unit, step)) done(unit, step, &ready);
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

void Units::on_done(const Ticket& ticket) {
  const auto found = units_.find(static_cast<Unit*>(ticket.owner));
  if (found == units_.end()) return;
  found->second->ahead = std::min(found->second->ahead, ticket.ahead);
  std::vector<int32_t> ready;
  done(*found->second, ticket.step, &ready);
  run(*found->second, std::move(ready));
}

void Units::finish(Unit& unit) {
  OpenOperation* open = unit.open;
  if (trace_.on()) trace_.unit(*open, unit.index, unit.started_s, now_s());
  if (open->algorithm)
    groups_->at(open->group)->active_bytes -= std::max(open->unit_bytes, kSmallUnitBytes);
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
      return unit.coded[static_cast<size_t>(place.offset)].get();
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

bool Units::execute(Unit& unit, int32_t index) {
  const Step& step = unit.schedule.steps[index];
  OpenOperation& open = *unit.open;
  switch (step.action) {
    case Action::kSend: {
      const int rank = groups_->at(open.group)->ranks[step.peer];
      const auto size = static_cast<uint64_t>(bytes(unit, step));
      links_.link_to(rank).send({.key = key(unit, step),
                                 .fingerprint = open.fingerprint,
                                 .data = size > 0 ? at(unit, step.place) : nullptr,
                                 .bytes = size,
                                 .ticket = {&unit, index},
                                 .ahead = unit.ahead});
      return false;
    }
    case Action::kReceive: {
      const int rank = groups_->at(open.group)->ranks[step.peer];
      const auto size = static_cast<uint64_t>(bytes(unit, step));
      const MessageKey message = key(unit, step);
      int32_t ahead = 0;
      const Expect outcome =
          links_.link_to(rank).expect(message, size > 0 ? at(unit, step.place) : nullptr, size,
                                      open.fingerprint, {&unit, index}, &ahead);
      if (outcome == Expect::kComplete) unit.ahead = std::min(unit.ahead, ahead);
      if (outcome == Expect::kMismatch) mismatches_.push_back({rank, message});
      return outcome == Expect::kComplete;
    }
    default:
      run_here(unit, step);
      return true;
  }
}

void Units::run_here(Unit& unit, const Step& step) {
  const double start = now_s();
  const OpenOperation& open = *unit.open;
  std::vector<std::byte*> slots;
  for (const auto& coded : unit.coded) slots.push_back(coded.get());
  run_local_step(unit.schedule, step,
                 {.input = open.input,
                  .output = open.output,
                  .scratch = unit.scratch.get(),
                  .slots = slots,
                  .residual = open.operation.residual},
                 {.isa = isa_,
                  .reduction = {.dtype = open.operation.dtype,
                                .op = open.operation.reduction,
                                .ranks = open.problem.ranks()},
                  .codec = open.codec});
  if (step.action != Action::kReduce) return;
  const double end = now_s();
  sum_s_ += end - start;
  if (trace_.on()) trace_.sum(open, unit.index, start, end);
}

std::vector<int> Units::awaited(const OpenOperation* open) const {
  std::set<int> ranks;
  for (const auto& [key, unit] : units_) {
    if (unit->open != open && unit->open != open->carrier) continue;
    const GroupState& group = *groups_->at(open->group);
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
  finished_.clear();
  mismatches_.clear();
  stopped_ = nullptr;
}

}  // namespace stretto::comm
