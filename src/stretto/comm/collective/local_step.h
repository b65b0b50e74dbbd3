// Carrying out the steps of a schedule that send nothing: sums, copies, encoding and decoding.
#pragma once

#include <cstddef>
#include <span>

#include "stretto/comm/codec/codec.h"
#include "stretto/comm/collective/schedule.h"
#include "stretto/comm/reduce.h"

namespace stretto::comm {

// What the buffers of a schedule's places are. `slots` has one entry per coded slot, with room for
// codec->encoded_bytes(Schedule::coded_slots[i]). The residual (null: no error feedback) has one
// value per element of the tensor, in the tensor's order, as contributions; add_residual has been
// over it when a unit begins. No rank encodes an element twice in one operation.
struct LocalBuffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;
  std::span<std::byte* const> slots;
  float* residual = nullptr;  // what encodings lose, as a contribution to be made later
};

struct LocalContext {
  Isa isa = Isa::kPortable;
  Reduction reduction;           // dtype, op and ranks; `last` is taken from the step
  const Codec* codec = nullptr;  // for schedules of coded problems, whose dtype is fp32
};

// Makes up for what was lost before: out = in + residual, and residual = 0; in blocks of 256 that
// hold inf or NaN afterwards, out = in, and the residual stays. `out` may be `in`.
void add_residual(const float* in, float* residual, int64_t count, float* out);

// Where a place begins; null for what is kept in no buffer. Not for Buffer::kCoded.
const std::byte* read_at(const LocalBuffers& buffers, Place place, DType dtype);
std::byte* write_at(const LocalBuffers& buffers, Place place, DType dtype);  // never the input

// Runs a step other than kSend and kReceive, and says what an encoded contribution held that is not
// finite. A copy onto itself, or into a null output, does nothing.
NonFinite run_local_step(const Schedule& schedule, const Step& step, const LocalBuffers& buffers,
                         const LocalContext& context);

}  // namespace stretto::comm
