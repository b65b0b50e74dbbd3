// c += a b in double precision: the core of the Conv, Gemm, MatMul and Attention references.
// Method: packed panels and a register tile, as in Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (2008).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>

#include "stretto/base/team.h"

namespace stretto::ir::ops {

// A matrix as a product reads it.
struct Rows {
  // Writes the elements [first, first + count) of row `row` to `to`.
  std::function<void(int64_t row, int64_t first, int64_t count, double* to)> read;
  // Set when the rows lie in memory as they are, `stride` elements apart.
  const double* direct = nullptr;
  int64_t stride = 0;
};

// A matrix in memory, any strides, any arithmetic element type.
template <typename T>
Rows matrix_rows(const T* data, int64_t row_stride, int64_t column_stride) {
  Rows rows;
  if constexpr (std::is_same_v<T, double>) {
    if (column_stride == 1) rows = {.direct = data, .stride = row_stride};
  }
  rows.read = [=](int64_t row, int64_t first, int64_t count, double* to) {
    const T* from = data + row * row_stride + first * column_stride;
    if (column_stride == 1) {
      std::copy_n(from, count, to);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i * column_stride]);
    }
  };
  return rows;
}

struct Product {
  int64_t m = 0, n = 0, k = 0;
  Rows a;  // m x k
  Rows b;  // k x n
  double* c = nullptr;
  int64_t row_stride = 0;  // of c; columns are neighbours
};

// All products, split over the team by columns and rows. Products must not share elements of c. The
// readers must not throw and may be called from any thread.
void accumulate_products(std::span<const Product> products, ThreadTeam* team);

}  // namespace stretto::ir::ops
