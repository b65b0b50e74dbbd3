// What an engine remembers of groups and of operations that are under way.
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

#include "stretto/comm/buffer_pool.h"
#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/engine.h"
#include "stretto/comm/engine_tuning.h"
#include "stretto/comm/link/frame.h"

namespace stretto::comm {

// A unit's schedule, and who waits for whom in it.
struct UnitPlan {
  explicit UnitPlan(Schedule schedule);
  const Schedule schedule;
  std::vector<int32_t> waits, ready;  // per step: for how many; those that wait for none
  std::vector<int32_t> first_follower, followers;  // steps that wait for a step
};

// What is worked out once for all operations of a group that are alike.
struct OperationPlan {
  Problem problem;
  const Algorithm* algorithm = nullptr;
  std::shared_ptr<const UnitPlan> whole;  // of operations of one unit
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
  // The caller's buffers, or packed copies of them where parts do not follow one another.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<std::byte> packed_input, packed_output;

  int64_t units = 0, started_units = 0, done_units = 0, unit_bytes = 0;
  bool scans = false;  // every unit looks for NaN and infinity before it begins
  int64_t non_finite = 0, first_non_finite = -1;
  double submitted_s = 0, started_s = 0;
  int64_t step = -1;  // of the group, for its account
  bool done = false;
  std::exception_ptr error;

  // Small operations: how many more every rank has submitted (see engine_fusion.cc).
  int32_t ahead = 0;
  // Of joined operations: those it carries, one after another in `packed_output`; and the way back.
  std::vector<OpenOperation*> members;
  OpenOperation* carrier = nullptr;
  std::function<void()> notify;
};

inline int64_t bytes_of(const OpenOperation& open) {
  return open.operation.count * static_cast<int64_t>(dtype_bytes(open.operation.dtype));
}

// One unit of an operation that is being carried out.
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
  bool internal = false;   // the engine's own: its operations are nobody else's affair
  uint64_t next_sequence = 0;
  std::deque<OpenOperation*> waiting;  // units not all started; in order
  int64_t active_bytes = 0;            // of units under way

  // Small all-reduces (engine_fusion.cc): those not under way, in order; the one that is; and the
  // number of operations that every rank is known to have submitted.
  std::deque<OpenOperation*> small;
  OpenOperation* small_under_way = nullptr;
  std::unique_ptr<OpenOperation> carrier;  // small_under_way, when it is several
  uint64_t submitted_everywhere = 0;
  // Of joined operations, by the first: what others have sent, and what was started here last.
  std::map<uint64_t, std::pair<int, uint64_t>> early_joined;
  std::map<uint64_t, uint64_t> joined;

  using PlanKey = std::tuple<Kind, DType, ReduceOp, int, int64_t, const Codec*>;
  std::map<PlanKey, std::shared_ptr<const OperationPlan>> plans;

  std::unique_ptr<GroupTuning> tuning;  // null: off

  // What was submitted last, to compare with what others send.
  struct Past {
    uint64_t sequence, fingerprint;
    Operation operation;  // without buffers and parts
  };
  std::deque<Past> past;
  // Of operations not yet submitted here: who has sent something, and its fingerprint.
  std::map<uint64_t, std::pair<int, uint64_t>> early;

  // Send and recv: next message number by (rank of the group, tag).
  std::map<std::pair<int, uint32_t>, uint64_t> sends, receives;
  std::map<std::pair<int, uint32_t>, uint64_t> begun;  // messages that have begun to arrive
  std::deque<OpenOperation*> any_receives;             // recv from anyone, not matched yet
};

// Where latency and not bandwidth decides.
inline constexpr int64_t kSmallBytes = 64 << 10;

// 0 when it is not to be checked; otherwise equal on all ranks that submit matching operations.
uint64_t fingerprint(const Operation& operation);

// Of all members of a group alike, without a word between them.
Group group_number(std::string_view name, const std::vector<int>& ranks);

// The schedules' view of a collective operation.
Problem make_problem(const Operation& operation, const GroupState& group, const Codec* codec,
                     int64_t unit_bytes);
int64_t default_unit_bytes(const GroupState& group, int64_t chunk_bytes, int64_t operation_bytes);

// Points input and output of `open` to the caller's buffers, or to packed copies; unpack() brings
// the packed output back.
void pack(OpenOperation* open, int rank, int size);
void unpack(OpenOperation* open);

}  // namespace stretto::comm
