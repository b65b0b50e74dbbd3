#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

TEST(Gemm, TransposesScalesAndAdds) {
  const Tensor a = floats({2, 3}, {1, 2, 3, 4, 5, 6}), b = floats({3, 2}, {1, 0, 0, 1, 1, 1});
  const Tensor at = floats({3, 2}, {1, 4, 2, 5, 3, 6}), bt = floats({2, 3}, {1, 0, 1, 0, 1, 1});
  const Tensor row = floats({2}, {10, 20}), column = floats({2, 1}, {10, 20});
  expect_values(run("Gemm", {a, b}), {2, 2}, {4, 5, 10, 11});
  expect_values(run("Gemm", {at, bt, row}, {{"transA", int64_t{1}}, {"transB", int64_t{1}}}),
                {2, 2}, {14, 25, 20, 31});
  expect_values(run("Gemm", {a, b, column}, {{"alpha", 2.0}, {"beta", 0.5}}), {2, 2},
                {13, 15, 30, 32});
  expect_values(run("Gemm", {ramp({2, 0}), ramp({0, 2}), row}), {2, 2}, {10, 20, 10, 20});
}

TEST(Gemm, NamesWhatIsWrong) {
  EXPECT_EQ(error_of("Gemm", {ramp({2, 3}), ramp({2, 3})}),
            "Gemm \"n\": A has 3 columns, B has 2 rows");
  EXPECT_NE(error_of("Gemm", {ramp({2, 3}), ramp({3, 2}), ramp({3})}).find("broadcast"),
            std::string::npos);
  EXPECT_NE(error_of("Gemm", {ramp({2, 3, 1}), ramp({3, 2})}).find("matrix"), std::string::npos);
}

}  // namespace
}  // namespace stretto::ir
