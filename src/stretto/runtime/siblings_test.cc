#include "stretto/runtime/siblings.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace stretto::runtime {
namespace {

ir::ValueId add_constant(ir::Graph& graph, const std::string& name, const Tensor& tensor) {
  const ir::ValueId id = graph.add_value(name, tensor.dtype(), tensor.shape());
  graph.value(id).constant = tensor;
  return id;
}

TEST(OwnBorrowed, CopiesWhatIsBorrowedAndNothingElse) {
  std::vector<float> memory(100);
  std::iota(memory.begin(), memory.end(), 0.0f);
  const auto lent = [&](Shape shape, int at) {
    return Tensor(DType::kFloat32, std::move(shape), memory.data() + at, nullptr);
  };
  ir::Graph original;
  const ir::ValueId whole = add_constant(original, "whole", lent({100}, 0));
  const ir::ValueId part = add_constant(original, "part", lent({10}, 40));
  ir::Graph graph = original;
  const ir::ValueId row = add_constant(graph, "row", lent({2, 5}, 60));  // in the larger one only
  const ir::ValueId again = add_constant(graph, "again", lent({5, 2}, 40));
  const Tensor own = Tensor::of<float>({2}, std::vector<float>{1, 2});
  const ir::ValueId derived = add_constant(graph, "derived", own);

  own_borrowed(graph, original);

  EXPECT_EQ(graph.value(derived).constant.data(), own.data());
  EXPECT_EQ(original.value(whole).constant.data(), graph.value(whole).constant.data());
  EXPECT_EQ(original.value(part).constant.data(), graph.value(part).constant.data());
  EXPECT_EQ(graph.value(row).constant.shape(), (Shape{2, 5}));
  EXPECT_EQ(graph.value(again).constant.shape(), (Shape{5, 2}));
  std::fill(memory.begin(), memory.end(), -1.0f);
  for (ir::ValueId id : {whole, part, row, again}) {
    const std::vector<double> values = graph.value(id).constant.as_doubles();
    const double first = id == whole ? 0 : id == row ? 60 : 40;
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], first + static_cast<double>(i));
  }
}

}  // namespace
}  // namespace stretto::runtime
