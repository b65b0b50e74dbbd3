// How both packed kernels cut the columns, and what they share of the work around the tiles.
#pragma once

#include <algorithm>

#include "stretto/kernels/matmul_integer/candidates.h"
#include "stretto/kernels/simd/grid.h"

namespace stretto::kernels::matmul_integer {

constexpr int kMostRows = 6;  // of a tile

struct IntegerPlan {
  int64_t lanes, columns;  // columns: n in whole vectors
  Panels panels;
};

inline IntegerPlan make_integer_plan(const MatmulIntegerProblem& p, int64_t width) {
  const int64_t lanes = p.target.lanes(), blocks = (p.n + lanes - 1) / lanes;
  return {lanes, blocks * lanes, Panels{blocks, width, width, p.target.threads}};
}

// weight[k, n] to [panel][k / group][column][k % group] with zeros behind k and n, each as a T.
template <typename T>
void pack_groups(const MatmulIntegerProblem& p, const IntegerPlan& plan, int64_t group,
                 const int8_t* weight, T* out) {
  for (int64_t panel = 0; panel < plan.panels.count; ++panel) {
    const int64_t first = plan.panels.begin(panel) * plan.lanes;
    const int64_t end = first + plan.panels.vectors(panel) * plan.lanes;
    for (int64_t k0 = 0; k0 < p.k; k0 += group) {
      for (int64_t n = first; n < end; ++n) {
        for (int64_t k = k0; k < k0 + group; ++k) {
          *out++ = k < p.k && n < p.n ? static_cast<T>(weight[k * p.n + n]) : T{0};
        }
      }
    }
  }
}

}  // namespace stretto::kernels::matmul_integer
