// Pointwise convolution as a product of matrices by quarters: seven products of half the rows,
// depth and columns instead of eight (Strassen 1969, in Winograd's form). A has pixels as rows and
// channels as depth, B channels and outputs.
//
// B's sums of quarters are packed; A's are made here, one at a time. What a product adds to several
// quarters of the result waits in Z and W:
//
//   Z  = A11 B11               C11 = Z + A12 B21
//   W  = (A21 + A22) T1
//   Z += (S2 = A21 + A22 - A11) T2    C12 = Z + W + (A12 - S2) B22
//   Z += (A11 - A21) T3        C22 = Z + W
//   Z += A22 (-T4)             C21 = Z
//
// with T1 = B12 - B11, T2 = B22 - T1, T3 = B22 - B12, T4 = T2 - B21.
//
// Order of work: pixels whose quarter of A, Z and W stay in L2 / product / panel / part of the
// depth / tile. The limit is 7/8 of the multiply-adds at the peak. Weights take 7/4 of their memory
// and have half as many rows each, so few pixels wait for them sooner than in gemm_1x1.
#include <algorithm>
#include <array>

#include "stretto/base/cpu.h"
#include "stretto/kernels/conv2d/candidates.h"
#include "stretto/kernels/conv2d/cpu/blocked.h"
#include "stretto/kernels/packing.h"
#include "stretto/kernels/simd/grid.h"
#include "stretto/kernels/simd/quarters.h"
#include "stretto/kernels/simd/tile.h"
#include "stretto/kernels/weights.h"

namespace stretto::kernels::conv2d {
namespace {

constexpr int kProducts = 7;

// Strides in elements.
struct Plan {
  int64_t pixels, rows;           // of an image; rows: half of them, the middle one twice if odd
  int64_t in_blocks, out_blocks;  // half of each
  int64_t plane;                  // of one block of outputs
  int64_t chunk;                  // most rows that are worked on at a time
  Panels panels;                  // of half the outputs

  int64_t out_image() const { return 2 * out_blocks * plane; }
};

Plan make_plan(const Conv2dProblem& p) {
  const int64_t block = p.target.block(), pixels = p.out_h() * p.out_w();
  Plan plan{.pixels = pixels,
            .rows = (pixels + 1) / 2,
            .in_blocks = blocks_of(p.c, block) / 2,
            .out_blocks = blocks_of(p.k, block) / 2,
            .plane = pixels * block,
            .chunk = 0,
            .panels = {0, 1, 1}};
  const TileSet& set = tile_set(p.target.isa);
  const auto choose = set.max_rows[3] >= 8 ? choose_wide_panels : choose_panels;
  plan.panels = choose(set, plan.out_blocks, plan.rows, p.target.threads);
  const int64_t row_bytes =
      (plan.in_blocks + plan.out_blocks) * block * static_cast<int64_t>(sizeof(float));
  plan.chunk = std::min(
      plan.rows, std::max<int64_t>(cpu_info().l2_bytes / 2 / row_bytes, 2 * TileSet::kMaxRows));
  return plan;
}

Fit fits(const Conv2dProblem& p) {
  if (p.kernel_h != 1 || p.kernel_w != 1) return Fit::no("kernel is not 1x1");
  if (p.pad_top | p.pad_left | p.pad_bottom | p.pad_right) return Fit::no("padded");
  if (p.groups != 1) return Fit::no("grouped");
  if (p.x_layout != Layout::kBlocked || p.y_layout != Layout::kBlocked) {
    return Fit::no("needs blocked input and output");
  }
  if (p.target.accuracy == Accuracy::kStrict) {
    return Fit::no("sums of quarters round more than accuracy=strict allows");
  }
  const int64_t block = p.target.block();
  if (p.c % (2 * block) != 0) return Fit::no("channels are no even number of blocks");
  if (blocks_of(p.k, block) % 2 != 0) return Fit::no("outputs are no even number of blocks");
  if (p.out_h() * p.out_w() < 2) return Fit::no("a single pixel");
  const Plan plan = make_plan(p);
  const double depth = static_cast<double>(p.c) / 2, outputs = static_cast<double>(p.k);
  const double useful = outputs / static_cast<double>(2 * plan.out_blocks * block);
  const double reuse = weight_reuse(p.target, static_cast<double>(plan.rows * p.n), 4.5);
  // Sums of quarters take about as long as this many multiply-adds with each value of A and of C.
  const double sums = 1 + (gathers(p) ? 8 : 5) / outputs + 3.5 / depth;
  return Fit::yes(0.97 * 8 / 7 * useful * reuse * depth / (depth + 10) / sums);
}

std::string packing(const Conv2dProblem& p) {
  return packing_text("conv2d_strassen_1x1", 1, p.target.block(), make_plan(p).panels.count);
}

int64_t product_values(const Plan& plan, int64_t block) {
  return plan.in_blocks * plan.out_blocks * block * block;
}

size_t packed_bytes(const Conv2dProblem& p) {
  const Plan plan = make_plan(p);
  const int64_t block = p.target.block();
  return static_cast<size_t>(2 * plan.out_blocks * block +
                             kProducts * product_values(plan, block)) *
         sizeof(float);
}

// bias [outputs], then per product, in the order that run() has, and panel [c][panel outputs].
void pack(const Conv2dProblem& p, std::span<const Tensor> constants, std::byte* packed) {
  const Plan plan = make_plan(p);
  const int64_t block = p.target.block();
  const int64_t depth = plan.in_blocks * block, columns = plan.out_blocks * block;
  float* out = pack_bias(p, constants, reinterpret_cast<float*>(packed));
  const auto weight = constants[0].values<float>();
  for (int product = 0; product < kProducts; ++product) {
    for (int64_t panel = 0; panel < plan.panels.count; ++panel) {
      const int64_t k0 = plan.panels.begin(panel) * block;
      const int64_t k_end = plan.panels.begin(panel + 1) * block;
      for (int64_t c = 0; c < depth; ++c) {
        for (int64_t k = k0; k < k_end; ++k) {
          const auto b = [&](int64_t down, int64_t across) -> double {
            const int64_t column = k + across * columns;
            return column < p.k ? weight[column * p.c + c + down * depth] : 0;
          };
          const double b11 = b(0, 0), b12 = b(0, 1), b21 = b(1, 0), b22 = b(1, 1);
          const double t1 = b12 - b11, t2 = b22 - t1;
          const double all[kProducts] = {b11, b21, t1, t2, b22, b22 - b12, b21 - t2};
          *out++ = static_cast<float>(all[product]);
        }
      }
    }
  }
}

// What a thread keeps: a sum of quarters of A, Z and W, one panel of a product, and the four
// quarters themselves where pixels are left out between theirs.
struct Scratch {
  int64_t a, z, panel, gathered;
  Scratch(const Conv2dProblem& p, const Plan& plan)
      : a(plan.chunk * plan.in_blocks * p.target.block()),
        z(plan.chunk * plan.out_blocks * p.target.block()),
        panel(plan.chunk * TileSet::kMaxVectors * p.target.block()),
        gathered(gathers(p) ? 4 * a : 0) {}
  int64_t values() const { return a + 2 * z + panel + gathered; }
};

size_t scratch_bytes(const Conv2dProblem& p) {
  const Scratch scratch(p, make_plan(p));
  return static_cast<size_t>(scratch.values() * p.target.threads) * sizeof(float);
}

// A quarter of A, or a sum of quarters: `group` values from one block of channels to the next.
struct Quarter {
  const float* values;
  int64_t group;
};

// Works on one chunk of rows, and on its part of the panels.
class Chunk {
 public:
  Chunk(const Conv2dProblem& p, const Plan& plan, const Args& args, float* scratch, Range panels,
        int64_t image, Range rows)
      : p_(p),
        plan_(plan),
        args_(args),
        set_(tile_set(p.target.isa)),
        block_(p.target.block()),
        panels_(panels),
        image_(image),
        first_(rows.begin),
        rows_(rows.end - rows.begin) {
    const Scratch parts(p, plan);
    sum_ = scratch;
    z_ = sum_ + parts.a;
    w_ = z_ + parts.z;
    y_ = w_ + parts.z;
    gathered_ = y_ + parts.panel;
    tile_.taps = &kNoTap;
    tile_.a_row = block_;
    tile_.steps = tile_.last_steps = static_cast<int32_t>(block_);
    tile_.c_row = block_;
    tile_.c_vector = rows_ * block_;
  }

  void run() {
    const Quarter a11 = quarter(0, 0), a12 = quarter(0, 1);
    const Quarter a21 = quarter(1, 0), a22 = quarter(1, 1);
    const Quarter sum{sum_, rows_ * block_};
    const auto nothing = [](int64_t) {};
    multiply(0, a11, z_, false, nothing);
    multiply(1, a12, nullptr, false, [&](int64_t k) { finish(0, 0, k, {z(k), y_}); });
    combine(add, a21, a22);
    multiply(2, sum, w_, false, nothing);
    combine(subtract, sum, a11);
    multiply(3, sum, z_, true, nothing);
    combine(subtract, a12, sum);
    multiply(4, sum, nullptr, false, [&](int64_t k) { finish(0, 1, k, {z(k), w(k), y_}); });
    combine(subtract, a11, a21);
    multiply(5, sum, z_, true, [&](int64_t k) { finish(1, 1, k, {z(k), w(k)}); });
    multiply(6, a22, z_, true, [&](int64_t k) { finish(1, 0, k, {z(k)}); });
  }

 private:
  const float* z(int64_t k_block) const { return z_ + k_block * rows_ * block_; }
  const float* w(int64_t k_block) const { return w_ + k_block * rows_ * block_; }

  Quarter quarter(int64_t down, int64_t across) const {
    const int64_t plane = p_.h * p_.w * block_;
    const int64_t pixel = first_ + down * (plan_.pixels - plan_.rows);
    const float* x = static_cast<const float*>(args_.inputs[0]) +
                     (2 * image_ + across) * plan_.in_blocks * plane;
    if (!gathers(p_)) return {x + pixel * block_, plane};
    float* to = gathered_ + (2 * down + across) * plan_.in_blocks * rows_ * block_;
    for (int64_t c = 0; c < plan_.in_blocks; ++c) {
      gather_pixels(p_, x + c * plane, pixel, rows_, to + c * rows_ * block_);
    }
    return {to, rows_ * block_};
  }

  void combine(decltype(add) how, const Quarter& a, const Quarter& b) {
    for (int64_t c = 0; c < plan_.in_blocks; ++c) {
      how(p_.target.isa, a.values + c * a.group, b.values + c * b.group, sum_ + c * rows_ * block_,
          rows_ * block_);
    }
  }

  // One product into `to`, or into y_ where that is null, one panel after the other; `then` gets
  // the first block of outputs of a panel that is done.
  template <typename Then>
  void multiply(int product, const Quarter& a, float* to, bool accumulate, const Then& then) {
    const float* weights = reinterpret_cast<const float*>(args_.packed) +
                           2 * plan_.out_blocks * block_ + product * product_values(plan_, block_);
    const int64_t depth = plan_.in_blocks * block_;
    tile_.a_group = a.group;
    for (int64_t panel = panels_.begin; panel < panels_.end; ++panel) {
      const int64_t k_block = plan_.panels.begin(panel);
      const int vectors = static_cast<int>(plan_.panels.vectors(panel));
      tile_.b_group = vectors * block_ * block_;
      const int64_t most = cpu_info().l2_bytes / 32 / static_cast<int64_t>(sizeof(float));
      const EvenTiles parts(plan_.in_blocks,
                            static_cast<int>(std::max<int64_t>(1, most / tile_.b_group)));
      const EvenTiles tiles(rows_, set_.max_rows[vectors]);
      float* const sums = to ? to + k_block * rows_ * block_ : y_;
      for (int64_t part = 0; part < parts.tiles; ++part) {
        const int64_t c_block = parts.begin(part);
        tile_.groups = static_cast<int32_t>(parts.begin(part + 1) - c_block);
        tile_.b = weights + k_block * block_ * depth + c_block * tile_.b_group;
        tile_.accumulate = accumulate || part != 0;
        const int64_t values = tile_.groups * tile_.b_group;
        for (int64_t t = 0; t < tiles.tiles; ++t) {
          const int64_t row = tiles.begin(t);
          tile_.a = a.values + row * block_ + c_block * a.group;
          tile_.c = sums + row * block_;
          set_prefetch(tile_, tile_.b + values, values, t, tiles.tiles);
          set_.run[vectors][tiles.begin(t + 1) - row](tile_);
        }
      }
      then(k_block);
    }
  }

  // Writes a panel of a quarter of the result from sums of its vectors.
  void finish(int64_t down, int64_t across, int64_t k_block, std::array<const float*, 3> terms) {
    // With an odd number of pixels the middle one is in both halves: the upper one writes it, for a
    // residual in place is read only once.
    const int64_t skipped = down == 1 && first_ == 0 ? 2 * plan_.rows - plan_.pixels : 0;
    const int64_t pixel = first_ + down * (plan_.pixels - plan_.rows) + skipped;
    const int64_t panel_end = k_block + vectors_at(k_block);
    for (int64_t k = k_block; k < panel_end; ++k) {
      const int64_t out = k + across * plan_.out_blocks;
      const int64_t c = image_ * plan_.out_image() + out * plan_.plane + pixel * block_;
      const float* residual =
          p_.epilogue.residual ? static_cast<const float*>(args_.inputs[1]) + c : nullptr;
      std::array<const float*, 3> from = terms;
      for (const float*& term : from) {
        if (term) term += ((k - k_block) * rows_ + skipped) * block_;
      }
      finish_sums(p_.target.isa, p_.epilogue, from,
                  reinterpret_cast<const float*>(args_.packed) + out * block_, residual,
                  static_cast<float*>(args_.outputs[0]) + c, rows_ - skipped);
    }
  }

  int64_t vectors_at(int64_t k_block) const {
    for (int64_t panel = panels_.begin;; ++panel) {
      if (plan_.panels.begin(panel) == k_block) return plan_.panels.vectors(panel);
    }
  }

  const Conv2dProblem& p_;
  const Plan& plan_;
  const Args& args_;
  const TileSet& set_;
  const int64_t block_;
  const Range panels_;
  const int64_t image_, first_, rows_;
  float *sum_, *z_, *w_, *y_, *gathered_;
  Tile tile_;
};

void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  const Plan plan = make_plan(p);
  const Scratch parts(p, plan);
  float* scratch = reinterpret_cast<float*>(args.scratch) + worker.index * parts.values();
  const GridPart grid =
      split_grid(p.n * plan.rows, plan.panels.count, worker, p.n * plan.rows * p.c, p.c * p.k);
  for (int64_t at = grid.rows.begin; at < grid.rows.end;) {
    const int64_t image = at / plan.rows, first = at % plan.rows;
    const int64_t count = std::min(plan.rows - first, grid.rows.end - at);
    const EvenTiles chunks(count, static_cast<int>(plan.chunk));
    for (int64_t i = 0; i < chunks.tiles; ++i) {
      Chunk(p, plan, args, scratch, grid.columns, image,
            {first + chunks.begin(i), first + chunks.begin(i + 1)})
          .run();
    }
    at += count;
  }
}

}  // namespace

const Row kStrassen1x1{.name = "strassen_1x1",
                       .fits = fits,
                       .packed_bytes = packed_bytes,
                       .pack = pack,
                       .packing = packing,
                       .scratch_bytes = scratch_bytes,
                       .in_place = over_residual,
                       .run = run};

}  // namespace stretto::kernels::conv2d
