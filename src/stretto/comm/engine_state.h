// What an engine remembers of groups and of operations that are under way.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/engine.h"
#include "stretto/comm/link/frame.h"

namespace stretto::comm {

// An operation from submission to its end.
struct OpenOperation {
  Handle handle = 0;
  Group group = 0;
  Delivery delivery = Delivery::kWait;
  Operation operation;
  uint64_t sequence = 0;  // in its group; of the message for send and recv
  uint64_t fingerprint = 0;
  Problem problem;
  const Algorithm* algorithm = nullptr;  // null for send and recv
  const Codec* codec = nullptr;          // null: none
  // The caller's buffers, or packed copies of them where parts do not follow one another.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<std::byte> packed_input, packed_output;

  int64_t units = 0, started_units = 0, done_units = 0, unit_bytes = 0;
  int64_t non_finite = 0, first_non_finite = -1;
  double submitted_s = 0, started_s = 0;
  bool done = false;
  std::exception_ptr error;
  std::function<void()> notify;
};

// One unit of an operation that is being carried out.
struct Unit {
  OpenOperation* open = nullptr;
  int64_t index = 0;
  Schedule schedule;
  std::vector<int32_t> waits_left;                 // per step
  std::vector<int32_t> first_follower, followers;  // steps that wait for a step
  std::vector<bool> step_done;
  std::unique_ptr<std::byte[]> scratch;
  std::vector<std::unique_ptr<std::byte[]>> coded;  // per slot
  int32_t steps_left = 0;
};

struct GroupState {
  std::string name;
  std::vector<int> ranks;  // of the job, in the group's order
  int rank = 0;            // this one's place in it
  std::vector<int> hosts;  // label per rank of the group
  uint64_t next_sequence = 0;
  std::deque<OpenOperation*> waiting;  // units not all started; in order
  int64_t active_bytes = 0;            // of units under way

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

// 0 when it is not to be checked; otherwise equal on all ranks that submit matching operations.
uint64_t fingerprint(const Operation& operation);

// The schedules' view of a collective operation.
Problem make_problem(const Operation& operation, const GroupState& group, const Codec* codec,
                     int64_t chunk_bytes);

// Points input and output of `open` to the caller's buffers, or to packed copies; unpack() brings
// the packed output back.
void pack(OpenOperation* open, int rank, int size);
void unpack(OpenOperation* open);

}  // namespace stretto::comm
