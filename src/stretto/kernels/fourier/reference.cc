#include <algorithm>

#include "stretto/kernels/fourier/candidates.h"
#include "stretto/tensor/fourier.h"

namespace stretto::kernels::fourier {
namespace {

using Complex = std::complex<double>;

Fit fits(const FourierProblem&) { return Fit::yes(0.001); }

template <typename T>
void run_typed(const FourierProblem& p, const Args& args, const Worker& worker) {
  const T* window = p.window ? static_cast<const T*>(args.inputs[1]) : nullptr;
  const Range rows = split(p.rows(), worker);
  if (rows.begin == rows.end) return;
  FourierTransform transform(p.length);
  std::vector<Complex> row(static_cast<size_t>(p.length));
  const double scale = p.inverse ? 1 / static_cast<double>(p.length) : 1;
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const T* x = static_cast<const T*>(args.inputs[0]) + row_in_x(p, r);
    T* y = static_cast<T*>(args.outputs[0]) + row_in_y(p, r);
    std::fill(row.begin(), row.end(), Complex(0));
    for (int64_t j = 0; j < std::min(p.counted(), p.size); ++j) {
      const T* from = x + j * p.inner * p.parts;
      const double factor = window != nullptr ? static_cast<double>(window[j]) : 1;
      row[j] = factor * Complex(static_cast<double>(from[0]),
                                p.parts == 2 ? static_cast<double>(from[1]) : 0);
      const int64_t mirror = p.length - j;
      if (p.kept_parts == 1 && j > 0 && mirror > j) row[mirror] = std::conj(row[j]);
    }
    transform.run(row.data(), p.inverse != 0);
    for (int64_t k = 0; k < p.kept; ++k) {
      T* to = y + k * p.inner * p.kept_parts;
      to[0] = static_cast<T>(row[k].real() * scale);
      if (p.kept_parts == 2) to[1] = static_cast<T>(row[k].imag() * scale);
    }
  }
}

void run(const FourierProblem& p, const Args& args, const Worker& worker) {
  p.dtype == DType::kFloat64 ? run_typed<double>(p, args, worker)
                             : run_typed<float>(p, args, worker);
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::fourier
