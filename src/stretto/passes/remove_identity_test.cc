#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

// x: float32[2, 3, 4]; the body makes y.
Rewritten clean(std::string_view body) {
  return rewrite(fmt::format(R"(graph g
    input x: float32[2, 3, 4]
    constant zero: float32[] = {{0}}
    constant one: float32[1, 1] = {{1}}
    constant axes: int64[1] = {{1}}
    {}
    y = Neg(last)
    output y)",
                             body),
                 {&kRemoveIdentity}, 0);
}

TEST(RemoveIdentity, DropsWhatReturnsItsInput) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"drop-identity", "last = Identity(x)"},
      {"drop-cast", "last = Cast(x) {to = \"float32\"}"},
      {"drop-reshape", "constant s: int64[3] = {2, -1, 4} last = Reshape(x, s)"},
      {"drop-reshape", "constant s: int64[2] = {1, 4} last = Expand(x, s)"},
      {"drop-transpose", "last = Transpose(x) {perm = [0, 1, 2]}"},
      {"drop-pad", "constant p: int64[6] = {0 ...} last = Pad(x, p)"},
      {"drop-slice",
       "constant b: int64[1] = {0} constant e: int64[1] = {9} last = Slice(x, b, e, axes)"},
      {"drop-concat", "last = Concat(x) {axis = 1}"},
      {"drop-times-one", "last = Mul(one, x)"},
      {"drop-times-one", "last = Div(x, one)"},
      {"drop-plus-zero", "last = Add(zero, x)"},
      {"drop-plus-zero", "last = Sub(x, zero)"}};
  for (const auto& [rule, body] : cases) {
    const auto r = clean(body);
    EXPECT_EQ(r.times(rule), 1) << body;
    EXPECT_EQ(r.graph.nodes.size(), 1u) << body;
  }
}

TEST(RemoveIdentity, KeepsWhatOnlyLooksLikeIt) {
  for (std::string_view body :
       {"constant big: float32[1, 2, 1, 1] = {1, 1} last = Mul(x, big)",  // broadcasts
        "constant four: float32[1, 1, 1, 1] = {1} last = Mul(x, four)",   // adds a dimension
        "last = Div(one, x)", "last = Sub(zero, x)", "last = Add(x, one)",
        "constant b: int64[1] = {-1} constant e: int64[1] = {-9} constant s: int64[1] = {-1} "
        "last = Slice(x, b, e, axes, s)",  // reverses
        "last = Concat(x, x) {axis = 1}", "last = Transpose(x) {perm = [1, 0, 2]}"}) {
    EXPECT_EQ(clean(body).fired.size(), 0u) << body;
  }
}

TEST(RemoveIdentity, GraphInputsAndOutputsKeepTheirNames) {
  const auto r = rewrite(R"(graph g
    input x: float32[2]
    a = Neg(x)
    b = Identity(a)
    c = Identity(a)
    d = Identity(x)
    output b, c, d)",
                         {&kRemoveIdentity}, 0);
  // b takes a over; c and d would have to share a value with another output or input.
  EXPECT_EQ(r.nodes("Identity"), 2);
}

TEST(RemoveIdentity, OneReshapeForAll) {
  const auto r = clean(R"(u = Unsqueeze(x, axes)
    s = Squeeze(u, axes)
    f = Flatten(s) {axis = 2}
    constant back: int64[3] = {0, 2, -1}
    last = Reshape(f, back))");
  EXPECT_EQ(r.nodes("Reshape"), 1);
  EXPECT_EQ(r.graph.nodes.size(), 2u);
}

TEST(RemoveIdentity, ReshapesThatAreReadBetweenStay) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 3, 4]
    constant a: int64[2] = {6, 4}
    constant b: int64[2] = {4, 6}
    f = Reshape(x, a)
    y = Reshape(f, b)
    output y, f)",
                         {&kRemoveIdentity}, 0);
  EXPECT_EQ(r.nodes("Reshape"), 2);
}

TEST(RemoveIdentity, TransposesCompose) {
  const auto back =
      clean("t = Transpose(x) {perm = [1, 2, 0]} last = Transpose(t) {perm = [2, 0, 1]}");
  EXPECT_EQ(back.graph.nodes.size(), 1u);
  const auto twice =
      clean("t = Transpose(x) {perm = [1, 2, 0]} last = Transpose(t) {perm = [1, 2, 0]}");
  EXPECT_EQ(twice.node("Transpose").attributes.integers("perm", {}),
            (std::vector<int64_t>{2, 0, 1}));
}

TEST(RemoveIdentity, MovingAxesOfOneElementIsAReshape) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 1, 4, 1]
    y = Transpose(x) {perm = [0, 2, 3, 1]}
    output y)",
                         {&kRemoveIdentity}, 0);
  EXPECT_EQ(r.times("transpose-as-reshape"), 1);
  EXPECT_EQ(r.nodes("Transpose"), 0);
}

TEST(RemoveIdentity, GatherNDOfWholeEntries) {
  const auto graph = [](const char* places, const char* attributes) {
    return fmt::format(R"(graph g
    input x: float32[5, 2, 3]
    input i: int64[{}]
    y = GatherND(x, i) {{{}}}
    output y)",
                       places, attributes);
  };
  for (const char* places : {"4, 1", "1", "2, 3, 1"}) {
    const auto r = rewrite(graph(places, ""), {&kRemoveIdentity}, 0);
    EXPECT_EQ(r.times("gather-nd"), 1) << places;
    EXPECT_EQ(r.nodes("Gather"), 1) << places;
  }
  EXPECT_EQ(rewrite(graph("4, 2", ""), {&kRemoveIdentity}, 0).times("gather-nd"), 0);
  EXPECT_EQ(rewrite(graph("5, 1", "batch_dims = 1"), {&kRemoveIdentity}, 0).times("gather-nd"), 0);
}

}  // namespace
}  // namespace stretto::passes
