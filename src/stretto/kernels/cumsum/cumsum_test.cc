#include "stretto/kernels/cumsum/problem.h"

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

TEST(CumSum, ShapesTypesThreads) {
  const auto check = [](CumSumProblem p) {
    for (int options = 0; options < 8; ++options) {
      p.exclusive = static_cast<uint8_t>(options & 1);
      p.reverse = static_cast<uint8_t>(options >> 1 & 1);
      p.product = static_cast<uint8_t>(options >> 2);
      EXPECT_GT(check_rows(kCumSum, p, 0), 0);  // the same operations in the same order
    }
  };
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64}) {
    for (int threads : {1, 2, 3}) {
      for (int64_t inner : {1, 2, 7, 33}) {
        for (int64_t outer : {0, 1, 9}) {
          CumSumProblem p{.outer = outer, .axis = 6, .inner = inner, .dtype = dtype};
          p.target.threads = threads;
          check(p);
        }
      }
    }
  }
  check({.outer = 3, .axis = 5, .inner = 2100});
  check_rows(kCumSum, CumSumProblem{.outer = 2, .axis = 0, .inner = 3}, 0);
}

TEST(CumSum, NotNumbersAndWrappingIntegers) {
  for (int64_t inner : {1, 19}) {
    const CumSumProblem p{.outer = 5, .axis = 60, .inner = inner};
    check_rows(kCumSum, p, 0, [](Workbench& b) { sprinkle_specials(b, 0); });
  }
  CumSumProblem p{.axis = 3, .dtype = DType::kInt64};
  for (Isa isa : usable_isas()) {
    p.target.isa = isa;
    Workbench bench(kCumSum, &p);
    auto* x = reinterpret_cast<int64_t*>(bench.input(0).data());
    x[0] = std::numeric_limits<int64_t>::max();
    x[1] = x[2] = 1;
    bench.run(0);
    const auto* y = reinterpret_cast<const int64_t*>(bench.output(0).data());
    EXPECT_EQ(y[1], std::numeric_limits<int64_t>::min());
    EXPECT_EQ(y[2], std::numeric_limits<int64_t>::min() + 1);
  }
}

}  // namespace
}  // namespace stretto::kernels
