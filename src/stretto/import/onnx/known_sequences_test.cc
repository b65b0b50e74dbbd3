// Sequences that are known when a model is read leave nothing in the graph.
#include <gtest/gtest.h>

#include "stretto/import/onnx/test_model.h"
#include "stretto/ir/interpreter.h"
#include "stretto/ir/not_straight.h"
#include "stretto/ir/operator.h"

namespace stretto::onnx {
namespace {

using namespace testing;
using Values = std::vector<double>;

std::string scalar(std::string_view name, int64_t value) {
  return tensor(name, DataType::kInt64, {}, raw<int64_t>({value}));
}

std::string of(const std::vector<std::string>& nodes,
               const std::vector<std::string>& initializers = {}, const Names& outputs = {"y"}) {
  return model({.nodes = nodes,
                .inputs = {input("x", {"3", "2"})},
                .outputs = outputs,
                .initializers = initializers});
}

// The result for x = [[1, 2], [3, 4], [5, 6]].
Values result(const std::string& bytes) {
  const ImportedModel m = load(bytes);
  for (const ir::Node& node : m.graph.nodes) {
    EXPECT_EQ(node.op->name.find("Sequence"), std::string::npos);
  }
  const Tensor x = Tensor::of<float>({3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  return ir::interpret(m.graph, std::vector<Tensor>{x})[0].as_doubles();
}

TEST(KnownSequences, AreBuiltTakenApartAndJoined) {
  const std::vector<std::string> numbers{scalar("zero", 0), scalar("last", -1), scalar("one", 1)};
  const std::string minus = node("Neg", {"x"}, {"m"});
  EXPECT_EQ(result(of({minus, node("SequenceConstruct", {"x", "m"}, {"s"}),
                       node("SequenceAt", {"s", "last"}, {"y"})},
                      numbers)),
            (Values{-1, -2, -3, -4, -5, -6}));
  // The older sequence stays as it was, also when two are made of it.
  EXPECT_EQ(
      result(
          of({minus, node("SequenceConstruct", {"x"}, {"s"}),
              node("SequenceInsert", {"s", "m"}, {"a"}),
              node("SequenceInsert", {"s", "m", "zero"}, {"b"}),
              node("SequenceInsert", {"s", "x"}, {"c"}), node("SequenceAt", {"a", "one"}, {"a1"}),
              node("SequenceAt", {"b", "one"}, {"b1"}), node("SequenceAt", {"c", "one"}, {"c1"}),
              node("Concat", {"a1", "b1", "c1"}, {"y"}, {attr("axis", 1)})},
             numbers)),
      (Values{-1, -2, 1, 2, 1, 2, -3, -4, 3, 4, 3, 4, -5, -6, 5, 6, 5, 6}));
  EXPECT_EQ(
      result(of({minus, node("SequenceConstruct", {"x", "m", "x"}, {"s"}),
                 node("SequenceErase", {"s", "one"}, {"t"}), node("SequenceLength", {"t"}, {"n"}),
                 node("Identity", {"t"}, {"same"}), node("SequenceErase", {"same"}, {"u"}),
                 node("ConcatFromSequence", {"u"}, {"j"}, {attr("axis", 0)}),
                 node("Cast", {"n"}, {"f"}, {attr("to", 1)}), node("Mul", {"j", "f"}, {"y"})},
                numbers)),
      (Values{2, 4, 6, 8, 10, 12}));
}

TEST(KnownSequences, AreSplitAndStacked) {
  EXPECT_EQ(
      result(
          of({node("SplitToSequence", {"x"}, {"s"}, {attr("axis", 0), attr("keepdims", 0)}),
              node("ConcatFromSequence", {"s"}, {"y"}, {attr("axis", -1), attr("new_axis", 1)})})),
      (Values{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(result(of({node("SplitToSequence", {"x", "two"}, {"s"}),
                       node("SequenceAt", {"s", "last"}, {"y"})},
                      {scalar("two", 2), scalar("last", -1)})),
            (Values{5, 6}));
  EXPECT_EQ(result(of({node("SplitToSequence", {"x", "sizes"}, {"s"}),
                       node("SequenceAt", {"s", "last"}, {"y"})},
                      {int64s("sizes", {1, 2}), scalar("last", -1)})),
            (Values{3, 4, 5, 6}));
}

// As PyTorch writes an EmbeddingBag: rows are summed and collected, turn by turn.
TEST(KnownSequences, GoThroughLoopsAndBranches) {
  const std::string none =
      graph({.nodes = {node("SequenceInsert", {"s", "zero"}, {"t"})}, .outputs = {"t"}});
  const std::string some = graph(
      {.nodes = {node("Gather", {"x", "i"}, {"row"}), node("SequenceInsert", {"s", "row"}, {"t"})},
       .outputs = {"t"}});
  const std::string body =
      graph({.nodes = {node("Equal", {"i", "skipped"}, {"skip"}),
                       node("If", {"skip"}, {"t"},
                            {attr_graph("then_branch", none), attr_graph("else_branch", some)})},
             .inputs = {input("i", {}, DataType::kInt64), input("c", {}, DataType::kBool),
                        input("s", {})},
             .outputs = {"c", "t"}});
  EXPECT_EQ(result(of({node("SequenceEmpty", {}, {"empty"}),
                       node("Loop", {"n", "", "empty"}, {"all"}, {attr_graph("body", body)}),
                       node("ConcatFromSequence", {"all"}, {"y"}, {attr("axis", 0)})},
                      {scalar("n", 3), scalar("skipped", 1), floats("zero", {2}, {0, 0})})),
            (Values{1, 2, 0, 0, 5, 6}));
}

TEST(KnownSequences, ThatOnlyARunKnowsAreLeftToIt) {
  EXPECT_THROW(load(of({node("SequenceConstruct", {"x"}, {"y"})})), ir::NotStraight);
  EXPECT_THROW(load(of({node("SequenceConstruct", {"x"}, {"s"}), node("Neg", {"s"}, {"y"})})),
               ir::NotStraight);
  EXPECT_THROW(
      load(of({node("SequenceConstruct", {"x"}, {"s"}), node("Cast", {"x"}, {"i"}, {attr("to", 7)}),
               node("ReduceSum", {"i"}, {"at"}, {attr("keepdims", 0)}),
               node("SequenceAt", {"s", "at"}, {"y"})})),
      ir::NotStraight);
  // A place outside is an error of the run, which says so.
  EXPECT_THROW(
      load(of({node("SequenceConstruct", {"x"}, {"s"}), node("SequenceAt", {"s", "two"}, {"y"})},
              {scalar("two", 2)})),
      ir::NotStraight);
  const std::string body = graph({.inputs = {input("i", {}, DataType::kInt64),
                                             input("c", {}, DataType::kBool), input("s", {})},
                                  .outputs = {"c", "s", "s"}});
  EXPECT_THROW(load(of({node("SequenceConstruct", {"x"}, {"s"}),
                        node("Loop", {"n", "", "s"}, {"t", "y"}, {attr_graph("body", body)})},
                       {scalar("n", 2)})),
               ir::NotStraight);
}

}  // namespace
}  // namespace stretto::onnx
