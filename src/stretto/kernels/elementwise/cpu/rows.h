// How elementwise kernels walk over a problem: rows of the output, strips of rows, and where each
// operand lies.
#pragma once

#include "stretto/kernels/elementwise/problem.h"

namespace stretto::kernels::elementwise {

constexpr int64_t kStrip = 1024;  // elements: a few live values of 4 bytes fit into 32 KB
constexpr int kSlots = ElementwiseProblem::kMaxInputs + ElementwiseProblem::kMaxInstructions;

// The output as rows of `inner` elements, contiguous in memory, over up to 5 outer dimensions.
struct Rows {
  int64_t inner = 1, rows = 1;
  int outer_rank = 0;
  int64_t outer[ElementwiseProblem::kMaxRank] = {};
};

// An input seen from those rows.
struct Source {
  const void* data;
  DType dtype;
  bool whole;      // of the output's shape: flat offsets agree
  int64_t period;  // elements of one row in memory, repeated along it: inner, lanes or 1
  int64_t strides[ElementwiseProblem::kMaxRank];  // of the outer dimensions
};

inline Rows make_rows(const ElementwiseProblem& p, int64_t lanes) {
  Rows r;
  if (p.layout == Layout::kBlocked) {
    r.outer_rank = 2;
    r.outer[0] = p.dims[0];
    r.outer[1] = (p.dims[1] + lanes - 1) / lanes;
    r.inner = p.dims[2] * p.dims[3] * lanes;
  } else {
    r.outer_rank = p.rank - 1;
    for (int k = 0; k < r.outer_rank; ++k) r.outer[k] = p.dims[k];
    r.inner = p.dims[p.rank - 1];
  }
  for (int k = 0; k < r.outer_rank; ++k) r.rows *= r.outer[k];
  return r;
}

inline Source make_source(const ElementwiseProblem& p, const Rows& r, int64_t lanes, int i,
                          const void* data) {
  Source s{.data = data,
           .dtype = p.input_dtype[i],
           .whole = p.input_broadcast[i] == 0,
           .period = r.inner,
           .strides = {}};
  const unsigned bits = p.input_broadcast[i];
  const bool blocked = p.layout == Layout::kBlocked;
  if (blocked && (bits & 2)) {
    s.period = 1;  // a scalar
    return s;
  }
  if (blocked) {
    s.period = bits & 12 ? lanes : r.inner;
  } else if (bits >> (p.rank - 1) & 1) {
    s.period = 1;
  }
  int64_t stride = s.period;
  for (int k = r.outer_rank - 1; k >= 0; --k) {
    s.strides[k] = bits >> k & 1 ? 0 : stride;
    if (!(bits >> k & 1)) stride *= r.outer[k];
  }
  return s;
}

inline int64_t row_offset(const Rows& r, const Source& s, int64_t row) {
  int64_t offset = 0;
  for (int k = r.outer_rank - 1; k >= 0; --k) {
    offset += row % r.outer[k] * s.strides[k];
    row /= r.outer[k];
  }
  return offset;
}

// Whether all rows begin at the same element.
inline bool is_one_value(const Rows& r, const Source& s) {
  for (int k = 0; k < r.outer_rank; ++k) {
    if (s.strides[k] != 0 && r.outer[k] > 1) return false;
  }
  return true;
}

// row_offset() of one row after another, without divisions.
struct RowWalk {
  int64_t at = 0;
  int64_t index[ElementwiseProblem::kMaxRank] = {};

  RowWalk(const Rows& r, const Source& s, int64_t row) {
    for (int k = r.outer_rank - 1; k >= 0; --k) {
      index[k] = row % r.outer[k];
      at += index[k] * s.strides[k];
      row /= r.outer[k];
    }
  }
  void next(const Rows& r, const Source& s) {
    for (int k = r.outer_rank - 1; k >= 0; --k) {
      at += s.strides[k];
      if (++index[k] < r.outer[k]) return;
      at -= s.strides[k] * r.outer[k];
      index[k] = 0;
    }
  }
};

// Gives every value that must be stored a slot, reusing those whose value is not needed any more.
inline void assign_slots(const ElementwiseProblem& p, uint8_t* slot_of) {
  int last_use[kSlots];
  for (int v = 0; v < p.inputs + p.instructions; ++v) last_use[v] = -1;
  for (int i = 0; i < p.instructions; ++i) {
    const Instruction& s = p.program[i];
    const int arity = element_row(s.op).operands;
    if (arity > 0) last_use[s.a] = i;
    if (arity > 1) last_use[s.b] = i;
    if (arity > 2) last_use[s.c] = i;
  }
  bool taken[kSlots] = {};
  for (int i = 0; i < p.inputs; ++i) taken[slot_of[i] = static_cast<uint8_t>(i)] = true;
  for (int i = 0; i < p.instructions; ++i) {
    for (int v = 0; v < p.inputs + i; ++v) {
      if (last_use[v] < i) taken[slot_of[v]] = v < p.inputs;
    }
    for (int v = 0; v < p.inputs + i; ++v) {
      if (last_use[v] >= i) taken[slot_of[v]] = true;
    }
    int slot = p.inputs;
    while (taken[slot]) ++slot;
    taken[slot_of[p.inputs + i] = static_cast<uint8_t>(slot)] = true;
  }
}

// Strips are parts of a row, or several whole rows.
struct Strips {
  int64_t inner, rows, rows_per_strip, parts, count;

  explicit Strips(const Rows& r)
      : inner(r.inner),
        rows(r.rows),
        rows_per_strip(r.inner >= kStrip || r.inner == 0 ? 1 : kStrip / r.inner),
        parts((r.inner + kStrip - 1) / kStrip),
        count(r.inner == 0 ? 0
              : parts > 1  ? rows * parts
                           : (rows + rows_per_strip - 1) / rows_per_strip) {}
};

// `count` elements from element `begin` of row `row` on.
struct Strip {
  int64_t row, begin, count;
};

inline Strip strip_at(const Strips& s, int64_t index) {
  if (s.parts == 1) {
    const int64_t row = index * s.rows_per_strip, left = s.rows - row;
    return {row, 0, (left < s.rows_per_strip ? left : s.rows_per_strip) * s.inner};
  }
  const int64_t begin = index % s.parts * kStrip, left = s.inner - begin;
  return {index / s.parts, begin, left < kStrip ? left : kStrip};
}

}  // namespace stretto::kernels::elementwise
