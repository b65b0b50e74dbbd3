// Transposed convolution by output phase: outputs whose position is equal modulo the stride see the
// same taps at the same distances, so each phase is an ordinary convolution of stride 1 with a part
// of the kernel, written to interleaved positions. Runs on the register tile; where taps leave the
// map there are tiles of their own with fewer taps.
//
// Order of work: rows of input that fit L2 / panel of weights and phase / tile. The limit is the
// multiply-add rate.
#include <algorithm>

#include "stretto/kernels/conv_transpose2d/candidates.h"
#include "stretto/kernels/packing.h"
#include "stretto/kernels/simd/grid.h"
#include "stretto/kernels/simd/tile.h"

namespace stretto::kernels::conv_transpose2d {
namespace {

constexpr int kMostTaps = 64;  // of one dimension, all phases

// One dimension of a problem.
struct Axis {
  int64_t in, out, kernel, stride, dilation, pad;
};

// The taps of one phase in one dimension: output stride * j + phase reads input j + offset[t]
// through tap index[t].
struct Phase {
  int64_t outputs = 0;  // j is below this
  int count = 0;
  int64_t index[kMostTaps], offset[kMostTaps];

  Phase(const Axis& a, int64_t phase) {
    outputs = phase < a.out ? (a.out - phase + a.stride - 1) / a.stride : 0;
    for (int64_t t = 0; t < a.kernel; ++t) {
      const int64_t at = phase + a.pad - t * a.dilation;
      if (at % a.stride != 0) continue;
      index[count] = t;
      offset[count++] = at / a.stride;
    }
  }
  bool sees(int t, int64_t j, const Axis& a) const {
    return j + offset[t] >= 0 && j + offset[t] < a.in;
  }
  // The end of the run from j, at most `end`, in which every output sees the same taps.
  int64_t run_end(int64_t j, int64_t end, const Axis& a) const {
    for (int t = 0; t < count; ++t) {
      for (const int64_t change : {-offset[t], a.in - offset[t]}) {
        if (change > j) end = std::min(end, change);
      }
    }
    return end;
  }
};

struct Plan {
  int64_t block, in_blocks, out_blocks, channels;  // per group
  Axis vertical, horizontal;
  Panels panels;

  int64_t phases() const { return vertical.stride * horizontal.stride; }
};

Plan make_plan(const ConvTranspose2dProblem& p) {
  const int64_t block = p.target.block(), channels = p.c / p.groups;
  const int64_t out_blocks = (p.k / p.groups + block - 1) / block;
  return {.block = block,
          .in_blocks = (channels + block - 1) / block,
          .out_blocks = out_blocks,
          .channels = channels,
          .vertical = {p.h, p.out_h(), p.kernel_h, p.stride_h, p.dilation_h, p.pad_top},
          .horizontal = {p.w, p.out_w(), p.kernel_w, p.stride_w, p.dilation_w, p.pad_left},
          .panels = choose_panels(p.target, out_blocks, std::max(p.w, p.h))};
}

Fit fits(const ConvTranspose2dProblem& p) {
  if (p.x_layout != Layout::kBlocked || p.y_layout != Layout::kBlocked) {
    return Fit::no("needs blocked input and output");
  }
  const int64_t block = p.target.block();
  if (p.groups != 1 && (p.c / p.groups % block != 0 || p.k / p.groups % block != 0)) {
    return Fit::no("channels per group are no multiple of the block");
  }
  if (p.kernel_h > kMostTaps || p.kernel_w > kMostTaps || p.kernel_h * p.kernel_w > kMostTaps) {
    return Fit::no("kernel too large");
  }
  const Plan plan = make_plan(p);
  const double useful = static_cast<double>(p.k / p.groups) / (plan.out_blocks * block);
  const double depth = static_cast<double>(plan.channels * p.kernel_h * p.kernel_w) / plan.phases();
  const double row = static_cast<double>(std::max(p.w, p.h));
  return Fit::yes(0.93 * useful * depth / (depth + 14) * row / (row + 1));
}

std::string packing(const ConvTranspose2dProblem& p) {
  const Plan plan = make_plan(p);
  return packing_text("conv_transpose2d_phases", 1, plan.block, plan.panels.count);
}

size_t packed_bytes(const ConvTranspose2dProblem& p) {
  const Plan plan = make_plan(p);
  const int64_t outputs = plan.out_blocks * plan.block * p.groups;
  return static_cast<size_t>(outputs *
                             (plan.in_blocks * plan.block * p.kernel_h * p.kernel_w + 1)) *
         sizeof(float);
}

// bias [outputs], then per group, panel and phase [in block][tap][lane of it][panel outputs].
void pack(const ConvTranspose2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const Plan plan = make_plan(p);
  const int64_t block = plan.block, group_k = p.k / p.groups;
  float* out = reinterpret_cast<float*>(packed);
  for (int64_t k = 0; k < plan.out_blocks * block * p.groups; ++k) {
    *out++ = p.epilogue.bias && k < p.k ? constants[1].values<float>()[k] : 0;
  }
  const auto weight = constants[0].values<float>();
  for (int64_t group = 0; group < p.groups; ++group) {
    for (int64_t panel = 0; panel < plan.panels.count; ++panel) {
      const int64_t k0 = plan.panels.begin(panel) * block;
      const int64_t width = plan.panels.vectors(panel) * block;
      for (int64_t phase = 0; phase < plan.phases(); ++phase) {
        const Phase rows(plan.vertical, phase / p.stride_w);
        const Phase columns(plan.horizontal, phase % p.stride_w);
        for (int64_t c0 = 0; c0 < plan.in_blocks * block; c0 += block) {
          for (int tap = 0; tap < rows.count * columns.count; ++tap) {
            const int64_t y = rows.index[tap / columns.count],
                          x = columns.index[tap % columns.count];
            for (int64_t c = c0; c < c0 + block; ++c) {
              for (int64_t k = k0; k < k0 + width; ++k) {
                const bool real = k < group_k && c < plan.channels;
                const int64_t filter = (group * plan.channels + c) * group_k + k;
                *out++ = real ? weight[(filter * p.kernel_h + y) * p.kernel_w + x] : 0;
              }
            }
          }
        }
      }
    }
  }
}

// Runs a rectangle of outputs of one phase that all see `tile.taps`, along its longer side. `a` and
// `c` are the offsets of its corner in x, and in y and the residual.
struct Rectangle {
  int64_t rows, columns, a, c;
};

struct Target2d {
  const float *x, *residual;
  float* y;
  int64_t a_row, a_column, c_row, c_column;  // from pixel to pixel of the phase
};

void run_rectangle(const TileSet& set, Tile& tile, const Epilogue& e, const Target2d& to,
                   const Rectangle& at, int vectors) {
  const bool across = at.columns >= at.rows;
  const int64_t lines = across ? at.rows : at.columns, length = across ? at.columns : at.rows;
  const EvenTiles parts(length, set.max_rows[vectors]);
  const bool finish = !tile_applies(e.activation);
  tile.a_row = across ? to.a_column : to.a_row;
  tile.c_row = across ? to.c_column : to.c_row;
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t a = at.a + line * (across ? to.a_row : to.a_column);
    const int64_t c = at.c + line * (across ? to.c_row : to.c_column);
    for (int64_t part = 0; part < parts.tiles; ++part) {
      const int64_t begin = parts.begin(part);
      const int rows = static_cast<int>(parts.begin(part + 1) - begin);
      const int64_t c_at = c + begin * tile.c_row;
      const float* residual = to.residual ? to.residual + c_at : nullptr;
      tile.a = to.x + a + begin * tile.a_row;
      tile.c = to.y + c_at;
      tile.residual = finish && e.residual_after_activation ? nullptr : residual;
      set.run[vectors][rows](tile);
      if (finish) set.finish(e, tile.c, tile.c_row, tile.c_vector, rows, vectors, residual);
    }
  }
}

void run(const ConvTranspose2dProblem& p, const Args& args, const Worker& worker) {
  const Plan plan = make_plan(p);
  const TileSet& set = tile_set(p.target.isa);
  const int64_t block = plan.block, out_w = plan.horizontal.out;
  const int64_t in_plane = p.h * p.w * block, out_plane = plan.vertical.out * out_w * block;
  const int64_t all_in = plan.in_blocks * p.groups, all_out = plan.out_blocks * p.groups;
  const int64_t taps_all = static_cast<int64_t>(p.kernel_h) * p.kernel_w;
  const float* x = static_cast<const float*>(args.inputs[0]);
  const float* residual = p.epilogue.residual ? static_cast<const float*>(args.inputs[1]) : nullptr;
  float* y = static_cast<float*>(args.outputs[0]);
  const float* bias = reinterpret_cast<const float*>(args.packed);
  const float* weights = bias + all_out * block;

  Tap taps[kMostTaps];
  Tile tile{.a_group = in_plane,
            .taps = taps,
            .groups = static_cast<int32_t>(plan.in_blocks),
            .steps = static_cast<int32_t>(block),
            .c_vector = out_plane};
  tile.last_steps = static_cast<int32_t>(plan.channels - (plan.in_blocks - 1) * block);
  set_epilogue(tile, p.epilogue);
  tile.far_results = beyond_l2(p.n * all_out * out_plane / worker.count);

  const int64_t most_rows = Phase(plan.vertical, 0).outputs;
  const GridPart grid =
      split_grid(p.n * most_rows, plan.panels.count * p.groups, worker, p.n * all_in * in_plane,
                 all_out * block * plan.in_blocks * block * taps_all);
  // Half a megabyte of input next to a panel of weights stays in L2.
  constexpr int64_t kBlockBytes = 512 << 10;
  const int64_t row_bytes = p.w * plan.in_blocks * block * static_cast<int64_t>(sizeof(float));
  const int64_t block_rows = std::max<int64_t>(4, kBlockBytes / row_bytes);
  for (int64_t at = grid.rows.begin; at < grid.rows.end;) {
    const int64_t image = at / most_rows, first = at % most_rows;
    const int64_t count = std::min({most_rows - first, grid.rows.end - at, block_rows});
    at += count;
    for (int64_t column = grid.columns.begin; column < grid.columns.end; ++column) {
      const int64_t group = column / plan.panels.count, panel = column % plan.panels.count;
      const int vectors = static_cast<int>(plan.panels.vectors(panel));
      const int64_t k_block = group * plan.out_blocks + plan.panels.begin(panel);
      const int64_t step = vectors * block * block;
      const int64_t out_at = (image * all_out + k_block) * out_plane;
      const Target2d to{.x = x + (image * all_in + group * plan.in_blocks) * in_plane,
                        .residual = residual ? residual + out_at : nullptr,
                        .y = y + out_at,
                        .a_row = p.w * block,
                        .a_column = block,
                        .c_row = p.stride_h * out_w * block,
                        .c_column = p.stride_w * block};
      tile.bias = bias + k_block * block;
      tile.b = weights + k_block * block * plan.in_blocks * block * taps_all;
      for (int64_t phase = 0; phase < plan.phases(); ++phase) {
        const int64_t y_phase = phase / p.stride_w, x_phase = phase % p.stride_w;
        const Phase rows(plan.vertical, y_phase), columns(plan.horizontal, x_phase);
        const int64_t row_limit = std::min(first + count, rows.outputs);
        tile.b_group = rows.count * columns.count * step;
        for (int64_t j = first; j < row_limit;) {
          const int64_t j_end = rows.run_end(j, row_limit, plan.vertical);
          for (int64_t i = 0; i < columns.outputs;) {
            const int64_t i_end = columns.run_end(i, columns.outputs, plan.horizontal);
            tile.tap_count = 0;
            for (int r = 0; r < rows.count; ++r) {
              for (int s = 0; s < columns.count; ++s) {
                if (!rows.sees(r, j, plan.vertical)) continue;
                if (!columns.sees(s, i, plan.horizontal)) continue;
                taps[tile.tap_count++] = {(rows.offset[r] * p.w + columns.offset[s]) * block,
                                          (r * columns.count + s) * step};
              }
            }
            const int64_t c_row = (j * p.stride_h + y_phase) * out_w;
            run_rectangle(set, tile, p.epilogue, to,
                          {j_end - j, i_end - i, (j * p.w + i) * block,
                           (c_row + i * p.stride_w + x_phase) * block},
                          vectors);
            i = i_end;
          }
          j = j_end;
        }
        tile.b += plan.in_blocks * tile.b_group;
      }
    }
  }
}

}  // namespace

const Row kPhaseSplit{.name = "phase_split",
                      .fits = fits,
                      .packed_bytes = packed_bytes,
                      .pack = pack,
                      .packing = packing,
                      .scratch_bytes = nullptr,
                      .run = run};

}  // namespace stretto::kernels::conv_transpose2d
