// Collectives as plain lists of steps: which rank sends what to which, what is summed, and which
// step waits for which. Nothing here moves data. The engine runs the steps in the order in which
// data arrive; the simulator of the tests runs them in random order.
//
// Units. A long operation is cut into units (unit_count), and every unit has its own schedule.
// Units share only the input and output buffers, so the engine runs several at once, each with its
// own scratch memory. Transfers are matched by (operation, unit, sender, receiver, tag). A rank
// with an empty schedule has nothing to do for that unit.
//
// The order of summation. Whatever the algorithm, the cutting and the arrival order:
//   host sum = x_a + x_b + ... over the ranks of one host, in rank order, left to right
//   total    = the host sums s_0, s_1, ... in one of two orders (SumOrder):
//     line     s_0 + s_1 + ..., left to right
//     tree     the two halves of the racks, each summed the same way, are added; a rack is the sum
//              of the two halves of its hosts, and so on. The first half has one more when the
//              number is odd (Hosts::tree). For fp16 and bf16 every sum of hosts is rounded to the
//              type, because it may cross the wire
// in fp32 (fp64 for fp64; integers wrap; see reduce.h for the rounding of 16-bit host sums and the
// place of the division of an average). The order is a property of the job's hosts and racks alone
// (sum_order), never of sizes, so fused and cut operations agree. Every algorithm that fits gives
// the same bits on every rank, for every dtype and operation; those that combine partial sums of
// hosts (tree_halving, tree_doubling, pipelined_trees) fit the tree only. A ring carries partial
// sums around in an order that depends on the chunk, so it is used only where the order does not
// matter (Problem::exact). Hosts are part of the order: the same ranks on other hosts may differ in
// the last bit. With a lossy codec the bits are the same on every rank, but depend on the algorithm
// (flat ones encode per rank, hierarchical ones per host) and on where the codec's blocks begin
// (Problem::align); host sums are then added from left to right.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "stretto/comm/collective/hosts.h"

namespace stretto::comm {

enum class Collective : uint8_t {
  kAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier,
};
std::string_view collective_name(Collective kind);  // "all_reduce", ...

enum class SumOrder : uint8_t {
  kAuto,  // the tree with more than 32 hosts or several racks, else the line
  kLine,
  kTree,
};

// One rank's view of an operation. "Block r" is the part of rank r; "all blocks" lie one after
// another in rank order, unless displacements say otherwise.
//   kind            input                  output                  in place: output may be
//   all_reduce      count                  count                   the input
//   reduce          count                  count on the root       the input
//   broadcast       count on the root      count                   the input (root)
//   all_gather      block of this rank     all blocks              input = its block in the output
//   reduce_scatter  all blocks             block of this rank      output = its block in the input
//   gather          block of this rank     all blocks on the root  input = its block in the output
//   scatter         all blocks on the root block of this rank      output = its block in the input
//   all_to_all      block for each rank    block from each rank    no
//   barrier         -                      -
struct Problem {
  Collective kind = Collective::kAllReduce;
  int rank = 0;
  Placement host;               // any label per rank, equal on ranks of one host; see hosts.h
  int64_t count = 0;            // elements of the whole tensor, or of every block
  std::vector<int64_t> counts;  // elements of block r, when blocks differ (the v forms);
                                // all_to_all: of the block for rank r
  std::vector<int64_t> receive_counts;  // all_to_all with counts: of the block from rank r
  std::vector<int64_t>
      displacements;  // where block r begins, in elements; empty: one after another
  std::vector<int64_t> receive_displacements;  // the same for receive_counts
  int root = 0;                                // broadcast, reduce, gather, scatter
  bool exact = false;       // the reduction gives the same bits in any order (is_exact in reduce.h)
  bool coded = false;       // all_reduce: what crosses the wire goes through a codec,
  bool coded_sums = false;  // which may encode sums once more at every level (Codec::sums)
  SumOrder order = SumOrder::kAuto;
  int64_t unit = 0;   // elements per unit, about; 0: one unit
  int64_t align = 1;  // units and parts begin at multiples of so many elements (a codec's block)

  int ranks() const { return host.ranks(); }
};

// The order in which the problem's host sums are added: never kAuto.
SumOrder sum_order(const Problem& problem);

// Throws InvalidArgument when sizes or ranks contradict each other.
void validate(const Problem& problem);

// The number of units of the operation on this rank; 0 when there is nothing to move. For
// all_to_all with counts it may differ between ranks; units that both have match.
int64_t unit_count(const Problem& problem);

enum class Buffer : uint8_t {
  kInput,
  kOutput,
  kScratch,  // Schedule::scratch_elements of the operation's dtype, one buffer per unit
  kCoded,    // encoded bytes; the offset is the number of a slot in Schedule::coded_slots
};

struct Place {
  Buffer buffer = Buffer::kInput;
  int64_t offset = 0;  // in elements
};

// An input of a reduce step; its inputs are added in order.
struct Source {
  Place place;
  bool begins_host = true;  // first of its host: each host is summed before hosts are added
  bool host_sum = false;    // it is the sum of a host of several ranks
  int8_t exponent = 0;      // an average through a codec: it is multiplied by 2^exponent; encode:
                            // what is lost of it is
};

enum class Action : uint8_t {
  kSend,     // `place` to `peer`. Done when `place` may be overwritten
  kReceive,  // from `peer` into `place`. Waits for nothing: data may be written as soon as they
             // come
  kReduce,   // `place` = the sum of `sources`; a source may be `place` itself, none overlaps partly
  kCopy,     // `place` = sources[0], which does not overlap it unless it is the same memory
  kEncode,   // slot `place` = encode(sources[0]) with error feedback; when `result`, sources[0] is
             // then replaced by what the receivers will decode. With adds_loss the residual is not
             // encoded; what is lost is added to it, so an element may be encoded several times
  kDecode,   // `place` = decode(slot sources[0])
};

struct Step {
  Action action = Action::kSend;
  bool last = false;       // reduce: this yields the final value, so an average is divided here
  bool result = false;     // encode: of a final value (else of a contribution)
  bool adds_loss = false;  // encode
  int32_t peer = -1;       // send, receive
  int32_t tag = 0;         // distinguishes messages from one rank to another within a unit
  int64_t count = 0;       // elements; 0 only in a barrier, whose messages have no payload
  Place place;
  int32_t first_source = 0, source_count = 0;
  int32_t first_wait = 0, wait_count = 0;
};

// The steps of one rank for one unit. A step may start when every step that it waits for is done;
// those come earlier in the list. Steps that may start should be started in list order, which
// spreads messages so that not all ranks send to one at once. The unit is done when all its steps
// are done.
struct Schedule {
  std::vector<Step> steps;
  std::vector<Source> sources_of_steps;
  std::vector<int32_t> waits_of_steps;  // indices into steps
  int64_t scratch_elements = 0;
  std::vector<int64_t> coded_slots;  // elements encoded in each slot

  std::span<const Source> sources(const Step& step) const {
    return {sources_of_steps.data() + step.first_source, static_cast<size_t>(step.source_count)};
  }
  std::span<const int32_t> waits(const Step& step) const {
    return {waits_of_steps.data() + step.first_wait, static_cast<size_t>(step.wait_count)};
  }
};

}  // namespace stretto::comm
