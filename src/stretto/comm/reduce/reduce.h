// Combines the contributions of ranks: one pass over n sources in a fixed order.
//
// Values are added left to right in fp32 (fp64 for fp64; integers wrap around). A source that
// begins a host starts a new host sum, and host sums are added left to right. A tree of hosts
// (collective/schedule.h) is several reductions of two host sums or sums of hosts each, and all but
// the final one store the dtype. For fp16 and bf16:
// - The sum of a host of several ranks is rounded to the dtype before it is added to others. A
//   hierarchical algorithm sends it in that dtype, and all algorithms must give the same bits.
// - An average divides the host sums in fp32, before that rounding, and not the total. So no host
//   sum overflows unless the average does.
// Min and max return NaN if any source is NaN, and treat -0 as less than +0: with that, they are
// the same in any order. Bool: sum and max are "or", product and min are "and".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "stretto/base/cpu.h"
#include "stretto/tensor/dtype.h"

namespace stretto::comm {

enum class ReduceOp : uint8_t { kSum, kAverage, kProduct, kMin, kMax, kAnd, kOr, kXor };
std::string_view reduce_op_name(ReduceOp op);  // "sum", "average", ...
ReduceOp parse_reduce_op(std::string_view name);

// Empty when the reduction is defined for the dtype, else why not (and/or/xor of floats, average of
// bool).
std::string reduce_unfit(DType dtype, ReduceOp op);

// Whether the result has the same bits in any order: all but sum, average and product of floats.
bool is_exact(DType dtype, ReduceOp op);

struct ReduceSource {
  const void* data = nullptr;
  bool begins_host = true;  // see Source in collective/schedule.h
  bool host_sum = false;
};

struct Reduction {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int ranks = 1;     // divisor of an average; integers truncate towards zero
  bool last = true;  // the result is final; false: it is a host's sum or another partial result
};

// to[i] = the reduction of sources[0][i], sources[1][i], ... At least one source; `to` may be one
// of them, and overlaps none partly.
void reduce(Isa isa, const Reduction& reduction, std::span<const ReduceSource> sources,
            int64_t count, void* to);

}  // namespace stretto::comm
