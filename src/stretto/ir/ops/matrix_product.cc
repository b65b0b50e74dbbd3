#include "stretto/ir/ops/matrix_product.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "stretto/base/cpu.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/ops/parallel.h"

namespace stretto::ir::ops {
namespace {

// One block of b (kDepth x kColumns doubles, 480 KiB) stays in the second-level cache while all
// rows of a pass over it.
constexpr int64_t kDepth = 256;
constexpr int64_t kColumns = 240;

constexpr int64_t kMaxRows = 8, kMaxColumns = 24;

// The register tile: `rows` x `columns` sums of c.
struct Tile {
  int64_t rows, columns;
  // a: the rows' beginnings, `depth` long; b: depth x columns, packed; c: rows x columns, packed,
  // overwritten.
  void (*multiply)(int64_t depth, const double* const* a, const double* b, double* c);
};

// The loops must unroll at every optimisation level, or the sums live in memory (4x slower).
template <int kRows, int kVectors, int kLanes>
[[gnu::always_inline]] inline void multiply(int64_t depth, const double* const* a, const double* b,
                                            double* c) {
  using Vector [[gnu::vector_size(kLanes * sizeof(double)), gnu::aligned(8)]] = double;
  Vector sums[kRows][kVectors] = {};
  const double* rows[kRows];
  std::copy_n(a, kRows, rows);
  for (int64_t k = 0; k < depth; ++k) {
    Vector row[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      row[v] = *reinterpret_cast<const Vector*>(b + v * kLanes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[r][v] += rows[r][k] * row[v];
    }
    b += kVectors * kLanes;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      *reinterpret_cast<Vector*>(c + (r * kVectors + v) * kLanes) = sums[r][v];
    }
  }
}

void multiply_portable(int64_t depth, const double* const* a, const double* b, double* c) {
  multiply<4, 3, 2>(depth, a, b, c);
}
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void multiply_avx2(int64_t depth, const double* const* a,
                                               const double* b, double* c) {
  multiply<4, 3, 4>(depth, a, b, c);
}
[[gnu::target("avx512f,avx512dq,avx512vl,prefer-vector-width=512")]] void multiply_avx512(
    int64_t depth, const double* const* a, const double* b, double* c) {
  multiply<8, 3, 8>(depth, a, b, c);
}
#endif

Tile best_tile() {
#if defined(__x86_64__)
  switch (usable_isa()) {
    case Isa::kAvx512:
      return {8, 24, multiply_avx512};
    case Isa::kAvx2:
      return {4, 12, multiply_avx2};
    case Isa::kPortable:
    case Isa::kNeon:
      break;
  }
#endif
  return {4, 6, multiply_portable};
}

// Buffers of one thread.
struct Workspace {
  std::unique_ptr<double[]> a = std::make_unique_for_overwrite<double[]>(kMaxRows * kDepth);
  std::unique_ptr<double[]> b = std::make_unique_for_overwrite<double[]>(kDepth * kColumns);
  std::unique_ptr<double[]> row = std::make_unique_for_overwrite<double[]>(kColumns);
  double tile[kMaxRows * kMaxColumns];
};

// One unit of work: some rows and columns of one product.
struct Block {
  const Product* product;
  int64_t row_begin, row_end, column_begin, column_end;
};

void pack_b(const Product& p, const Block& block, const Tile& tile, int64_t k0, int64_t depth,
            Workspace& w) {
  const int64_t columns = block.column_end - block.column_begin;
  for (int64_t k = 0; k < depth; ++k) {
    const double* row = w.row.get();
    if (p.b.direct != nullptr) {
      row = p.b.direct + (k0 + k) * p.b.stride + block.column_begin;
    } else {
      p.b.read(k0 + k, block.column_begin, columns, w.row.get());
    }
    for (int64_t j = 0; j < columns; j += tile.columns) {
      double* to = w.b.get() + j * depth + k * tile.columns;
      const int64_t width = std::min(tile.columns, columns - j);
      std::copy_n(row + j, width, to);
      std::fill(to + width, to + tile.columns, 0.0);
    }
  }
}

// Where the rows of one tile begin. Rows beyond the last repeat it: their sums are not used.
void find_rows(const Product& p, int64_t row, int64_t rows, const Tile& tile, int64_t k0,
               int64_t depth, Workspace& w, const double** starts) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (r >= rows) {
      starts[r] = starts[rows - 1];
    } else if (p.a.direct != nullptr) {
      starts[r] = p.a.direct + (row + r) * p.a.stride + k0;
    } else {
      double* copy = w.a.get() + r * kDepth;
      p.a.read(row + r, k0, depth, copy);
      starts[r] = copy;
    }
  }
}

void run(const Block& block, const Tile& tile, Workspace& w) {
  const Product& p = *block.product;
  const int64_t columns = block.column_end - block.column_begin;
  for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
    const int64_t depth = std::min(kDepth, p.k - k0);
    pack_b(p, block, tile, k0, depth, w);
    for (int64_t i = block.row_begin; i < block.row_end; i += tile.rows) {
      const int64_t rows = std::min(tile.rows, block.row_end - i);
      const double* starts[kMaxRows];
      find_rows(p, i, rows, tile, k0, depth, w, starts);
      for (int64_t j = 0; j < columns; j += tile.columns) {
        tile.multiply(depth, starts, w.b.get() + j * depth, w.tile);
        const int64_t width = std::min(tile.columns, columns - j);
        for (int64_t r = 0; r < rows; ++r) {
          double* c = p.c + (i + r) * p.row_stride + block.column_begin + j;
          const double* sums = w.tile + r * tile.columns;
          for (int64_t x = 0; x < width; ++x) c[x] += sums[x];
        }
      }
    }
  }
}

}  // namespace

void accumulate_products(std::span<const Product> products, ThreadTeam* team) {
  const Tile tile = best_tile();
  const int64_t threads = team == nullptr ? 1 : team->size();
  std::vector<Block> blocks;
  for (const Product& p : products) {
    const int64_t column_blocks = (p.n + kColumns - 1) / kColumns;
    // Few columns: rows are split as well, so that every thread finds work.
    const int64_t wanted = 2 * threads;
    const int64_t have = column_blocks * static_cast<int64_t>(products.size());
    const int64_t row_blocks = threads == 1 || have >= wanted || have == 0 ? 1 : wanted / have;
    const int64_t row_step =
        std::max(tile.rows, (p.m / row_blocks + tile.rows) / tile.rows * tile.rows);
    for (int64_t j = 0; j < p.n; j += kColumns) {
      for (int64_t i = 0; i < p.m; i += row_step) {
        blocks.push_back({&p, i, std::min(i + row_step, p.m), j, std::min(j + kColumns, p.n)});
      }
    }
  }
  std::vector<Workspace> workspaces(static_cast<size_t>(threads));
  const auto count = static_cast<int64_t>(blocks.size());
  std::exception_ptr interrupt;
  std::atomic<bool> stop{false};
  auto work = [&](const Worker& worker) {
    const Range range = split(count, worker);
    for (int64_t i = range.begin; i < range.end && !stop.load(std::memory_order_relaxed); ++i) {
      run(blocks[i], tile, workspaces[worker.index]);
      if (worker.index != 0) continue;
      try {
        check_interrupt();
      } catch (...) {
        interrupt = std::current_exception();
        stop.store(true, std::memory_order_relaxed);
      }
    }
  };
  if (team == nullptr || count < 2) {
    work(Worker{});
  } else {
    team->run(work);
  }
  if (interrupt) std::rethrow_exception(interrupt);
}

}  // namespace stretto::ir::ops
