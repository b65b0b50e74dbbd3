#include "stretto/kernels/elementwise/problem.h"

#include <random>

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// A handful of roundings and the exponential's 4 ulp, relative to the largest output.
constexpr double kTolerance = 3e-6;

ElementwiseProblem plain(const Shape& output, const std::vector<Shape>& inputs, int threads = 1) {
  const std::vector<DType> dtypes(inputs.size(), DType::kFloat32);
  return elementwise_problem({.threads = threads}, output, inputs, dtypes);
}

TEST(Elementwise, EveryOperator) {
  for (const ElementRow& row : element_rows()) {
    const ElementOp op = row.op;
    for (int64_t count : {1, 15, 16, 1025}) {
      ElementwiseProblem p = plain({count}, {{count}, {count}, {count}}, 2);
      append(p, {op, 0, 1, 2, 0.25f, 0.75f});
      EXPECT_GT(check_rows(kElementwise, p, kTolerance), 0);
      for (float factor : {30.0f, 1e-3f}) {
        check_rows(kElementwise, p, kTolerance, [&](Workbench& b) {
          for (int k = 0; k < 3; ++k) {
            for (float& x : b.input(k)) x *= factor;
          }
        });
      }
      check_rows(kElementwise, p, kTolerance, [&](Workbench& b) {
        sprinkle_specials(b, 0);
        sprinkle_specials(b, 1);
        for (size_t k = 0; k < b.input(0).size(); k += 5) b.input(0)[k] = 0;
      });
    }
  }
}

TEST(Elementwise, BroadcastsMergeAndAgree) {
  EXPECT_EQ(plain({2, 3, 4, 5}, {{2, 3, 4, 5}, {2, 3, 4, 5}}).rank, 1);
  EXPECT_EQ(plain({2, 3, 4, 5}, {{2, 3, 4, 5}, {3, 1, 1}}).rank, 3);
  EXPECT_EQ(plain({}, {{}}).elements(), 1);
  EXPECT_THROW(plain({2, 3}, {{2}}), InvalidArgument);
  const std::vector<std::pair<Shape, std::vector<Shape>>> cases{
      {{2, 12, 7, 7}, {{2, 12, 7, 7}, {12, 1, 1}}},
      {{2, 12, 7, 7}, {{2, 12, 1, 1}, {2, 12, 7, 7}}},
      {{3, 5, 2000}, {{3, 5, 2000}, {5, 1}, {2000}}},
      {{4, 1500}, {{4, 1}, {1, 1500}}},
      {{6, 3}, {{6, 1}, {3}}},
      {{3, 2, 3, 2, 3, 2}, {{3, 1, 3, 1, 3, 1}, {1, 2, 1, 2, 1, 2}}},
      {{100, 1}, {{100, 1}, {1}}},
      {{0, 4}, {{0, 4}, {4}}},
      {{5, 0}, {{5, 0}, {5, 1}}},
      {{17}, {{1}, {17}}}};
  for (int threads : {1, 2, 3}) {
    for (const auto& [output, inputs] : cases) {
      ElementwiseProblem p = plain(output, inputs, threads);
      uint8_t v = append(p, {ElementOp::kSub, 0, 1});
      for (int i = 2; i < p.inputs; ++i) {
        v = append(p, {ElementOp::kMul, v, static_cast<uint8_t>(i)});
      }
      append(p, {ElementOp::kSigmoid, v});
      EXPECT_GT(check_rows(kElementwise, p, kTolerance), 0);
    }
  }
}

TEST(Elementwise, Blocked) {
  for (int threads : {1, 2, 3}) {
    for (int64_t c : {1, 8, 16, 19, 40}) {
      for (int64_t size : {1, 3, 14}) {
        const Shape y{2, c, size, size};
        for (const Shape& other : {y, Shape{2, c, 1, 1}, Shape{1, c, 1, 1}, Shape{1, 1, 1, 1}}) {
          ElementwiseProblem p =
              blocked_elementwise_problem({.threads = threads}, y, std::vector<Shape>{y, other});
          const uint8_t product = append(p, {ElementOp::kMul, 0, 1});
          const uint8_t one = append(p, {ElementOp::kConstant, 0, 0, 0, 1.0f});
          append(p, {ElementOp::kAdd, product, one});
          append(p, {ElementOp::kRelu, static_cast<uint8_t>(p.inputs + 2)});
          EXPECT_GT(check_rows(kElementwise, p, kTolerance), 0);
        }
      }
    }
  }
}

TEST(Elementwise, RandomPrograms) {
  constexpr ElementOp kSmooth[] = {ElementOp::kAdd,     ElementOp::kSub,  ElementOp::kMul,
                                   ElementOp::kMax,     ElementOp::kTanh, ElementOp::kSigmoid,
                                   ElementOp::kSilu,    ElementOp::kNeg,  ElementOp::kMin,
                                   ElementOp::kConstant};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    ElementwiseProblem p = plain({3, 7, 150}, {{3, 7, 150}, {7, 1}, {150}, {3, 1, 1}}, 2);
    const int length = 1 + static_cast<int>(random() % 32);
    for (int i = 0; i < length; ++i) {
      const auto value = [&] { return static_cast<uint8_t>(random() % (p.inputs + i)); };
      const uint8_t a = value(), b = value();
      append(p, {kSmooth[random() % std::size(kSmooth)], a, b, 0, 0.5f});
      if (i % 3 == 2) p.program[i].op = ElementOp::kTanh;  // keeps sums of sums bounded
    }
    EXPECT_GT(check_rows(kElementwise, p, 3e-5), 0);  // roundings of up to 32 steps add up
  }
}

TEST(Elementwise, TypedInputsAndOutputs) {
  for (DType output : {DType::kFloat32, DType::kBool, DType::kInt64, DType::kInt32}) {
    for (const Shape& mask : {Shape{5, 300}, Shape{5, 1}, Shape{300}, Shape{}}) {
      const std::vector<Shape> shapes{mask, {5, 300}, {5, 300}};
      for (DType compute : {DType::kFloat32, DType::kInt64}) {
        for (DType other : {DType::kInt64, DType::kInt32, DType::kBool}) {
          const std::vector<DType> dtypes{DType::kBool, other, DType::kInt64};
          ElementwiseProblem p = elementwise_problem({.threads = 2}, Shape{5, 300}, shapes, dtypes);
          p.output = output;
          p.compute = compute;
          const uint8_t same = append(p, {ElementOp::kEqual, 1, 2});
          const uint8_t both = append(p, {ElementOp::kAnd, same, 0});
          const uint8_t picked = append(p, {ElementOp::kWhere, both, 1, 2});
          append(p, {ElementOp::kMul, picked, 2});
          const int checked = check_rows(kElementwise, p, 0);  // small integers are exact
          EXPECT_EQ(checked > 0, compute == DType::kFloat32);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
