// Pointwise convolution as a product of matrices by quarters: seven products of half the rows,
// depth and columns instead of eight (Strassen 1969, in Winograd's form). A has pixels as rows and
// channels as depth, B channels and outputs.
//
// B's sums of quarters are packed. A's are made here: by one thread one at a time, when it needs
// them and while the quarters are in L2; for a team all of them in a phase of their own. What a
// product adds to several quarters of the result waits in Z and W:
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
#include "stretto/kernels/cycles.h"
#include "stretto/kernels/packing.h"
#include "stretto/kernels/simd/grid.h"
#include "stretto/kernels/simd/quarters.h"
#include "stretto/kernels/simd/tile.h"

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
  plan.panels = choose(p.target, plan.out_blocks, plan.rows, p.target.threads);
  const int64_t row_bytes =
      (plan.in_blocks + plan.out_blocks) * block * static_cast<int64_t>(sizeof(float));
  plan.chunk = std::min(
      plan.rows, std::max<int64_t>(cpu_info().l2_bytes / 2 / row_bytes, 2 * TileSet::kMaxRows));
  return plan;
}

int64_t product_values(const Plan& plan, int64_t block) {
  return plan.in_blocks * plan.out_blocks * block * block;
}

// Splits half the depth, for a panel with `group` values of weights for each block of it.
EvenTiles parts_of(const Plan& plan, int64_t group) {
  const int64_t most = cpu_info().l2_bytes / 32 / static_cast<int64_t>(sizeof(float));
  return {plan.in_blocks, static_cast<int>(std::max<int64_t>(1, most / group))};
}

// Whether the sums of quarters of A are made once for all threads.
bool shares_sums(const Conv2dProblem& p) { return p.target.threads > 1; }

double cycles(const Conv2dProblem& p, const Plan& plan) {
  constexpr double kStart = 19;
  constexpr double kExposed = 0.3;
  // Of a vector of A, of C. A team hands the sums of A over from core to core first.
  constexpr double kSums = 2.5, kGatheredSums = 4, kHandOver = 2.5e4;
  const double finish = shares_sums(p) ? 8 : 4.5;
  const TileSet& set = tile_set(p.target.isa);
  const int64_t block = p.target.block();
  TileWork work;
  add_panels(work, set, plan.panels, kProducts, plan.rows,
             static_cast<double>(plan.in_blocks * block),
             [&](int v) { return parts_of(plan, v * block * block).tiles; });
  TileWork results;
  results.results = static_cast<double>(4 * plan.rows * plan.out_blocks);
  const double sums =
      (gathers(p) ? kGatheredSums : kSums) * static_cast<double>(4 * plan.rows * plan.in_blocks) +
      finish * results.results;
  const double image =
      tile_cycles(work, kStart, Epilogue{}) + tile_cycles(results, 0, p.epilogue) + sums;
  const ShareSize share = largest_share(p.n * plan.rows, plan.panels.count, p.target.threads,
                                        p.n * plan.rows * p.c, p.c * p.k);
  const int64_t chunks = (plan.rows + plan.chunk - 1) / plan.chunk;
  const auto images = static_cast<double>(p.n);
  const WeightWork weights{
      .bytes = static_cast<double>(kProducts * product_values(plan, block) * 4),
      .part = share.of_columns,
      .passes = share.passes(images * static_cast<double>(chunks)),
      .exposed = kExposed};
  return run_cycles(p.target, images * image * share.of_all, weights) +
         (shares_sums(p) ? kHandOver : 0);
}

Fit fits(const Conv2dProblem& p) {
  if (p.kernel_h != 1 || p.kernel_w != 1) return Fit::no("kernel is not 1x1");
  if (p.pad_top | p.pad_left | p.pad_bottom | p.pad_right) return Fit::no("padded");
  if (p.groups != 1) return Fit::no("grouped");
  if (p.exact) return Fit::no("sums of quarters round");
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
  // Three quarters more weights take memory, and caches from the operators around it and from
  // neighbours of the core: a smaller gain is not worth them.
  constexpr double kWorth = 0.96;
  return Fit::yes(kWorth * expected_share(p.target, problem_flops(p), cycles(p, make_plan(p))));
}

std::string packing(const Conv2dProblem& p) {
  return packing_text("conv2d_strassen_1x1", 1, p.target.block(), make_plan(p).panels.count);
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

int phases(const Conv2dProblem& p) { return shares_sums(p) ? 2 : 1; }

// Values of scratch. For all threads, or else per thread: a sum of quarters of A (all four for all
// threads), and the four quarters themselves where pixels are left out between theirs. Then per
// thread Z and W, and one panel of a product.
struct Scratch {
  int64_t a, gathered, z, panel;
  bool shared;
  Scratch(const Conv2dProblem& p, const Plan& plan) : shared(shares_sums(p)) {
    const int64_t block = p.target.block();
    const int64_t quarter = (shared ? p.n * plan.rows : plan.chunk) * plan.in_blocks * block;
    a = shared ? 4 * quarter : quarter;
    gathered = gathers(p) ? 4 * quarter : 0;
    z = plan.chunk * plan.out_blocks * block;
    panel = plan.chunk * TileSet::kMaxVectors * block;
  }
  int64_t shared_values() const { return shared ? a + gathered : 0; }
  int64_t thread_values() const { return (shared ? 0 : a + gathered) + 2 * z + panel; }
};

size_t scratch_bytes(const Conv2dProblem& p) {
  const Scratch scratch(p, make_plan(p));
  return static_cast<size_t>(scratch.shared_values() + scratch.thread_values() * p.target.threads) *
         sizeof(float);
}

// A quarter of A, or a sum of quarters: `group` values from one block of channels to the next.
struct Quarter {
  const float* values;
  int64_t group;
};

// Where pixel `row` of a half of an image lies in the image's maps.
int64_t pixel_of(const Plan& plan, int64_t row, int64_t down) {
  return row + down * (plan.pixels - plan.rows);
}

// Rows from `row` on of the quarter (down, across) of an image; `count` of them are gathered into
// `to` where pixels are left out, from block `c_begin` up to `c_end`.
Quarter quarter_of(const Conv2dProblem& p, const Plan& plan, const float* x, int64_t image,
                   int64_t row, int64_t count, int64_t down, int64_t across, float* to,
                   int64_t to_group, int64_t c_begin, int64_t c_end) {
  const int64_t block = p.target.block(), plane = p.h * p.w * block;
  const int64_t pixel = pixel_of(plan, row, down);
  x += (2 * image + across) * plan.in_blocks * plane;
  if (!gathers(p)) return {x + pixel * block, plane};
  for (int64_t c = c_begin; c < c_end; ++c) {
    gather_pixels(p, x + c * plane, pixel, count, to + c * to_group);
  }
  return {to, to_group};
}

// Where the sums of an image, and its gathered quarters, lie that all threads share: each
// [block of channels][row].
struct SharedQuarters {
  float *sums, *gathered;
  int64_t quarter, group;
  SharedQuarters(const Conv2dProblem& p, const Plan& plan, const Args& args, int64_t image)
      : quarter(plan.in_blocks * plan.rows * p.target.block()),
        group(plan.rows * p.target.block()) {
    float* scratch = reinterpret_cast<float*>(args.scratch);
    sums = scratch + image * 4 * quarter;
    gathered = scratch + (p.n + image) * 4 * quarter;
  }
};

// The first phase for a team: unit by unit of the blocks of channels.
void make_sums(const Conv2dProblem& p, const Plan& plan, const Args& args, const Worker& worker) {
  const Isa isa = p.target.isa;
  const Range work = split(p.n * plan.in_blocks, worker);
  for (int64_t i = work.begin; i < work.end; ++i) {
    const int64_t image = i / plan.in_blocks, c = i % plan.in_blocks;
    const SharedQuarters to(p, plan, args, image);
    const float* a[2][2];
    for (int64_t q = 0; q < 4; ++q) {
      const Quarter from =
          quarter_of(p, plan, static_cast<const float*>(args.inputs[0]), image, 0, plan.rows, q / 2,
                     q % 2, to.gathered + q * to.quarter, to.group, c, c + 1);
      a[q / 2][q % 2] = from.values + c * from.group;
    }
    float* sum = to.sums + c * to.group;
    add(isa, a[1][0], a[1][1], sum, to.group);
    subtract(isa, sum, a[0][0], sum + to.quarter, to.group);
    subtract(isa, a[0][1], sum + to.quarter, sum + 2 * to.quarter, to.group);
    subtract(isa, a[0][0], a[1][0], sum + 3 * to.quarter, to.group);
  }
}

// Works on one chunk of rows, and on its part of the panels.
class Chunk {
 public:
  Chunk(const Conv2dProblem& p, const Plan& plan, const Args& args, int thread, Range panels,
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
    z_ = reinterpret_cast<float*>(args.scratch) + parts.shared_values() +
         thread * parts.thread_values();
    w_ = z_ + parts.z;
    y_ = w_ + parts.z;
    sum_ = y_ + parts.panel;
    gathered_ = sum_ + parts.a;
    tile_.taps = &kNoTap;
    tile_.a_row = block_;
    tile_.steps = tile_.last_steps = static_cast<int32_t>(block_);
    tile_.c_row = block_;
    tile_.c_vector = rows_ * block_;
  }

  void run() {
    const Quarter a11 = quarter(0, 0), a12 = quarter(0, 1);
    const Quarter a21 = quarter(1, 0), a22 = quarter(1, 1);
    const auto nothing = [](int64_t) {};
    multiply(0, a11, z_, false, nothing);
    multiply(1, a12, nullptr, false, [&](int64_t panel) {
      finish(0, 0, panel, {z_, nullptr, y_});
    });
    multiply(2, sum(0, add, a21, a22), w_, false, nothing);
    multiply(3, sum(1, subtract, sums(), a11), z_, true, nothing);
    multiply(4, sum(2, subtract, a12, sums()), nullptr, false, [&](int64_t panel) {
      finish(0, 1, panel, {z_, w_, y_});
    });
    multiply(5, sum(3, subtract, a11, a21), z_, true, [&](int64_t panel) {
      finish(1, 1, panel, {z_, w_});
    });
    multiply(6, a22, z_, true, [&](int64_t panel) { finish(1, 0, panel, {z_}); });
  }

 private:
  Quarter quarter(int64_t down, int64_t across) const {
    const int64_t index = 2 * down + across;
    if (shares_sums(p_) && gathers(p_)) {
      const SharedQuarters from(p_, plan_, args_, image_);
      return {from.gathered + index * from.quarter + first_ * block_, from.group};
    }
    const int64_t group = rows_ * block_;
    return quarter_of(p_, plan_, static_cast<const float*>(args_.inputs[0]), image_, first_, rows_,
                      down, across, gathered_ + index * plan_.in_blocks * group, group, 0,
                      plan_.in_blocks);
  }

  Quarter sums() const { return {sum_, rows_ * block_}; }

  // The sum `index`, which is made of `a` and `b` unless all threads share it.
  Quarter sum(int64_t index, decltype(add) how, const Quarter& a, const Quarter& b) {
    if (shares_sums(p_)) {
      const SharedQuarters from(p_, plan_, args_, image_);
      return {from.sums + index * from.quarter + first_ * block_, from.group};
    }
    for (int64_t c = 0; c < plan_.in_blocks; ++c) {
      how(p_.target.isa, a.values + c * a.group, b.values + c * b.group, sum_ + c * rows_ * block_,
          rows_ * block_);
    }
    return sums();
  }

  // One product into `to`, or into y_ where that is null, one panel after the other; `then` gets
  // each when it is done.
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
      const EvenTiles parts = parts_of(plan_, tile_.b_group);
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
          set_prefetch(tile_, tile_.b + values, values, t, tiles.tiles, rows_);
          set_.run[vectors][tiles.begin(t + 1) - row](tile_);
        }
      }
      then(panel);
    }
  }

  // Writes a panel of a quarter of the result: the sum of up to three of z_, w_ and y_.
  void finish(int64_t down, int64_t across, int64_t panel, std::array<const float*, 3> terms) {
    // With an odd number of pixels the middle one is in both halves: the upper one writes it, for a
    // residual in place is read only once.
    const int64_t skipped = down == 1 && first_ == 0 ? 2 * plan_.rows - plan_.pixels : 0;
    const int64_t pixel = pixel_of(plan_, first_ + skipped, down);
    const int64_t begin = plan_.panels.begin(panel), end = plan_.panels.begin(panel + 1);
    for (int64_t k = begin; k < end; ++k) {
      const int64_t out = k + across * plan_.out_blocks;
      const int64_t c = (image_ * 2 * plan_.out_blocks + out) * plan_.plane + pixel * block_;
      const float* residual =
          p_.epilogue.residual ? static_cast<const float*>(args_.inputs[1]) + c : nullptr;
      std::array<const float*, 3> from = terms;
      for (const float*& term : from) {
        if (term) term += ((term == y_ ? k - begin : k) * rows_ + skipped) * block_;
      }
      finish_sums(p_.target.isa, p_.epilogue, from,
                  reinterpret_cast<const float*>(args_.packed) + out * block_, residual,
                  static_cast<float*>(args_.outputs[0]) + c, rows_ - skipped);
    }
  }

  const Conv2dProblem& p_;
  const Plan& plan_;
  const Args& args_;
  const TileSet& set_;
  const int64_t block_;
  const Range panels_;
  const int64_t image_, first_, rows_;
  float *z_, *w_, *y_, *sum_, *gathered_;
  Tile tile_;
};

void run(const Conv2dProblem& p, const Args& args, const Worker& worker) {
  const Plan plan = make_plan(p);
  if (shares_sums(p) && worker.phase == 0) return make_sums(p, plan, args, worker);
  const GridPart grid =
      split_grid(p.n * plan.rows, plan.panels.count, worker, p.n * plan.rows * p.c, p.c * p.k);
  for (int64_t at = grid.rows.begin; at < grid.rows.end;) {
    const int64_t image = at / plan.rows, first = at % plan.rows;
    const int64_t count = std::min(plan.rows - first, grid.rows.end - at);
    const EvenTiles chunks(count, static_cast<int>(plan.chunk));
    for (int64_t i = 0; i < chunks.tiles; ++i) {
      Chunk(p, plan, args, worker.thread, grid.columns, image,
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
                       .phases = phases,
                       .run = run};

}  // namespace stretto::kernels::conv2d
