#include "stretto/passes/pass_test.h"
#include "stretto/passes/view.h"

namespace stretto::passes {
namespace {

// Batch 2, 5 rows, 3 heads of 4 numbers. q, k and v are to be made [2, 3, 5, 4] by `body`.
constexpr std::string_view kHead = R"(graph g
    input x: float32[2, 5, 8]
    input mask: float32[2, 1, 1, 5]
    input keep: bool[2, 1, 5, 5]
    input p: float32[2, 5, 36]
    constant wq: float32[8, 12] = random(1)
    constant wk: float32[8, 12] = random(2)
    constant wv: float32[8, 12] = random(3)
    constant bq: float32[12] = random(4)
    constant heads: int64[4] = {0, 0, 3, 4}
    constant rows: int64[3] = {0, 0, -1}
    constant root: float32[] = {2}
    constant low: float32[] = {-1000000000}
    constant small: float32[] = {-10}
    constant minus_inf: float32[] = {-inf}
)";
constexpr std::string_view kProjections = R"(
    mq = MatMul(x, wq) pq = Add(mq, bq) pk = MatMul(x, wk) pv = MatMul(x, wv)
    rq = Reshape(pq, heads) rk = Reshape(pk, heads) rv = Reshape(pv, heads)
    q = Transpose(rq) {perm = [0, 2, 1, 3]}
    kt = Transpose(rk) {perm = [0, 2, 3, 1]}
    v = Transpose(rv) {perm = [0, 2, 1, 3]}
)";
constexpr std::string_view kTail = R"(
    o = MatMul(s, v) ot = Transpose(o) {perm = [0, 2, 1, 3]} y = Reshape(ot, rows)
    output y)";
const std::vector<const Pass*> kPasses{&kRemoveIdentity, &kFuseLinear,     &kFoldBatchNorm,
                                       &kFuseAttention,  &kRemoveIdentity, &kMergeLinears};

Rewritten attend(std::string_view scores, std::string_view operands = kProjections,
                 std::string_view tail = kTail, std::set<std::string> disabled = {}) {
  return rewrite(fmt::format("{}{}{}{}", kHead, operands, scores, tail), kPasses, 1e-6, disabled);
}

TEST(FuseAttention, ScaleAndMaskInEveryForm) {
  for (std::string_view scores :
       {"m = MatMul(q, kt) s = Softmax(m)",
        "m = MatMul(q, kt) d = Div(m, root) s = Softmax(d) {axis = 3}",
        "m = MatMul(q, kt) d = Mul(root, m) a = Add(d, mask) s = Softmax(a)",
        "qs = Div(q, root) m = MatMul(qs, kt) a = Add(mask, m) s = Softmax(a)",
        "qs = Mul(q, root) ks = Mul(kt, root) m = MatMul(qs, ks) s = Softmax(m)",
        "m = MatMul(q, kt) w = Where(keep, m, low) s = Softmax(w)",
        "m = MatMul(q, kt) w = Where(keep, low, m) s = Softmax(w)",
        "m = MatMul(q, kt) d = Div(m, root) w = Where(keep, minus_inf, d) s = Softmax(w)"}) {
    const auto r = attend(scores);
    EXPECT_EQ(r.times("attention"), 1) << scores;
    EXPECT_EQ(r.times("merge-projections"), 1) << scores;
    EXPECT_EQ(r.nodes("Transpose") + r.nodes("Reshape") + r.nodes("Softmax"), 0) << scores;
    EXPECT_EQ(r.nodes("stretto.Linear"), 1) << scores;
  }
}

TEST(FuseAttention, PackedProjectionsSplitInEveryWay) {
  const std::string_view rows_first = R"(
    constant five: int64[5] = {2, 5, 3, 3, 4} r = Reshape(p, five)
    t = Transpose(r) {perm = [2, 0, 3, 1, 4]}
    constant ones: int64[3] = {1, 1, 1} constant zero: int64[1] = {0}
    a, b, c = Split(t, ones) {axis = 0}
    q = Squeeze(a, zero) k = Squeeze(b, zero) v = Squeeze(c, zero)
    kt = Transpose(k) {perm = [0, 1, 3, 2]})";
  const std::string_view gathered = R"(
    constant five: int64[5] = {2, 5, 3, 3, 4} r = Reshape(p, five)
    t = Transpose(r) {perm = [2, 0, 3, 1, 4]}
    constant i0: int64[] = {0} constant i1: int64[] = {1} constant i2: int64[] = {-1}
    q = Gather(t, i0) k = Gather(t, i1) v = Gather(t, i2)
    kt = Transpose(k) {perm = [0, 1, 3, 2]})";
  const std::string_view split_columns = R"(
    constant thirds: int64[3] = {12, 12, 12}
    a, b, c = Split(p, thirds) {axis = -1}
    ra = Reshape(a, heads) rb = Reshape(b, heads) rc = Reshape(c, heads)
    q = Transpose(ra) {perm = [0, 2, 1, 3]} kt = Transpose(rb) {perm = [0, 2, 3, 1]}
    v = Transpose(rc) {perm = [0, 2, 1, 3]})";
  const std::string_view sliced = R"(
    constant c0: int64[1] = {0} constant c1: int64[1] = {12} constant c2: int64[1] = {-12}
    constant c3: int64[1] = {24} constant end: int64[1] = {1000} constant last: int64[1] = {2}
    a = Slice(p, c0, c1, last) b = Slice(p, c1, c3, last) c = Slice(p, c2, end, last)
    ra = Reshape(a, heads) rb = Reshape(b, heads) rc = Reshape(c, heads)
    q = Transpose(ra) {perm = [0, 2, 1, 3]} kt = Transpose(rb) {perm = [0, 2, 3, 1]}
    v = Transpose(rc) {perm = [0, 2, 1, 3]})";
  for (std::string_view operands : {rows_first, gathered, split_columns, sliced}) {
    const auto r = attend("\nm = MatMul(q, kt) d = Div(m, root) s = Softmax(d)", operands);
    EXPECT_EQ(r.graph.nodes.size(), 1u) << operands;
    EXPECT_EQ(r.node("stretto.Attention").attributes.integer("v_offset", 0), 24);
  }
}

TEST(FuseAttention, QueriesThatAreNoRowsAreMovedAndCachesAreNot) {
  // Heads come first in the inputs already, and q is rotated by something elementwise.
  const auto r = rewrite(R"(graph g
    input q: float32[2, 3, 5, 4]
    input k: float32[2, 3, 7, 4]
    input v: float32[2, 3, 7, 4]
    e = Exp(q)
    kt = Transpose(k) {perm = [0, 1, 3, 2]}
    m = MatMul(e, kt)
    s = Softmax(m)
    y = MatMul(s, v)
    output y)",
                         kPasses);
  EXPECT_EQ(r.times("attention"), 1);
  EXPECT_EQ(r.nodes("Transpose"), 2);
  EXPECT_EQ(r.graph.value(r.node("stretto.Attention").inputs[1]).name, "k");
}

// As PyTorch's exporter writes a step of decoding: a cache with a place more, heads that share it,
// the scale on both sides, and zeros for queries that see no key.
TEST(FuseAttention, AStepOfDecodingReadsItsCacheWhereItLies) {
  const std::string_view body = R"(
    input q: float32[2, 4, 1, 8]
    input k: float32[2, 2, 6, 8]
    input v: float32[2, 2, 6, 8]
    input nk: float32[2, 2, 1, 8]
    input nv: float32[2, 2, 1, 8]
    input mask: float32[2, 1, 1, 7]
    constant root: float32[] = {0.5}
    constant zero: float32[] = {0}
    constant axis: int64[1] = {2}
    constant five: int64[5] = {2, 2, 2, 7, 8}
    constant four: int64[4] = {2, 4, 7, 8}
    constant three: int64[3] = {8, 7, 8}
    constant back: int64[4] = {2, 4, 8, 7}
    pk = Concat(k, nk) {axis = -2}
    pv = Concat(v, nv) {axis = 2}
    uk = Unsqueeze(pk, axis) ek = Expand(uk, five) rk = Reshape(ek, four)
    uv = Unsqueeze(pv, axis) ev = Expand(uv, five) rv = Reshape(ev, four)
    flat = Reshape(rk, three) turned = Transpose(flat) {perm = [0, 2, 1]} kt = Reshape(turned, back)
    qs = Mul(q, root) ks = Mul(kt, root)
    m = MatMul(qs, ks) a = Add(m, mask) s = Softmax(a) {axis = -1}
)";
  const auto r = rewrite(fmt::format("graph g{}{}", body, R"(
    nan = IsNaN(s) w = Where(nan, zero, s)
    y = MatMul(w, rv)
    output y, pk)"),
                         kPasses);
  EXPECT_EQ(r.times("attention"), 1);
  EXPECT_EQ(r.nodes("Expand") + r.nodes("Softmax") + r.nodes("IsNaN"), 0);
  const auto& node = r.node("stretto.Attention");
  EXPECT_EQ(r.graph.value(node.inputs[1]).name, "pk");
  EXPECT_EQ(node.attributes.integer("masked_zero", 0), 1);
  EXPECT_NEAR(node.attributes.number("scale", 0), 0.25, 1e-9);
  // Something else than zeros for such queries is not what the node does.
  const auto none = rewrite(fmt::format("graph g{}{}", body, R"(
    nan = IsNaN(s) w = Where(nan, root, s)
    y = MatMul(w, rv)
    output y, pk)"),
                            kPasses);
  EXPECT_EQ(none.times("attention"), 0);
}

// As the importer writes Attention of ONNX and of ONNX Runtime under a mask. The third query is
// blind.
TEST(FuseAttention, QueriesThatSeeNoKeyGiveZerosByTheirScores) {
  const auto with = [](std::string_view test, std::string_view more = "") {
    return attend(fmt::format(R"(
    constant queries: bool[5, 1] = {{true, true, false, true, true}}
    constant none: float32[] = {{0}}
    constant last: int64[1] = {{-1}}
    seen = And(keep, queries)
    hidden = Where(seen, none, minus_inf)
    m = MatMul(q, kt) a = Add(m, hidden)
    w = Softmax(a) {{axis = -1}}
    top = ReduceMax(a, last) {{keepdims = 1}}
    blind = Equal(top, {})
    s = Where(blind, none, w)
    {})",
                              test, more));
  };
  const auto r = with("minus_inf");
  EXPECT_EQ(r.times("attention"), 1);
  EXPECT_EQ(r.node("stretto.Attention").attributes.integer("masked_zero", 0), 1);
  EXPECT_EQ(r.nodes("ReduceMax") + r.nodes("Softmax") + r.nodes("Equal"), 0);
  EXPECT_EQ(with("low").times("attention"), 0);
  EXPECT_EQ(with("minus_inf", "z = Exp(a) output z").times("attention"), 0);
}

TEST(FuseAttention, QueriesThatSeeNoKeyGiveZerosByTheirMask) {
  constexpr std::string_view body = R"(
  graph g
    input q: float32[2, 4, 7, 8]
    input kt: float32[2, 4, 8, 7]
    input v: float32[2, 4, 7, 8]
    input keep: bool[2, 1, 7, 7]
    input other: bool[2, 1, 7, 7]
    constant last: int64[1] = {-1}
    constant hidden: float32[] = {-inf}
    constant low: float32[] = {-3e38}
    constant zero: float32[] = {0}
    constant one: float32[] = {1}
    m = MatMul(q, kt)
)";
  const auto fused = [&](std::string_view hidden, std::string_view seen, std::string_view filled) {
    return rewrite(fmt::format(R"({}
    a = Where(keep, m, {}) s = Softmax(a) {{axis = -1}} p = MatMul(s, v)
    seen = ReduceMax({}, last)
    y = Where(seen, p, {})
    output y)",
                               body, hidden, seen, filled),
                   kPasses);
  };
  const auto r = fused("hidden", "keep", "zero");
  EXPECT_EQ(r.times("attention"), 1);
  EXPECT_EQ(r.nodes("ReduceMax"), 0);
  EXPECT_EQ(r.nodes("Where"), 1);  // of the mask
  EXPECT_EQ(r.node("stretto.Attention").attributes.integer("masked_zero", 0), 1);
  // Other masks, fillings and scores that are not -inf keep the Where.
  for (const auto& kept : {fused("hidden", "other", "zero"), fused("hidden", "keep", "one"),
                           fused("low", "keep", "zero")}) {
    EXPECT_EQ(kept.times("attention"), 1);
    EXPECT_EQ(kept.nodes("ReduceMax"), 1);
    EXPECT_EQ(kept.node("stretto.Attention").attributes.integer("masked_zero", 0), 0);
  }
}

TEST(FuseAttention, HeadsInTheBatchDimension) {
  const auto r = rewrite(R"(graph g
    input x: float32[5, 1, 12]
    input mask: float32[5, 5]
    constant hs: int64[3] = {5, 3, 4}
    constant back: int64[3] = {5, 1, 12}
    r = Reshape(x, hs)
    q = Transpose(r) {perm = [1, 0, 2]}
    kt = Transpose(r) {perm = [1, 2, 0]}
    v = Transpose(r) {perm = [1, 0, 2]}
    m = MatMul(q, kt)
    a = Add(m, mask)
    s = Softmax(a)
    o = MatMul(s, v)
    t = Transpose(o) {perm = [1, 0, 2]}
    y = Reshape(t, back)
    output y)",
                         kPasses);
  EXPECT_EQ(r.times("attention"), 1);
  EXPECT_EQ(r.nodes("Transpose"), 0);
}

TEST(FuseAttention, NotWhenSomethingElseIsMeantOrNeeded) {
  const auto none = [](std::string_view scores, std::string_view tail = kTail) {
    EXPECT_EQ(attend(scores, kProjections, tail).times("attention"), 0) << scores;
  };
  none("m = MatMul(q, kt) s = Softmax(m) {axis = 2}");
  none(
      "m = MatMul(q, kt) a = Add(m, mask) d = Div(a, root) s = Softmax(d)");  // scales the mask too
  none("m = MatMul(q, kt) w = Where(keep, m, small) s = Softmax(w)");         // -10 masks nothing
  none("m = MatMul(q, kt) s = Softmax(m)", "o = MatMul(s, v) z = Neg(s) output o, z");
  none("m = MatMul(q, kt) z = Neg(m) s = Softmax(m)", "o = MatMul(s, v) output o, z");
}

TEST(MergeLinears, OnlyProjectionsOfOneInputThatNobodyElseReads) {
  const std::string_view scores = "m = MatMul(q, kt) s = Softmax(m)";
  std::string shared(kTail);
  shared += ", pq";
  const auto two = attend(scores, kProjections, shared);
  EXPECT_EQ(two.times("merge-projections"), 1);
  EXPECT_EQ(two.nodes("stretto.Linear"), 2);
  EXPECT_EQ(two.node("stretto.Attention").attributes.integer("v_offset", 0), 12);
  const auto off = attend(scores, kProjections, kTail, {"merge-linears"});
  EXPECT_EQ(off.nodes("stretto.Linear"), 3);
}

TEST(View, StopsWhereAReshapeWouldHaveToCopy) {
  ir::Graph graph = ir::parse_text(R"(graph g
    input x: float32[2, 3, 4]
    constant flat: int64[1] = {24}
    constant s: int64[2] = {6, 4}
    t = Transpose(x) {perm = [1, 0, 2]}
    a = Reshape(t, s)
    y = Reshape(a, flat)
    output y)");
  const ir::ValueId y = graph.outputs[0], t = graph.nodes[0].outputs[0];
  const Rewriter rewriter(graph);
  const View moved = trace_view(rewriter, t);
  EXPECT_EQ(moved.source, graph.inputs[0]);
  EXPECT_EQ(moved.strides, (std::vector<int64_t>{4, 12, 1}));
  EXPECT_EQ(trace_view(rewriter, y).source, graph.nodes[1].outputs[0]);
}

}  // namespace
}  // namespace stretto::passes
