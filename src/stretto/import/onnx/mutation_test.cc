// Damaged models: whatever a file holds, the importer reads it or says what is wrong with it. The
// fuzzer (onnx_fuzz.cc) does the same for hours; this is the minute's worth that always runs.
#include <gtest/gtest.h>

#include <random>

#include "stretto/import/onnx/test_model.h"

namespace stretto::onnx {
namespace {

using namespace testing;

std::string seed_model() {
  const std::string twice = function({.name = "Twice",
                                      .inputs = {"a"},
                                      .outputs = {"b"},
                                      .nodes = {node("Mul", {"a", "a"}, {"h"}),
                                                node("Clip", {"h"}, {"b"}, {attr_float("max", 6)})},
                                      .opset = 10});
  const std::string branch = graph({.nodes = {node("Relu", {"g"}, {"out"})}, .outputs = {"out"}});
  return model(
      {.nodes = {node("Conv", {"x", "w"}, {"c"},
                      {attr_ints("pads", {1, 1, 1, 1}), attr_ints("strides", {2, 2})}),
                 node("MaxPool", {"c"}, {"p"},
                      {attr_ints("kernel_shape", {2, 2}), attr_ints("strides", {2, 2})}),
                 node("Shape", {"p"}, {"s"}),
                 node("Gather", {"s", "zero"}, {"n"}, {attr("axis", 0)}),
                 node("Concat", {"n", "minus"}, {"t"}, {attr("axis", 0)}),
                 node("Reshape", {"p", "t"}, {"f"}),
                 node("Gemm", {"f", "q"}, {"m"}, {attr("transB", 1)}),
                 node("Twice", {"m"}, {"g"}, {}, {.domain = "local"}),
                 node("If", {"yes"}, {"r"}, {attr_graph("then_branch", branch)}),
                 node("Softmax", {"r"}, {"y"}),
                 node("Split", {"y"}, {"a", "b"}, {attr("axis", 1)})},
       .inputs = {input("x", {"N", "2", "8", "8"})},
       .outputs = {"y", "a", "b"},
       .initializers = {tensor("w", DataType::kFloat, {4, 2, 3, 3}, std::string(288, '\x3c')),
                        tensor("q", DataType::kFloat, {2, 16}, std::string(128, '\x3d')),
                        int64s("zero", {0}), int64s("minus", {-1}),
                        tensor("yes", DataType::kBool, {}, "\1")}},
      11, {twice});
}

// Anything but one of the three kinds of error ends the test.
bool survives(const std::string& bytes) { return !refusal(bytes).empty(); }

TEST(Mutation, TheSeedIsFine) { EXPECT_EQ(refusal(seed_model()), ""); }

TEST(Mutation, EveryTruncationIsRefused) {
  const std::string seed = seed_model();
  for (size_t length = 0; length < seed.size(); ++length) {
    EXPECT_TRUE(survives(seed.substr(0, length))) << length << " of " << seed.size() << " bytes";
  }
}

TEST(Mutation, EveryBitFlipIsReadOrRefused) {
  const std::string seed = seed_model();
  int refused = 0;
  for (size_t bit = 0; bit < seed.size() * 8; ++bit) {
    std::string bytes = seed;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    refused += survives(bytes);
  }
  EXPECT_GT(refused, 1000);  // most bits of a small model carry structure
}

TEST(Mutation, RandomDamageIsReadOrRefused) {
  const std::string seed = seed_model();
  const unsigned random_seed = 20240229;
  SCOPED_TRACE(random_seed);
  std::mt19937 random(random_seed);
  int refused = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string bytes = seed;
    for (int change = 0; change < 1 + round % 7; ++change) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 8);
          break;
        case 2:
          bytes.insert(at, bytes.substr(random() % bytes.size(), 1 + random() % 16));
          break;
        case 3:
          bytes.replace(at, 1, random() % 2 ? "\xff" : std::string(1, '\0'));
          break;
      }
      if (bytes.empty()) bytes = seed;
    }
    refused += survives(bytes);
  }
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace stretto::onnx
