// What the appending of new places to a cache may look like in a model, and which of its dimensions
// may be open.
#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/import/onnx/test_model.h"
#include "stretto/runtime/context.h"
#include "stretto/runtime/context_testing.h"
#include "stretto/stretto.h"

namespace stretto::runtime {
namespace {

using namespace onnx::testing;  // NOLINT

// A cache of [batch, 1, past, 6] to which `added` is appended, its sum, and what `more` adds.
std::string appending(std::vector<std::string> added, std::vector<std::string> nodes = {},
                      std::vector<std::string> inputs = {}, std::vector<std::string> outputs = {},
                      const std::string& heads = "1") {
  nodes.insert(nodes.begin(), node("Unsqueeze", {"inputs_embeds", "one"}, {"new"}));
  nodes.push_back(node("Concat", added, {"present.0.key"}, {attr("axis", 2)}));
  nodes.push_back(node("ReduceSum", {"present.0.key"}, {"sum"}, {attr("keepdims", 0)}));
  nodes.push_back(node("Cast", {"attention_mask"}, {"seen"}, {attr("to", 1)}));
  nodes.push_back(node("ReduceSum", {"seen"}, {"count"}, {attr("keepdims", 0)}));
  inputs.insert(inputs.begin(),
                {input("inputs_embeds", {"batch", "new", "6"}),
                 input("attention_mask", {"batch", "total"}, onnx::DataType::kInt64),
                 input("position_ids", {"batch", "new"}, onnx::DataType::kInt64),
                 input("past_key_values.0.key", {"batch", heads, "past", "6"})});
  outputs.insert(outputs.begin(), {"sum", "count", "present.0.key"});
  return model({.nodes = nodes,
                .inputs = inputs,
                .outputs = outputs,
                .initializers = {onnx::testing::int64s("one", {1}),
                                 onnx::testing::floats("pair", {2, 1}, {1, 2})}});
}

float sum_of(const Tensor& x) {
  float sum = 0;
  for (float v : x.values<float>()) sum += v;
  return sum;
}

// Exporters write what is returned and what is read apart.
TEST(Context, EqualConcatsAreOne) {
  for (const bool first : {true, false}) {
    std::vector<std::string> nodes{
        node("Unsqueeze", {"inputs_embeds", "one"}, {"same"}),
        node("Concat", {"past_key_values.0.key", "same"}, {"again"}, {attr("axis", 2)}),
        node("Mul", {"again", "again"}, {"squares"}),
        node("ReduceSum", {"squares"}, {"y"}, {attr("keepdims", 0)})};
    if (first) nodes.insert(nodes.begin(), std::move(nodes.back())), nodes.pop_back();
    Session session(
        optimized(appending({"past_key_values.0.key", "new"}, nodes, {}, {"y"}), {1, 1, 4, 6}));
    Context context(session.model());
    float sum = 0, squares = 0;
    for (int i = 0; i < 70; ++i) {
      const Tensor x = step(1, 1, i);
      sum += sum_of(x);
      for (float v : x.values<float>()) squares += v * v;
      const auto y = session.run({{"inputs_embeds", x}}, context);
      ASSERT_EQ(y[0].values<float>()[0], sum);
      ASSERT_EQ(y[2].values<float>()[0], squares);
    }
  }
}

TEST(Context, OnePlaceForEachToken) {
  Session session(optimized(appending({"past_key_values.0.key", "two"},
                                      {node("Concat", {"new", "new"}, {"two"}, {attr("axis", 2)})}),
                            {1, 1, 4, 6}));
  Context context(session.model());
  try {
    session.run({{"inputs_embeds", step(1, 3, 0)}}, context);
    ADD_FAILURE();
  } catch (const Unsupported& error) {
    EXPECT_NE(std::string_view(error.what()).find("6 places for 3 new ones"), std::string::npos)
        << error.what();
  }
}

TEST(Context, OnlyTheBatchIsOpenBesides) {
  const Model model = optimized(
      appending({"past_key_values.0.key", "by_head"},
                {node("Transpose", {"past_key_values.0.key"}, {"turned"},
                      {attr_ints("perm", {0, 2, 1, 3})}),
                 node("ReduceSum", {"turned", "one"}, {"all"}),
                 node("Transpose", {"all"}, {"of_head"}, {attr_ints("perm", {0, 2, 1, 3})}),
                 node("Add", {"new", "of_head"}, {"by_head"})},
                {}, {}, "heads"),
      {1, 2, 4, 6});
  EXPECT_THROW(Context{model}, InvalidArgument);
}

TEST(Context, CachesOfOneLengthDoNotGrow) {
  const std::string file = appending({"past_key_values.0.key", "new"});
  const Model model = optimized(file, {1, 1, 4, 6});
  EXPECT_NO_THROW(Context{model});
  const Model one_length =
      optimized(file, {1, 1, 4, 6},
                {{"past_key_values.0.key", {{1, 8, "batch"}, {1, 1, {}}, {4, 4, {}}, {6, 6, {}}}}});
  EXPECT_THROW(Context{one_length}, InvalidArgument);
}

TEST(Context, DimensionsThatOneSizeFitsAreNotOpen) {
  Session session(
      optimized(appending({"past_key_values.0.key", "new"}, {}, {}, {}, "heads"), {1, 1, 4, 6}));
  Context context(session.model());
  EXPECT_EQ(session.run({{"inputs_embeds", step(1, 3, 0)}}, context)[0].values<float>()[0],
            sum_of(step(1, 3, 0)));
}

// One or two places are added to two, and three cannot be: the second sample fails.
TEST(Context, ASampleThatFailsLeavesTheOthersAlone) {
  Session session(
      optimized(appending({"past_key_values.0.key", "new"},
                          {node("Add", {"inputs_embeds", "pair"}, {"paired"}),
                           node("ReduceSum", {"paired", "one"}, {"all"}, {attr("keepdims", 0)}),
                           node("Add", {"h0", "all"}, {"hn"})},
                          {input("h0", {"batch", "6"})}, {"hn"}),
                {1, 1, 4, 6}));
  Context context(session.model(), {.batch = 2});
  const Tensor mask = of_int64s({2, 4}, {1, 1, 0, 0, 1, 1, 1, 0});
  EXPECT_THROW(session.run({{"inputs_embeds", step(2, 4, 1)}, {"attention_mask", mask}}, context),
               std::exception);
  EXPECT_EQ(values(context.save().at("h0")), std::vector<float>(12, 0));
  EXPECT_EQ(context.length(), 0);
}

}  // namespace
}  // namespace stretto::runtime
