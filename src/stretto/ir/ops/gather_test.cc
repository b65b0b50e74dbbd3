#include <fmt/format.h>

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
  // Along an axis before the last, from rows that are longer than those of the indices.
  expect_values(run("GatherElements",
                    {ramp({2, 2, 3}), ints({2, 3, 2}, {1, 0, 0, -1, -2, 1, 0, 0, 1, 1, -1, 0})},
                    {{"axis", int64_t{1}}}),
                {2, 3, 2}, {3, 1, 0, 4, 0, 4, 6, 7, 9, 10, 9, 7});
  for (const int64_t index : {3, -4}) {
    EXPECT_NE(
        error_of("GatherElements", {ramp({2, 3}), ints({1, 2}, {0, index})}, {{"axis", int64_t{1}}})
            .find(fmt::format("{} is outside [-3, 3)", index)),
        std::string::npos);
  }
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

// Sizes that give each of three threads several parts.
TEST(Scatter, HalvesAreCombinedAndRoundedOnce) {
  const Tensor x = floats({3}, {1, 2048, -5}).converted(DType::kFloat16);
  const Tensor places = ints({3}, {1, 1, 2});
  const Tensor updates = floats({3}, {1, 1, 7}).converted(DType::kFloat16);
  const Tensor sums =
      run("ScatterElements", {x, places, updates}, {{"reduction", std::string("add")}});
  EXPECT_EQ(sums.dtype(), DType::kFloat16);
  expect_values(sums, {3}, {1, 2050, 2});
  expect_values(run("ScatterElements", {x, places, updates}, {{"reduction", std::string("max")}}),
                {3}, {1, 2048, 7});
}

// Many updates of few places, on one thread and on three: against a loop over the updates.
TEST(Scatter, UpdatesOfOneElementApplyInOrder) {
  ThreadTeam team(3);
  const auto combine = [](const std::string& by, double old, double update) {
    if (by == "add") return old + update;
    if (by == "mul") return old * update;
    if (by == "max") return std::max(old, update);
    return by == "min" ? std::min(old, update) : update;
  };
  constexpr int64_t kRows = 90, kColumns = 300;
  constexpr float kFactors[] = {-1, 0.5f, 1, 2};  // that rounds nothing
  const Tensor x = ramp({kRows, kColumns});
  std::vector<int64_t> places;
  std::vector<float> numbers;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    places.push_back(i * 37 % 11 - 5);
    numbers.push_back(kFactors[i * 29 % 4]);
  }
  const Tensor updates = floats({kRows, kColumns}, numbers),
               indices = ints({kRows, kColumns}, places);
  const Tensor tuples = ints({kRows, 1}, {places.begin(), places.begin() + kRows});
  const auto place = [&](size_t i, int64_t size) {
    return places[i] < 0 ? places[i] + size : places[i];
  };
  for (const std::string by : {"none", "add", "mul", "max", "min"}) {
    for (int64_t axis : {0, 1, 2}) {  // 2: ScatterND
      std::vector<double> expected = x.as_doubles();
      for (size_t i = 0; i < numbers.size(); ++i) {
        const int64_t row = static_cast<int64_t>(i) / kColumns,
                      column = static_cast<int64_t>(i) % kColumns;
        const int64_t at = axis == 0   ? place(i, kRows) * kColumns + column
                           : axis == 1 ? row * kColumns + place(i, kColumns)
                                       : place(static_cast<size_t>(row), kRows) * kColumns + column;
        double& element = expected[static_cast<size_t>(at)];
        element = static_cast<float>(combine(by, element, numbers[i]));
      }
      for (ThreadTeam* threads : {static_cast<ThreadTeam*>(nullptr), &team}) {
        const std::vector<Tensor> got =
            axis < 2 ? run_all("ScatterElements", {x, indices, updates},
                               {{"axis", axis}, {"reduction", by}}, 1, threads)
                     : run_all("ScatterND", {x, tuples, updates}, {{"reduction", by}}, 1, threads);
        EXPECT_EQ(got[0].as_doubles(), expected) << by << " " << axis;
      }
    }
  }
  places[kColumns + 5] = kColumns;
  const Tensor wrong = ints({kRows, kColumns}, places);
  EXPECT_THROW(run_all("ScatterElements", {x, wrong, updates}, {{"axis", int64_t{1}}}, 1, &team),
               InvalidArgument);
}

TEST(Trilu, KeepsOneSideOfADiagonal) {
  for (const Shape& shape : {Shape{3, 4}, Shape{5, 2}, Shape{2, 3, 3}, Shape{1, 70}}) {
    const Tensor x = ramp(shape, 1);
    const int64_t rows = shape[shape.size() - 2], columns = shape.back();
    for (const int64_t k :
         {int64_t{0}, int64_t{1}, int64_t{-2}, int64_t{69}, INT64_MIN, INT64_MAX}) {
      for (const bool upper : {true, false}) {
        std::vector<double> expected = x.as_doubles();
        for (size_t i = 0; i < expected.size(); ++i) {
          const int64_t place =
              static_cast<int64_t>(i) % columns - static_cast<int64_t>(i) / columns % rows;
          if (upper ? place < k : place > k) expected[i] = 0;
        }
        EXPECT_EQ(run("Trilu", {x, ints({}, {k})}, {{"upper", int64_t{upper}}}).as_doubles(),
                  expected)
            << shape_text(shape) << " " << k << " " << upper;
      }
    }
  }
}

// Places of several blocks, where one of a batch ends within a block.
TEST(GridSample, ThreadsFindWhatOneThreadFinds) {
  ThreadTeam team(3);
  const Tensor x = ramp({2, 3, 9, 8});
  std::vector<float> numbers;
  for (int64_t i = 0; i < 2 * 20 * 13 * 2; ++i)
    numbers.push_back(static_cast<float>(i * 37 % 101) / 40 - 1.25f);
  const Tensor grid = floats({2, 20, 13, 2}, numbers);
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    for (const std::string padding : {"zeros", "border", "reflection"}) {
      const AttributeList attributes{{"mode", mode}, {"padding_mode", padding}};
      EXPECT_EQ(run_all("GridSample", {x, grid}, attributes, 1, &team)[0].as_doubles(),
                run_all("GridSample", {x, grid}, attributes)[0].as_doubles());
    }
  }
}

TEST(Gather, ThreadsFindWhatOneThreadFinds) {
  ThreadTeam team(3);
  const Tensor x = ramp({70, 1000}), narrow = ramp({70, 3}), row = ramp({1000}, -1);
  const Tensor condition = run("Less", {ramp({70, 1}), row});
  std::vector<int64_t> picks;
  for (int64_t i = 0; i < 70000; ++i) picks.push_back(i * 37 % 70);
  const auto check = [&](const char* op, const std::vector<Tensor>& inputs, AttributeList a) {
    EXPECT_EQ(run_all(op, inputs, a, 1, &team)[0].as_doubles(),
              run_all(op, inputs, a)[0].as_doubles())
        << op;
  };
  check("Gather", {narrow, ints(picks)}, {});
  check("GatherElements", {x, ints({70, 1000}, picks)}, {});
  check("GatherND", {narrow, ints({70000, 1}, picks)}, {});
  check("CumSum", {x, ints({}, {1})}, {});
  check("Trilu", {x}, {});
  check("ArgMax", {x}, {{"axis", int64_t{0}}});
  for (int64_t axis : {0, 1}) {
    const std::vector<Tensor> inputs = {x, ints({1}, {5})};
    const auto alone = run_all("TopK", inputs, {{"axis", axis}}, 2);
    const auto together = run_all("TopK", inputs, {{"axis", axis}}, 2, &team);
    EXPECT_EQ(together[0].as_doubles(), alone[0].as_doubles()) << axis;
    EXPECT_EQ(together[1].as_int64s(), alone[1].as_int64s()) << axis;
  }
  check("OneHot", {ints(picks), ints({}, {9}), ints({2}, {3, 4})}, {{"axis", int64_t{0}}});
  check("Range", {floats({}, {-1}), floats({}, {20000}), floats({}, {0.25})}, {});
  check("ConstantOfShape", {ints({2}, {300, 200})}, {{"value", floats({1}, {2.5})}});
  check("ScatterElements", {x, ints({1, 1000}, std::vector<int64_t>(1000, 3)), ramp({1, 1000})},
        {});
  check("Where", {condition, x, row}, {});
}

}  // namespace
}  // namespace stretto::ir
