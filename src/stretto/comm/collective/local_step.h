// Runs the steps of a schedule that send nothing: sums, copies, encoding and decoding.
#pragma once

#include <cstddef>
#include <span>

#include "stretto/comm/codec/codec.h"
#include "stretto/comm/collective/schedule.h"
#include "stretto/comm/reduce/reduce.h"

namespace stretto::comm {

// The buffers of a schedule's places. `slots` has one entry per coded slot, with room for
// codec->encoded_bytes(Schedule::coded_slots[i]). The residual (null: no error feedback) has one
// value per element of the tensor; add_residual() is called for a unit before it begins. No rank
// encodes an element twice in one operation.
struct LocalBuffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::byte* scratch = nullptr;
  std::span<std::byte* const> slots;
  float* residual = nullptr;  // receives what encodings lose, to be contributed later
};

struct LocalContext {
  Isa isa = kIsas.front();
  Reduction reduction;           // dtype, op and ranks; `last` is taken from the step
  const Codec* codec = nullptr;  // for schedules of coded problems, whose dtype is fp32
};

// Adds what was lost before: out = in + residual, residual = 0. In blocks of 256 whose sum holds
// inf or NaN: out = in, and the residual does not change. `out` may be `in`.
void add_residual(const float* in, float* residual, int64_t count, float* out);

// The address of a place; null if its buffer is null. Not for Buffer::kCoded.
const std::byte* read_at(const LocalBuffers& buffers, Place place, DType dtype);
std::byte* write_at(const LocalBuffers& buffers, Place place, DType dtype);  // never the input

// Runs a step other than kSend and kReceive. Returns what it found of inf and NaN in a contribution
// that it encoded. A copy onto itself, or into a null output, does nothing.
NonFinite run_local_step(const Schedule& schedule, const Step& step, const LocalBuffers& buffers,
                         const LocalContext& context);

}  // namespace stretto::comm
