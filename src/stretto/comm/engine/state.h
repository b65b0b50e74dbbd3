// What an engine keeps for each group and for each operation under way.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/engine/engine.h"
#include "stretto/comm/engine/tuning.h"
#include "stretto/comm/link/buffer_pool.h"
#include "stretto/comm/link/frame.h"

namespace stretto::comm {

// A unit's schedule with the dependencies between its steps.
struct UnitPlan {
  explicit UnitPlan(Schedule schedule);
  const Schedule schedule;
  std::vector<int32_t> waits, ready;  // how many steps each step waits for; steps with none
  std::vector<int32_t> first_follower, followers;  // the steps that wait for each step
};

// What is computed once for all equal operations of a group.
struct OperationPlan {
  Problem problem;
  const Algorithm* algorithm = nullptr;
  std::shared_ptr<const UnitPlan> whole;  // set for operations of one unit
};

// An operation from submission to its end.
struct OpenOperation {
  Handle handle = 0;
  Group group = 0;
  Delivery delivery = Delivery::kWait;
  Operation operation;
  uint64_t sequence = 0;  // in its group; of the message for send and recv
  uint64_t fingerprint = 0;
  Problem problem;
  const Algorithm* algorithm = nullptr;   // null for send and recv
  std::shared_ptr<const UnitPlan> whole;  // when there is one unit
  const Codec* codec = nullptr;           // null: none
  // The caller's buffers, or packed copies of them where parts are not contiguous.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<std::byte> packed_input, packed_output;

  int64_t units = 0, started_units = 0, done_units = 0, unit_bytes = 0;
  bool scans = false;  // every unit is searched for NaN and infinity before it begins
  int64_t non_finite = 0, first_non_finite = -1;
  double submitted_s = 0, started_s = 0;
  int64_t step = -1;  // of the group, for its account
  bool done = false;
  std::exception_ptr error;

  // Small operations: how many operations after it every rank has submitted (fusion.cc).
  int32_t ahead = 0;
  // Fused operations: `carrier` carries the data of its `members`, one after another in
  // `packed_output`.
  std::vector<OpenOperation*> members;
  OpenOperation* carrier = nullptr;
  std::function<void()> notify;
};

inline int64_t bytes_of(const OpenOperation& open) {
  return open.operation.count * static_cast<int64_t>(dtype_bytes(open.operation.dtype));
}

// One unit of an operation under way.
struct Unit {
  Unit(OpenOperation* operation, int64_t number, std::shared_ptr<const UnitPlan> how)
      : open(operation), index(number), plan(std::move(how)), schedule(plan->schedule) {}
  OpenOperation* const open;
  const int64_t index;
  const std::shared_ptr<const UnitPlan> plan;
  const Schedule& schedule;         // of the plan
  std::vector<int32_t> waits_left;  // per step
  std::vector<bool> step_done;
  BufferPool::Buffer scratch;
  std::vector<BufferPool::Buffer> coded;  // per slot
  int32_t steps_left = 0;
  double started_s = 0;  // when traced
  int32_t ahead = 0;
};

struct GroupState {
  std::string name;
  std::vector<int> ranks;  // of the job, in the group's order
  int rank = 0;            // this one's place in it
  std::vector<int> hosts;  // label per rank of the group
  bool internal = false;   // the engine's own, not in statistics
  uint64_t next_sequence = 0;
  std::deque<OpenOperation*> waiting;  // units not all started; in order
  int64_t active_bytes = 0;            // of units under way

  // Small all-reduces (fusion.cc): those that wait, in order; the one under way; and how
  // many operations every rank is known to have submitted.
  std::deque<OpenOperation*> small;
  OpenOperation* small_under_way = nullptr;
  std::unique_ptr<OpenOperation> carrier;  // small_under_way, when it is several
  uint64_t submitted_everywhere = 0;
  // Fused operations by their first sequence number: fingerprints that other ranks have sent before
  // this rank started them, and those started here last.
  std::map<uint64_t, std::pair<int, uint64_t>> early_joined;
  std::map<uint64_t, uint64_t> joined;

  using PlanKey = std::tuple<Kind, DType, ReduceOp, int, int64_t, const Codec*>;
  std::map<PlanKey, std::shared_ptr<const OperationPlan>> plans;

  std::unique_ptr<GroupTuning> tuning;  // null: off

  // The last operations, to compare with what other ranks send.
  struct Past {
    uint64_t sequence, fingerprint;
    Operation operation;  // without buffers and parts
  };
  std::deque<Past> past;
  // Operations that another rank has started before this one: that rank and its fingerprint.
  std::map<uint64_t, std::pair<int, uint64_t>> early;

  // Send and recv: next message number by (rank of the group, tag).
  std::map<std::pair<int, uint32_t>, uint64_t> sends, receives;
  std::map<std::pair<int, uint32_t>, uint64_t> begun;  // messages that have begun to arrive
  std::deque<OpenOperation*> any_receives;             // recv from any rank, not matched yet
};

// Below this size latency decides, not bandwidth.
inline constexpr int64_t kSmallBytes = 64 << 10;

// A wait of the caller's thread asks so often whether it is interrupted.
inline constexpr double kInterruptible_s = 0.1;

// Equal on all ranks that submit matching operations; 0 for operations that are not compared.
uint64_t fingerprint(const Operation& operation);

// The number of a group, which all members compute without communication.
Group group_number(std::string_view name, const std::vector<int>& ranks);

// The operation as schedules see it.
Problem make_problem(const Operation& operation, const GroupState& group, const Codec* codec,
                     int64_t unit_bytes);
int64_t default_unit_bytes(const GroupState& group, int64_t chunk_bytes, int64_t operation_bytes);

// Points input and output of `open` to the caller's buffers, or to packed copies; unpack() brings
// the packed output back.
void pack(OpenOperation* open, int rank, int size);
void unpack(OpenOperation* open);

}  // namespace stretto::comm
