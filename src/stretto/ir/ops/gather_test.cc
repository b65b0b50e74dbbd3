#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

TEST(Gather, RowsColumnsAndScalars) {
  const Tensor x = ramp({3, 2});
  expect_values(run("Gather", {x, ints({-1, 0})}), {2, 2}, {4, 5, 0, 1});
  expect_values(run("Gather", {x, ints({}, {1})}, {{"axis", int64_t{1}}}), {3}, {1, 3, 5});
  expect_values(run("Gather", {x, ints({1, 2}, {0, 0})}, {{"axis", int64_t{-1}}}), {3, 1, 2},
                {0, 0, 2, 2, 4, 4});
  EXPECT_NE(error_of("Gather", {x, ints({3})}).find("3 is outside [-3, 3)"), std::string::npos);
}

TEST(GatherElements, PicksAlongTheAxis) {
  expect_values(
      run("GatherElements", {ramp({2, 3}), ints({2, 2}, {2, 0, -1, 1})}, {{"axis", int64_t{1}}}),
      {2, 2}, {2, 0, 5, 4});
  EXPECT_NE(
      error_of("GatherElements", {ramp({2, 3}), ints({3, 1}, {0, 0, 0})}, {{"axis", int64_t{1}}})
          .find("does not fit"),
      std::string::npos);
}

TEST(GatherND, TuplesAndBatches) {
  const Tensor x = ramp({2, 2, 2});
  expect_values(run("GatherND", {x, ints({2, 2}, {0, 1, 1, 0})}), {2, 2}, {2, 3, 4, 5});
  expect_values(run("GatherND", {x, ints({2, 1}, {1, 0})}, {{"batch_dims", int64_t{1}}}), {2, 2},
                {2, 3, 4, 5});
  EXPECT_NE(error_of("GatherND", {x, ints({1, 4}, {0, 0, 0, 0})}).find("tuples of 4"),
            std::string::npos);
}

TEST(Scatter, WritesAndCombines) {
  const Tensor x = ramp({2, 3});
  expect_values(run("ScatterElements", {x, ints({1, 2}, {1, -1}), floats({1, 2}, {10, 20})},
                    {{"axis", int64_t{1}}}),
                {2, 3}, {0, 10, 20, 3, 4, 5});
  expect_values(run("ScatterElements", {x, ints({1, 2}, {0, 0}), floats({1, 2}, {10, 20})},
                    {{"axis", int64_t{1}}, {"reduction", std::string("add")}}),
                {2, 3}, {30, 1, 2, 3, 4, 5});
  expect_values(run("ScatterND", {x, ints({1, 1}, {1}), floats({1, 3}, {9, 1, 9})},
                    {{"reduction", std::string("max")}}),
                {2, 3}, {0, 1, 2, 9, 4, 9});
  EXPECT_NE(error_of("ScatterND", {x, ints({1, 1}, {1}), ramp({1, 2})}).find("updates"),
            std::string::npos);
  EXPECT_NE(error_of("ScatterND", {x, ints({1, 1}, {1}), ramp({1, 3})},
                     {{"reduction", std::string("avg")}})
                .find("avg"),
            std::string::npos);
}

}  // namespace
}  // namespace stretto::ir
