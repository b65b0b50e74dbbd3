#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

const std::vector<const Pass*> kPasses{&kFuseConv, &kConcatConvs, &kFoldBatchNorm, &kFuseEpilogue};

// Two convolutions of parts of x; `second` is the second one's attributes, `rest` what follows.
Rewritten towers(std::string_view sizes, std::string_view second, std::string_view rest) {
  return rewrite(fmt::format(R"(graph towers
    input x: float32[2, 8, 5, 6]
    constant sizes: int64[2] = {{{}}}
    constant w1: float32[3, 4, 3, 3] = random(1)
    constant w2: float32[3, 4, 3, 3] = random(2)
    constant b2: float32[3] = random(3)
    constant g: float32[6] = {{1, 2, 3, -4, 5, 0.5}}
    constant b: float32[6] = random(4)
    constant m: float32[6] = random(5)
    constant v: float32[6] = {{1, 2, 1, 0.5, 3, 1}}
    p, q = Split(x, sizes) {{axis = 1}}
    c = Conv(p, w1) {{pads = [1, 1, 1, 1]}}
    d = Conv(q, w2, b2) {}
    {})",
                             sizes, second, rest),
                 kPasses);
}

constexpr std::string_view kSame = "{pads = [1, 1, 1, 1]}";

TEST(ConcatConvs, EqualPartsOfOneInputBecomeGroups) {
  const Rewritten r = towers("4, 4", kSame, R"(t = Concat(c, d) {axis = 1}
    n = BatchNormalization(t, g, b, m, v)
    y = Relu(n)
    output y)");
  EXPECT_EQ(r.times("grouped-convolution"), 1);
  EXPECT_EQ(r.graph.nodes.size(), 1u);
  EXPECT_EQ(r.node("stretto.Conv").attributes.integer("group", 1), 2);
}

TEST(ConcatConvs, GroupsOfGroupsMultiply) {
  const Rewritten r = rewrite(R"(graph g
    input x: float32[1, 12, 4, 4]
    constant w1: float32[4, 3, 1, 1] = random(1)
    constant w2: float32[4, 3, 1, 1] = random(2)
    constant sizes: int64[2] = {6, 6}
    p, q = Split(x, sizes) {axis = 1}
    c = Conv(p, w1) {group = 2}
    d = Conv(q, w2) {group = 2}
    y = Concat(c, d) {axis = -3}
    output y)",
                              kPasses);
  EXPECT_EQ(r.graph.nodes.size(), 1u);
  EXPECT_EQ(r.node("stretto.Conv").attributes.integer("group", 1), 4);
}

TEST(ConcatConvs, PartsInAnotherOrderAreNoGroups) {
  const Rewritten r = towers("4, 4", kSame, "y = Concat(d, c) {axis = 1}\n output y");
  EXPECT_EQ(r.times("grouped-convolution"), 0);
}

TEST(ConcatConvs, OtherAxesAndUsersStay) {
  const Rewritten rows = towers("4, 4", kSame, "y = Concat(c, d) {axis = 2}\n output y");
  EXPECT_EQ(rows.times("grouped-convolution"), 0);
  const Rewritten used = towers("4, 4", kSame, "y = Concat(c, d) {axis = 1}\n output y, c");
  EXPECT_EQ(used.times("grouped-convolution"), 0);
}

TEST(ConcatConvs, WhatFollowsOtherWindowsMovesToTheParts) {
  const Rewritten r = towers("4, 4", "{pads = [2, 2, 2, 2], dilations = [2, 2]}",
                             R"(t = Concat(c, d) {axis = 1}
    n = BatchNormalization(t, g, b, m, v)
    y = Relu(n)
    output y)");
  EXPECT_EQ(r.times("grouped-convolution"), 0);
  EXPECT_EQ(r.times("batch-norm-before-concat"), 1);
  EXPECT_EQ(r.times("activation-before-concat"), 1);
  EXPECT_EQ(r.times("fold-batch-norm"), 2);
  EXPECT_EQ(r.nodes("Relu"), 0);
  EXPECT_EQ(r.nodes("BatchNormalization") + r.nodes("Mul"), 0);
}

TEST(ConcatConvs, NothingMovesPastAnInputThatIsNoConvolution) {
  const Rewritten r = towers("4, 4", kSame, R"(t = Concat(c, p) {axis = 1}
    y = Relu(t)
    output y, d)");
  EXPECT_EQ(r.times("activation-before-concat"), 0);
}

}  // namespace
}  // namespace stretto::passes
