// c += a b in double precision: the core of the Conv, Gemm, MatMul and Attention references.
// Method: packed panels and a register tile, as in Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (2008).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "stretto/base/team.h"

namespace stretto::ir::ops {

// Writes the elements [first, first + count) of matrix row `row` to `to`.
using ReadRow = std::function<void(int64_t row, int64_t first, int64_t count, double* to)>;

// Reads a matrix in memory, any strides, any arithmetic element type.
template <typename T>
ReadRow matrix_rows(const T* data, int64_t row_stride, int64_t column_stride) {
  return [=](int64_t row, int64_t first, int64_t count, double* to) {
    const T* from = data + row * row_stride + first * column_stride;
    if (column_stride == 1) {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i * column_stride]);
    }
  };
}

struct Product {
  int64_t m = 0, n = 0, k = 0;
  ReadRow a;         // m x k
  ReadRow b;         // k x n
  double* c = nullptr;
  int64_t row_stride = 0;  // of c; columns are neighbours
};

// All products, split over the team by columns and rows. Products must not share elements of c. The readers
// must not throw and may be called from any thread.
void accumulate_products(std::span<const Product> products, ThreadTeam* team);

}  // namespace stretto::ir::ops
