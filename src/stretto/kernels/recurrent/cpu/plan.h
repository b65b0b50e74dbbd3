// How `steps` lays out its weights and its scratch.
#pragma once

#include "stretto/kernels/gemm/problem.h"
#include "stretto/kernels/recurrent/problem.h"
#include "stretto/kernels/simd/tile.h"

namespace stretto::kernels::recurrent {

// One product of a step: those gates of all units that can be computed from the same state.
struct Part {
  int first, gates;      // of the cell's
  int64_t panel_blocks;  // blocks of units whose gates one tile computes
  int64_t panels;        // of one direction
  int64_t group;         // panels whose sums are made before the gates of any
  int64_t weights;       // where they begin, in floats, and those of one direction
  int64_t direction_weights;
};

// Units come in blocks of a vector, the last one padded with zeros. Sums of the inputs and weights
// of the state are kept block by block and, in a block, gate by gate: a tile then has all gates of
// its units. Offsets are in floats.
struct Plan {
  int64_t lanes, blocks;  // of one direction
  int64_t width;          // units in whole blocks
  int64_t row;            // from the state of one row of the batch to the next
  int parts;              // products of a step: 2 where GRU's reset gate acts on the state
  Part part[2];
  int64_t sum_rows;     // rows of the batch whose sums a thread keeps at a time
  GemmProblem product;  // of the inputs of all steps
  // Packed: the product's constants, then these.
  int64_t weights, state_bias, peephole, packed_end;
  // Scratch: sums of the inputs, states (two, by turns), cells, reset states, sums of each thread.
  int64_t states, cells, resets, sums, thread_sums, scratch_end;
};

Plan make_plan(const RecurrentProblem& p);

// pack.cc
std::string packing(const RecurrentProblem& p);
size_t packed_bytes(const RecurrentProblem& p);
void pack(const RecurrentProblem& p, std::span<const Tensor> constants, std::byte* packed);

}  // namespace stretto::kernels::recurrent
