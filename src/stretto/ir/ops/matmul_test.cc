#include <cmath>

#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

TEST(MatMul, VectorsBatchesAndBroadcasting) {
  expect_values(run("MatMul", {ramp({3}), ramp({3})}), {}, {5});
  expect_values(run("MatMul", {ramp({2, 2}), ramp({2})}), {2}, {1, 3});
  expect_values(run("MatMul", {ramp({2}), ramp({2, 2})}), {2}, {2, 3});
  // [2,1,1,2] x [3,2,1] -> [2,3,1,1]
  expect_values(run("MatMul", {ramp({2, 1, 1, 2}), ramp({3, 2, 1})}), {2, 3, 1, 1},
                {1, 3, 5, 3, 13, 23});
  expect_values(run("MatMul", {ramp({2, 1, 2}), ramp({2, 2})}), {2, 1, 2}, {2, 3, 6, 11});
  expect_values(run("MatMul", {ints({1, 2}, {3, 4}), ints({2, 1}, {5, 6})}), {1, 1}, {39});
  expect_values(run("MatMul", {ramp({2, 0}), ramp({0, 3})}), {2, 3}, {0, 0, 0, 0, 0, 0});
  EXPECT_NE(error_of("MatMul", {ramp({2, 3}), ramp({2, 3})}).find("3 columns"), std::string::npos);
  EXPECT_NE(error_of("MatMul", {ramp({2, 3}), ramp({})}).find("scalar"), std::string::npos);
}

TEST(MatMul, LargeAndThreaded) {
  // Sums of i * k against the closed form; sizes cross every block boundary.
  const int64_t m = 19, n = 501, k = 523;
  Tensor a(DType::kFloat64, {m, k}), b(DType::kFloat64, {k, n});
  for (int64_t i = 0; i < a.count(); ++i)
    a.mutable_values<double>()[i] = static_cast<double>(i / k + 1);
  for (int64_t i = 0; i < b.count(); ++i) {
    b.mutable_values<double>()[i] = static_cast<double>((i / n) * (i % n + 1));
  }
  ThreadTeam team(3);
  const Tensor y = run_all("MatMul", {a, b}, {}, 1, &team)[0];
  const double depth_sum = static_cast<double>(k * (k - 1) / 2);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      ASSERT_EQ(y.values<double>()[i * n + j], static_cast<double>((i + 1) * (j + 1)) * depth_sum);
    }
  }
}

TEST(FusedMatMul, ScalesAndTransposes) {
  expect_values(run("stretto.MatMul", {ramp({1, 2}), ramp({3, 2})},
                    {{"trans_b", int64_t{1}}, {"scale", 0.5}}),
                {1, 3}, {0.5, 1.5, 2.5});
}

TEST(Linear, EitherWeightOrderAndEpilogue) {
  const Tensor x = ramp({2, 1, 2}), bias = floats({3}, {-3, 0, 1});
  const Tensor kn = floats({2, 3}, {1, 2, 3, 4, 5, 6}), nk = floats({3, 2}, {1, 4, 2, 5, 3, 6});
  const std::vector<double> expected{1, 5, 7, 11, 19, 25};
  expect_values(run("stretto.Linear", {x, kn, bias}), {2, 1, 3}, expected);
  expect_values(run("stretto.Linear", {x, nk, bias}, {{"trans_weight", int64_t{1}}}), {2, 1, 3},
                expected);
  expect_values(run("stretto.Linear", {x, kn, {}, ramp({2, 1, 3}, -10)},
                    {{"activation", std::string("relu")}}),
                {2, 1, 3}, {4, 0, 0, 0, 0, 0});
  EXPECT_NE(error_of("stretto.Linear", {x, ramp({3, 2})}).find("rows of 3"), std::string::npos);
}

TEST(Attention, PackedHeadsAgreeWithTheFormula) {
  // One sequence of two, two heads of one number, packed as [q0 q1 k0 k1 v0 v1].
  const Tensor packed = floats({1, 2, 6}, {1, 2, 0.5f, -1, 10, 20, -1, 0, 1, 2, 30, 40});
  const Tensor mask = floats({1, 1, 2, 2}, {0, -INFINITY, 0, 0});
  const Tensor y = run("stretto.Attention", {packed, packed, packed, mask},
                       {{"heads", int64_t{2}},
                        {"head_dim", int64_t{1}},
                        {"scale", 2.0},
                        {"k_offset", int64_t{2}},
                        {"v_offset", int64_t{4}}});
  const double p = std::exp(-1.0), q = std::exp(-2.0);  // head 0, second row: scores -1 and -2
  expect_values(y, {1, 2, 2}, {10, 20, (10 * p + 30 * q) / (p + q), 30}, 1e-6);
  EXPECT_NE(error_of("stretto.Attention", {packed, packed, packed},
                     {{"heads", int64_t{2}}, {"head_dim", int64_t{2}}, {"v_offset", int64_t{4}}})
                .find("v: 2 heads of 2 from column 4"),
            std::string::npos);
}

TEST(Einsum, ProductsTracesAndEllipsis) {
  const auto einsum = [](const char* equation, std::vector<Tensor> inputs) {
    return run("Einsum", std::move(inputs), {{"equation", std::string(equation)}});
  };
  expect_values(einsum("ij,jk->ki", {ramp({1, 2}), ramp({2, 2})}), {2, 1}, {2, 3});
  expect_values(einsum("ii", {ramp({3, 3})}), {}, {12});
  expect_values(einsum("...ij->...ji", {ramp({1, 2, 2})}), {1, 2, 2}, {0, 2, 1, 3});
  expect_values(einsum("bi,bi->b", {ramp({2, 2}), ramp({2, 2})}), {2}, {1, 13});
  EXPECT_THROW(einsum("ij->k", {ramp({2, 2})}), InvalidArgument);
  EXPECT_THROW(einsum("i,i", {ramp({2}), ramp({3})}), InvalidArgument);
}

}  // namespace
}  // namespace stretto::ir
