// What an engine keeps for each operation under way and for each group.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stretto/comm/codec/codec.h"
#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/engine/engine.h"
#include "stretto/comm/engine/fusion.h"
#include "stretto/comm/engine/order.h"
#include "stretto/comm/engine/plan.h"
#include "stretto/comm/engine/point_to_point.h"
#include "stretto/comm/engine/step_tuning.h"
#include "stretto/comm/reduce/scan.h"

namespace stretto::comm {

// One of several all-reduces that all ranks have submitted together, as a piece of one operation.
struct Piece {
  int64_t count = 0;
  const void* input = nullptr;
  void* output = nullptr;
  std::string name;
  NonFinite non_finite{};  // found in its input
};

// An operation from submission to its end.
struct OpenOperation {
  Handle handle = 0;
  Group group = 0;
  Delivery delivery = Delivery::kWait;
  Operation operation;
  uint64_t sequence = 0;     // in its group, from its beginning; of the message for send and recv
  uint64_t fingerprint = 0;  // 0: it is not compared
  std::shared_ptr<const Settings> settings;  // when it began; null: the group is not tuned
  Problem problem;
  const Algorithm* algorithm = nullptr;   // null for send and recv
  std::shared_ptr<const UnitPlan> whole;  // when there is one unit
  const Codec* codec = nullptr;           // null: none
  int streams = 0;                        // that its messages may use; 0: as the link finds best
  const Traffic* traffic = nullptr;       // of its plan, to learn what links cost; null: unknown
  std::shared_ptr<const OperationPlan> plan;  // keeps `traffic`
  // The caller's buffers, or packed copies of them where parts are not contiguous.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::vector<std::byte> packed_input, packed_output;
  std::vector<Piece> pieces;  // empty: it is one operation; their data are packed

  int64_t units = 0, started_units = 0, done_units = 0, unit_bytes = 0;
  // Every unit is searched for NaN and infinity: with `searches` by its steps, if the plan can, and
  // else before it begins.
  bool scans = false, searches = false;
  std::optional<NonFinite> found_ahead;  // in the whole input, before it began
  int64_t non_finite = 0, first_non_finite = -1;
  double submitted_s = 0, started_s = 0;
  double coding_s = 0;  // spent on encoding and decoding here
  int64_t step = -1;    // of the group, for its account
  bool done = false;
  std::exception_ptr error;

  // Small operations: how many operations after it every rank has submitted (fusion.h).
  int32_t ahead = 0;
  // Fused operations: `carrier` carries the data of its `members`, one after another in
  // `packed_output`.
  std::vector<OpenOperation*> members;
  OpenOperation* carrier = nullptr;
  std::function<void()> notify;
};

inline int64_t bytes_of(const OpenOperation& open) { return bytes_of(open.operation); }

struct GroupState {
  std::string name;
  std::vector<int> ranks;      // of the job, in the group's order
  int rank = 0;                // this one's place in it
  Placement placement;         // the hosts and racks of its ranks
  uint64_t next_sequence = 0;  // of the next collective to begin
  Group first_number = 0;      // of a group of this name and ranks in its first life
  uint32_t life = 0;           // how many such groups were removed before this one
  int64_t open = 0;            // operations that are not over

  std::deque<OpenOperation*> waiting;  // units not all started; in order
  int64_t active_bytes = 0;            // of units under way

  Order order;
  Fusion fusion;
  PointToPoint point_to_point;
  Plans plans;

  std::unique_ptr<StepTuning> tuning;  // null: off

  // The engine's own group, in which members of `serves` agree on settings; not in statistics.
  bool internal = false;
  Group serves = 0;
};

// The number of a group, which all members compute without communication. `life` tells groups of
// the same name and ranks apart that are made one after another.
Group group_number(std::string_view name, const std::vector<int>& ranks, uint32_t life);

// Points input and output of `open` to the caller's buffers, or to packed copies; unpack() brings
// the packed output back, to its pieces if it has any.
void pack(OpenOperation* open, int rank, int size);
void unpack(OpenOperation* open);

}  // namespace stretto::comm
