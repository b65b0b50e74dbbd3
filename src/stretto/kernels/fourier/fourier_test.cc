#include "stretto/kernels/fourier/problem.h"

#include <cmath>

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// Relative to the largest value. Twiddles are rounded once and every pass rounds; a convolution
// does two transforms and three products.
constexpr double kTolerance = 2e-6;
constexpr double kDoubleTolerance = 4e-15;

int check_both(FourierProblem p) {
  int checked = 0;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    p.dtype = dtype;
    checked += check_rows(kFourier, p, dtype == DType::kFloat32 ? kTolerance : kDoubleTolerance);
  }
  return checked;
}

FourierProblem forward(int64_t outer, int64_t length, int64_t inner = 1, uint8_t parts = 2) {
  return {.outer = outer,
          .size = length,
          .inner = inner,
          .length = length,
          .kept = parts == 1 ? length / 2 + 1 : length,
          .parts = parts};
}

FourierProblem backward(int64_t outer, int64_t length, int64_t inner = 1, uint8_t kept_parts = 2) {
  return {.outer = outer,
          .size = kept_parts == 1 ? length / 2 + 1 : length,
          .inner = inner,
          .length = length,
          .kept = length,
          .kept_parts = kept_parts,
          .inverse = 1};
}

TEST(Fourier, EveryLength) {
  for (int64_t length = 1; length <= 140; ++length) {
    for (const uint8_t parts : {1, 2}) {
      EXPECT_GT(check_both(forward(3, length, 1, parts)), 0);
      check_both(backward(2, length, 1, parts));
    }
  }
}

// Radices of every kind, halves that are odd, large primes, and twice one.
TEST(Fourier, LongerLengths) {
  for (const int64_t length :
       {160,  200,  255,  256,  400,  441,  512,  600,  1000, 1001,  1021,
        1024, 1232, 1536, 2042, 2048, 2053, 3721, 4096, 4999, 16000, 17017}) {
    for (const uint8_t parts : {1, 2}) {
      check_both(forward(1, length, 1, parts));
      check_both(backward(1, length, 1, parts));
    }
  }
}

TEST(Fourier, AxesAndThreads) {
  for (const int threads : {1, 2, 3}) {
    for (const int64_t inner : {2, 3, 16, 21, 40}) {
      for (const int64_t length : {1, 6, 15, 16, 48, 67, 128}) {
        for (const uint8_t parts : {1, 2}) {
          FourierProblem p = forward(3, length, inner, parts);
          p.target.threads = threads;
          check_both(p);
          p = backward(2, length, inner, parts);
          p.target.threads = threads;
          check_both(p);
        }
      }
    }
  }
}

TEST(Fourier, RowsOfOddLengthShareVectors) {
  for (const int64_t outer : {1, 5, 15, 16, 17, 50}) {
    for (const int64_t length : {9, 50, 225}) {
      for (const uint8_t parts : {1, 2}) {
        check_both(forward(outer, length, 1, parts));
        check_both(backward(outer, length, 1, parts));
      }
    }
  }
}

TEST(Fourier, PaddedAndCutSignals) {
  for (const int64_t length : {1, 8, 9, 32, 50, 64, 134, 512}) {
    for (const int64_t size : {int64_t{1}, length / 2 + 1, length + 1, 2 * length}) {
      for (const int64_t inner : {1, 20}) {
        for (const uint8_t parts : {1, 2}) {
          FourierProblem p = forward(3, length, inner, parts);
          p.size = size;
          check_both(p);
          p = backward(3, length, inner, parts);
          p.size = size;
          check_both(p);
        }
      }
    }
  }
}

// What ONNX allows and PyTorch does not.
TEST(Fourier, WholeSpectraOfRealNumbersAndHalvesOfComplexOnes) {
  for (const int64_t length : {1, 2, 6, 32, 33, 134, 512}) {
    for (const int64_t inner : {1, 18}) {
      for (const uint8_t inverse : {0, 1}) {
        FourierProblem p = forward(2, length, inner, 1);
        p.kept = length;
        p.inverse = inverse;
        check_both(p);
        p = forward(2, length, inner, 2);
        p.kept = length / 2 + 1;
        p.inverse = inverse;
        check_both(p);
      }
      FourierProblem p = backward(2, length, inner, 1);
      p.parts = 1;
      check_both(p);
    }
  }
}

TEST(Fourier, FramesUnderAWindow) {
  for (const int64_t length : {5, 16, 25, 64, 400, 67}) {
    for (const uint8_t window : {0, 1}) {
      for (const uint8_t parts : {1, 2}) {
        FourierProblem p = forward(2, length, 1, parts);
        p.frames = 7;
        p.step = 3;
        p.size = length + 6 * 3 + 2;
        p.window = window;
        for (const int threads : {1, 3}) {
          p.target.threads = threads;
          check_both(p);
        }
      }
    }
  }
}

// The sum of squares bounds the error as a whole more closely than the largest value does.
TEST(Fourier, ErrorIsThatOfSinglePrecision) {
  for (const int64_t length : {400, 1024, 4096, 16000, 4999, 65537, 80000}) {
    for (const uint8_t parts : {1, 2}) {
      const FourierProblem p = forward(1, length, 1, parts);
      Workbench bench(kFourier, &p, 3);
      bench.unalign_inputs();
      bench.run(kFourier.reference);
      const std::vector<float> expected(bench.output(0).begin(), bench.output(0).end());
      bench.run(find_row(kFourier, "mixed_radix"));
      double error = 0, size = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        const double difference = double{bench.output(0)[i]} - double{expected[i]};
        error += difference * difference;
        size += double{expected[i]} * double{expected[i]};
      }
      EXPECT_LT(std::sqrt(error / size), 1e-6) << length;
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
