// Fuses small all-reduces that wait for each other into one.
//
// All ranks must fuse the same operations, but no rank knows what the others have submitted. So one
// small all-reduce of a group is under way at a time. Each of its messages carries how many
// operations beyond it the ranks whose data it holds have submitted, at least. The result depends
// on every rank's input, so at its end all ranks have the same least number. All operations up to
// that number have been submitted everywhere and go next, as one. A single operation starts at
// once: there is no timer and no extra message. What all ranks submit together is one operation
// from the beginning (together.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

namespace stretto::comm {

struct GroupState;
struct OpenOperation;
struct Options;

// The small all-reduces of one group.
struct Fusion {
  std::deque<OpenOperation*> waiting;  // in order
  OpenOperation* under_way = nullptr;
  std::unique_ptr<OpenOperation> carrier;  // `under_way`, when it is several
  std::unique_ptr<OpenOperation> stopped;  // the last carrier of a failed job
  uint64_t submitted_everywhere = 0;       // operations of the group that every rank has submitted
};

// Whether an operation that has a plan waits for others of its group to be fused with.
bool may_fuse(const OpenOperation& open, const GroupState& group, const Options& options);

// How many of the waiting operations go next, as one; 0: none may go.
size_t count_next(const Fusion& fusion, int64_t most_bytes);

// Makes an operation that carries the data of the first `count` waiting ones, which stay in the
// list. The caller plans it.
std::unique_ptr<OpenOperation> join(const Fusion& fusion, size_t count);

// Gives the carrier's result to its members.
void split(const OpenOperation& carrier);

// Notes that `open` is over, and how many operations after it every rank has submitted.
void note_over(Fusion& fusion, const OpenOperation& open);

// Forgets all of them, because the job has failed. A thread may still work on a carrier's memory.
void stop(Fusion& fusion);

}  // namespace stretto::comm
