// Chooses how an operation runs: its problem, units, algorithm and schedule.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "stretto/comm/codec/codec.h"
#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/collective/builder.h"
#include "stretto/comm/engine/operation.h"
#include "stretto/comm/options.h"
#include "stretto/comm/tuning/link_observer.h"

namespace stretto::comm {

struct GroupState;
struct OpenOperation;
struct Settings;

// A unit's schedule with the dependencies between its steps.
//
// With `searches`, every part of the input is searched for NaN and infinity by the first step that
// reads it, when it has just been read: a sum before it adds a block, a send what it has written.
// What is received into a searched part waits for the search, because the output may be the input.
struct UnitPlan {
  explicit UnitPlan(Schedule schedule, bool searches = false);
  const Schedule schedule;
  // By step. Empty: no step searches, because it was not asked for, or because steps read parts
  // that overlap.
  std::vector<Part> searched;
  std::vector<std::vector<int32_t>> searched_before;  // the receives that wait for each search
  std::vector<int32_t> waits, ready;  // how many steps each step waits for; steps with none
  std::vector<int32_t> first_follower, followers;  // the steps that wait for each step
};

// What is computed once for all equal operations of a group.
struct OperationPlan {
  Problem problem;
  const Algorithm* algorithm = nullptr;
  std::shared_ptr<const UnitPlan> whole;  // set for operations of one unit
  int streams = 0;                        // as OpenOperation::streams
  Traffic traffic;                        // of the whole operation
};

// Kept because training repeats the same operations, and choosing an algorithm and making its
// schedule takes longer than a small operation.
using PlanKey = std::tuple<Kind, DType, ReduceOp, int, int64_t, const Codec*, bool>;
using Plans = std::map<PlanKey, std::shared_ptr<const OperationPlan>>;

// The plan of an operation with these settings (null: the group is not tuned), from `group.plans`
// or new. `searches` as in UnitPlan. Throws Unsupported when a forced algorithm does not fit.
std::shared_ptr<const OperationPlan> plan_of(GroupState& group, const Operation& operation,
                                             const Codec* codec, const Settings* settings,
                                             bool searches, const Options& options);

// Makes `open` run as planned. It keeps the plan.
void use_plan(OpenOperation& open, std::shared_ptr<const OperationPlan> plan);

// The operation as schedules see it. unit_bytes as in set_unit (collective/unit_size.h).
Problem make_problem(const Operation& operation, const GroupState& group, const Codec* codec,
                     int64_t chunk_bytes, const LinkModel& link, int64_t unit_bytes = 0);

// Equal on all ranks that submit matching operations, and not 0.
uint64_t fingerprint(const Operation& operation);
// The same with the pieces and the settings of an operation.
uint64_t fingerprint(const OpenOperation& open);

}  // namespace stretto::comm
