#include "stretto/kernels/fourier/cpu/plan.h"

#include <algorithm>

#include "stretto/tensor/fourier.h"

namespace stretto::kernels::fourier {
namespace {

constexpr int64_t kLargestRadix = 61;
constexpr int kMostLanes = 8;                // as many as a last pass of a row joins
constexpr int64_t kMostInColumns = 1 << 20;  // numbers of a plane: beyond, caches are too small

// Vector instructions per complex number of a pass, about: loads, stores and arithmetic.
double pass_cost(int64_t radix) {
  switch (radix) {
    case 2:
      return 7;
    case 3:
      return 9.5;
    case 4:
      return 9;
    case 5:
      return 11.5;
    case 7:
      return 15;
    default:
      return 8 + 2.5 * static_cast<double>(radix);
  }
}

// Splits `count` into radices; false if it has a large prime factor.
bool split_radices(int64_t count, Core& core) {
  core.radices = 0;
  for (int64_t radix : {4, 2, 3, 5, 7}) {
    for (; count % radix == 0; count /= radix) {
      core.radix[core.radices++] = static_cast<uint8_t>(radix);
    }
  }
  for (int64_t radix = 11; radix <= kLargestRadix; radix += 2) {
    for (; count % radix == 0; count /= radix) {
      core.radix[core.radices++] = static_cast<uint8_t>(radix);
    }
  }
  return count == 1;
}

// A core of n numbers in rows, with the most lanes that divide them; cost per row.
bool row_core(int64_t n, int lanes, int least, Core& core) {
  for (; lanes >= least; lanes /= 2) {
    if (n % lanes != 0) continue;
    core.n = n;
    core.count = n / lanes;
    core.lanes = lanes;
    return split_radices(core.count, core);
  }
  return false;
}

double cost(const Core& core, bool join) {
  double passes = join ? 14 : 4;
  for (int i = 0; i < core.radices; ++i) passes += pass_cost(core.radix[i]);
  return passes * static_cast<double>(core.count);
}

// The cheapest length of at least 2 n - 1 numbers.
Core convolution_core(int64_t n, int lanes) {
  const int64_t least = (2 * n - 1 + lanes - 1) / lanes;
  Core best;
  double best_cost = 0;
  for (const int64_t odd : {1, 3, 5, 7, 9, 15, 21, 25, 27, 35, 45}) {
    int64_t count = odd;
    while (count < least) count *= 2;
    Core core{.n = count * lanes, .count = count, .lanes = lanes};
    split_radices(count, core);
    const double this_cost = cost(core, true);
    if (best_cost != 0 && this_cost >= best_cost) continue;
    best = core;
    best_cost = this_cost;
  }
  return best;
}

void lay_out(const FourierProblem& p, Plan& plan) {
  int64_t at = 0, inner = plan.core.count;
  for (int i = 0; i < plan.core.radices; ++i) {
    inner /= plan.core.radix[i];
    at += pass_numbers(plan.core.radix[i], inner);
  }
  const auto planes = [&](int64_t& table, int64_t numbers) {
    table = at = padded(at);
    at += 2 * padded(numbers);
  };
  if (plan.way != Way::kColumns) planes(plan.join, plan.core.n);
  if (plan.half) planes(plan.unfold, plan.n);
  if (plan.way == Way::kConvolution) {
    planes(plan.chirp, plan.n);
    planes(plan.response, plan.core.n);
  }
  plan.table_numbers = padded(at);
  const int64_t lanes = plan.core.lanes;
  // Squares of short rows are read whole.
  plan.plane = padded(std::max(plan.core.count * lanes, lanes * lanes));
  plan.scratch_numbers = 4 * plan.plane;
  if (plan.way != Way::kColumns) plan.scratch_numbers += 2 * padded(2 * p.length + 2);
}

}  // namespace

Plan plan_of(const FourierProblem& p) {
  const bool wide = p.dtype == DType::kFloat64;
  const int lanes = std::min(p.target.lanes() / (wide ? 2 : 1), kMostLanes);
  const int least = std::max(lanes / 4, wide ? 2 : 4);
  const bool real = p.parts == 1 || p.kept_parts == 1;
  const auto rows = static_cast<double>(p.rows());
  Plan plan;
  plan.half = real && !(p.parts == 1 && p.kept_parts == 1) && p.length % 2 == 0;
  plan.n = plan.half ? p.length / 2 : p.length;

  Core columns{.n = p.length, .count = p.length, .lanes = lanes};
  const bool can_columns = split_radices(p.length, columns) && p.length <= kMostInColumns / lanes;
  const bool together = can_columns && p.inner >= lanes;
  if (!together && row_core(plan.n, lanes, least, plan.core)) {
    plan.way = Way::kRow;
  } else {
    plan.way = Way::kConvolution;
    plan.core = convolution_core(plan.n, lanes);
    const double groups = static_cast<double>((p.rows() + lanes - 1) / lanes);
    const double gathered =
        together ? 0 : 2.0 * static_cast<double>(lanes) * static_cast<double>(p.length);
    if (can_columns && (together || groups * (cost(columns, false) + gathered) <
                                        rows * 2 * cost(plan.core, true))) {
      plan.way = Way::kColumns;
      plan.half = false;
      plan.n = p.length;
      plan.core = columns;
    }
  }
  lay_out(p, plan);
  return plan;
}

template <typename T>
void write_tables(const FourierProblem& p, const Plan& plan, T* tables) {
  std::fill_n(tables, plan.table_numbers, T{0});
  const Core& core = plan.core;
  const auto put = [](T*& to, std::complex<double> value) {
    *to++ = static_cast<T>(value.real());
    *to++ = static_cast<T>(value.imag());
  };
  const auto put_planes = [](T* planes, int64_t numbers, int64_t i, std::complex<double> value) {
    planes[i] = static_cast<T>(value.real());
    planes[padded(numbers) + i] = static_cast<T>(value.imag());
  };
  const RootsOfUnity roots(core.n);
  T* to = tables;
  int64_t done = 1;
  for (int i = 0; i < core.radices; ++i) {
    const int64_t radix = core.radix[i], inner = core.count / (done * radix);
    for (int64_t at = 1; at < inner; ++at) {
      for (int64_t u = 1; u < radix; ++u) put(to, roots(u * at * done * (core.n / core.count)));
    }
    if (radix > kLargestOwnRadix) {
      for (int64_t j = 0; j < radix; ++j) put(to, roots(j * (core.n / radix)));
    }
    done *= radix;
  }
  if (plan.way != Way::kColumns) {
    for (int64_t lane = 0; lane < core.lanes; ++lane) {
      for (int64_t k = 0; k < core.count; ++k) {
        put_planes(tables + plan.join, core.n, lane * core.count + k, roots(lane * k));
      }
    }
  }
  if (plan.half) {
    const RootsOfUnity of_all(p.length);
    for (int64_t k = 0; k < plan.n; ++k) {
      put_planes(tables + plan.unfold, plan.n, k, of_all(k));
    }
  }
  if (plan.way != Way::kConvolution) return;
  const RootsOfUnity halves(2 * plan.n);
  std::vector<std::complex<double>> response(static_cast<size_t>(core.n));
  for (int64_t i = 0; i < plan.n; ++i) {
    const std::complex<double> chirp = halves(i * i % (2 * plan.n));
    put_planes(tables + plan.chirp, plan.n, i, chirp);
    response[i] = std::conj(chirp);
    if (i > 0) response[core.n - i] = response[i];
  }
  FourierTransform(core.n).run(response.data(), false);
  for (int64_t i = 0; i < core.n; ++i) {
    put_planes(tables + plan.response, core.n, i, response[i] / static_cast<double>(core.n));
  }
}

template void write_tables<float>(const FourierProblem&, const Plan&, float*);
template void write_tables<double>(const FourierProblem&, const Plan&, double*);

}  // namespace stretto::kernels::fourier
