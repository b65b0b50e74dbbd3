// Winograd convolution on the blocked layout, for any Scheme: transform a block of input tiles into
// V (kept in L2), multiply by the transformed filters U on the register tile, transform the sums
// and apply the epilogue straight into y. Source of the fusion: arXiv 1912.02165.
//
// Limit: products^2 / out^2 multiply-adds per output and channel at the fp32 peak; few tiles (small
// maps) instead wait for the stream of U, products^2 values per filter.
#pragma once

#include <cstddef>
#include <functional>

#include "stretto/kernels/epilogue.h"
#include "stretto/kernels/family.h"
#include "stretto/kernels/simd/grid.h"
#include "stretto/kernels/winograd/scheme.h"

namespace stretto::kernels::winograd {

// A convolution: x [n, c, h, w] to y [n, k, out_h, out_w], both blocked. The first tile of the
// first phase reads input rows from -pad_top and columns from -pad_left. With several groups, c /
// groups and k / groups are multiples of the block.
struct Task {
  const Scheme* scheme;
  Target target;
  int64_t n, c, h, w, k, out_h, out_w;
  int64_t pad_top, pad_left;
  int64_t groups;
  Epilogue epilogue;
};

// How a task is cut up. Strides in elements. Depends on the task alone, so packed weights are
// portable.
struct Plan {
  int64_t lanes;
  int64_t group_c, group_in, group_out;  // channels; input and output blocks of a group
  int64_t tiles_y, tiles_x, tiles;       // of a phase
  int64_t block_tiles;  // tiles whose V and M a thread, or the team by panels, holds at a time
  bool by_panels;       // threads share V and divide the output channels; else they divide tiles
  int64_t v_row, v_plane, v_values;
  int64_t m_plane, m_values;
  Panels panels;
};
Plan make_plan(const Task& task);

size_t packed_bytes(const Task& task);
size_t scratch_bytes(const Task& task);

// `weight(k, c, y, x)` is tap (y, x) from channel c of k's group to output channel k. `bias` may be
// null.
void pack(const Task& task, const std::function<float(int64_t, int64_t, int, int)>& weight,
          const float* bias, std::byte* packed);

// As Candidate::phases.
int phases(const Task& task);

// As Candidate::run. inputs[1] is the residual.
void run(const Task& task, const Args& args, const Worker& worker);

// Expected fraction of the fp32 peak, in flops of the direct algorithm.
double expectation(const Task& task);

}  // namespace stretto::kernels::winograd
