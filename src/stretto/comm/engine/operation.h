// An operation of one rank in its group: the kind, the data, and how to combine it. The result has
// the same bits on every rank, whatever algorithm, units, fusion and streams carry it, because the
// order of summation depends on the group's ranks and hosts alone (comm/collective/schedule.h).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/comm/reduce/reduce.h"
#include "stretto/tensor/dtype.h"

namespace stretto::comm {

// The numbers of these enumerations are part of the wire format and of the C interface: append
// only.
enum class Kind : uint8_t {
  kAllReduce,      // output[i] = input[i] of all ranks combined, the same on every rank
  kBroadcast,      // output = the root's input
  kAllGather,      // output = every rank's input, in rank order
  kReduceScatter,  // output = this rank's part of the combined input
  kReduce,         // kAllReduce, on the root only
  kGather,         // kAllGather, on the root only
  kScatter,        // output = this rank's part of the root's input
  kAllToAll,       // output part i = part `rank` of rank i's input
  kSend,           // to `peer`, matched by (peer, tag) in the order of submission
  kRecv,           // from `peer`, or from any rank
  kBarrier,        // no data: done when every rank has submitted it
};

std::string_view kind_name(Kind kind);  // "all_reduce", ...

// All counts and displacements are in elements of `dtype`. The buffers belong to the caller and
// must stay unchanged until the operation is done. They may overlap only like this: output equals
// input for kAllReduce, kReduce and kBroadcast; input is this rank's part of output for kAllGather
// and kGather; output is this rank's part of input for kReduceScatter and kScatter. With n ranks
// the buffers hold:
//
//   kind            input                          output
//   kAllReduce      count                          count
//   kReduce         count                          count on the root, unused elsewhere
//   kBroadcast      count on the root              count; null on the root: not copied there
//   kAllGather      count (own part)               n parts of count, or of output_counts[i]
//   kGather         count (own part)               as kAllGather on the root, unused elsewhere
//   kReduceScatter  n parts of count,              own part: count, or input_counts[rank]
//                   or of input_counts[i]
//   kScatter        as kReduceScatter on the root  own part: count
//   kAllToAll       n parts of count,              n parts of count, or of output_counts[i]
//                   or of input_counts[i]
//   kSend, kRecv    count / unused                 unused / count
//
// Uneven parts: *_counts has one entry per rank of the group, the same on every rank except for
// kAllToAll, where output_counts[i] equals rank i's input_counts for this rank. With uneven parts
// `count` is this rank's own part. Empty *_displacements mean that parts follow one another.
// Zero counts are allowed everywhere; a pointer may be null where nothing is read or written.
struct Operation {
  Kind kind = Kind::kAllReduce;
  DType dtype = DType::kFloat32;
  ReduceOp reduction =
      ReduceOp::kAverage;  // of the kinds that combine inputs; see comm/reduce/reduce.h
  int root = 0;            // rank within the group
  int peer = 0;  // rank within the group, for kSend and kRecv; kAnyPeer: kRecv from any rank
  uint32_t tag = 0;
  int64_t count = 0;
  const void* input = nullptr;
  void* output = nullptr;
  std::vector<int64_t> input_counts, input_displacements;
  std::vector<int64_t> output_counts, output_displacements;
  std::string codec;  // a row of codecs(), for sums and averages of float32; empty: options.codec
  std::string name;   // shown in errors, traces and reports of NaN; need not be unique
  // Residual for error feedback: `count` values of the caller, for a kAllReduce that may have a
  // codec. They are added to this rank's input and replaced by what its encodings lose, to be added
  // in the next operation of the same elements, whatever its codec, algorithm and units. Where the
  // input is not finite they do not change. Null: no residual, except that the engine keeps one, by
  // group, name and count, for an operation that has a name and a codec with Codec::feedback.
  float* residual = nullptr;
  double timeout_s = 0;  // the job fails if it takes longer; 0: options.operation_timeout_s
  bool scanned = false;  // the caller has searched the input for NaN and infinity
  // kSend: the data leave when the receiver has asked for them, also below the eager limit. So they
  // take no memory there and no bandwidth from messages that it waits for.
  bool rendezvous = false;
  // The caller is about to wait for it, so no other thread is woken to work on it.
  bool blocking = false;
  bool unseen = false;  // left out of traces and statistics, because the user did not submit it
};

inline constexpr int kAnyPeer = -1;

// Below this size latency decides, not bandwidth.
inline constexpr int64_t kSmallBytes = 64 << 10;

inline bool is_message(Kind kind) { return kind == Kind::kSend || kind == Kind::kRecv; }
// True for kinds that combine the inputs of ranks.
inline bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter;
}

// Of `count` elements.
inline int64_t bytes_of(const Operation& operation) {
  return operation.count * static_cast<int64_t>(dtype_bytes(operation.dtype));
}

// How long it may take, where Options::operation_timeout_s is `otherwise_s`; infinity: for ever.
inline double time_limit_s(const Operation& operation, double otherwise_s) {
  const double limit_s = operation.timeout_s > 0 ? operation.timeout_s : otherwise_s;
  return limit_s > 0 ? limit_s : std::numeric_limits<double>::infinity();
}

// "all_reduce of 1024 float32 (sum), 'layer1.weight'", as errors show it.
std::string describe(const Operation& operation);

// Throws InvalidArgument when the operation is not valid for rank `rank` of a group of `size`.
void check(const Operation& operation, int rank, int size);

}  // namespace stretto::comm
