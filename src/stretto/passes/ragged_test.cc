#include "stretto/passes/ragged.h"

#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

// Batch 3, 4 tokens, 2 heads of 4 numbers. A body makes `scores_mask` of `mask` and `y` of `h`.
constexpr std::string_view kHead = R"(graph g
    input ids: int64[3, 4]
    input mask: int64[3, 4]
    input other: float32[3, 4, 8]
    input vector: float32[3, 1, 8]
    constant table: float32[20, 8] = random(1)
    constant places: float32[1, 4, 8] = random(2)
    constant wq: float32[8, 8] = random(3)
    constant wk: float32[8, 8] = random(4)
    constant wv: float32[8, 8] = random(5)
    constant wo: float32[8, 8] = random(6)
    constant scale: float32[8] = random(7)
    constant heads: int64[4] = {0, 0, 2, 4}
    constant rows: int64[3] = {0, 0, -1}
    constant one: float32[] = {1}
    constant low: float32[] = {-1000000000}
    constant middle: int64[2] = {1, 2}
    m1 = Cast(mask) {to = "float32"}
    m2 = Sub(one, m1)
    m3 = Mul(m2, low)
    m4 = Unsqueeze(m3, middle)
    e = Gather(table, ids)
    x = Add(e, places)
    mq = MatMul(x, wq) mk = MatMul(x, wk) mv = MatMul(x, wv)
    rq = Reshape(mq, heads) rk = Reshape(mk, heads) rv = Reshape(mv, heads)
    q = Transpose(rq) {perm = [0, 2, 1, 3]}
    kt = Transpose(rk) {perm = [0, 2, 3, 1]}
    v = Transpose(rv) {perm = [0, 2, 1, 3]}
    qk = MatMul(q, kt)
)";
constexpr std::string_view kAttend = R"(
    s = Softmax(masked)
    o = MatMul(s, v) ot = Transpose(o) {perm = [0, 2, 1, 3]} r = Reshape(ot, rows)
    p = MatMul(r, wo) a = Add(p, x) h = LayerNormalization(a, scale)
)";
constexpr std::string_view kPlain = "masked = Add(qk, m4)";

struct Packed {
  ir::Graph before, after;
  Ragged ragged;
  int nodes(std::string_view op) const {
    return static_cast<int>(std::count_if(after.nodes.begin(), after.nodes.end(),
                                          [&](const ir::Node& n) { return n.op->name == op; }));
  }
};

Packed pack(std::string_view masked, std::string_view tail, int64_t rows = 9) {
  Packed packed;
  packed.before = ir::parse_text(fmt::format("{}{}{}{}", kHead, masked, kAttend, tail));
  packed.after = packed.before;
  packed.ragged = {.mask = "mask", .rows = rows};
  run_pipeline(packed.after, {.ragged = &packed.ragged});
  return packed;
}

// Lengths 2, 4 and 1; then holes and a sample without tokens.
const std::vector<std::vector<int64_t>> kMasks{{1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0},
                                               {0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 1}};

// What tokens get is the same, and where padding is there are zeros. Outputs without tokens
// (another shape than [3, 4, ...]) are the same where their sample has tokens.
void expect_same_for_tokens(const Packed& packed) {
  for (const auto& values : kMasks) {
    std::vector<Tensor> inputs = random_inputs(packed.before, 3);
    auto ids = inputs[0].mutable_values<int64_t>();
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(7 * i % 20);
    std::ranges::copy(values, inputs[1].mutable_values<int64_t>().begin());
    const auto expected = ir::interpret(packed.before, inputs);
    const auto got = ir::interpret(packed.after, inputs);
    for (size_t o = 0; o < expected.size(); ++o) {
      const Shape& shape = expected[o].shape();
      ASSERT_EQ(got[o].shape(), shape);
      const bool tokens = shape.size() >= 2 && shape[1] == 4;
      const int64_t row = expected[o].count() / (tokens ? 12 : 3);
      const auto a = expected[o].as_doubles(), b = got[o].as_doubles();
      for (size_t i = 0; i < a.size(); ++i) {
        const auto at = static_cast<size_t>(static_cast<int64_t>(i) / row);
        const bool real = tokens ? values[at] != 0
                                 : std::any_of(values.begin() + static_cast<int64_t>(4 * at),
                                               values.begin() + static_cast<int64_t>(4 * at + 4),
                                               [](int64_t m) { return m != 0; });
        if (real) {
          EXPECT_NEAR(a[i], b[i], 1e-5) << "output " << o << ", element " << i;
        } else if (tokens) {
          EXPECT_EQ(b[i], 0) << "output " << o << ", element " << i;
        }
      }
    }
  }
}

TEST(Ragged, PacksFromEmbeddingToOutput) {
  const Packed p = pack(kPlain, "y = Relu(h) output y");
  EXPECT_EQ(p.ragged.attentions, 1);
  EXPECT_EQ(p.ragged.packed, 1);
  EXPECT_TRUE(p.ragged.not_packed.empty());
  EXPECT_TRUE(p.ragged.unpacked.empty());
  // Ids and positions on the way in, and the output on the way out.
  EXPECT_EQ(p.nodes("stretto.TakeRows"), 3);
  EXPECT_EQ(p.nodes("stretto.RowIndex"), 1);
  // The mask that was made for the scores is gone.
  EXPECT_EQ(p.nodes("Sub") + p.nodes("Unsqueeze"), 0);
  for (const ir::Node& node : p.after.nodes) {
    if (node.op->name == "stretto.Linear") {
      EXPECT_EQ((*p.after.value(node.outputs[0]).shape)[1], 9) << node.name;
    }
  }
  expect_same_for_tokens(p);
}

TEST(Ragged, MasksInOtherForms) {
  for (std::string_view masked :
       {"constant zero: int64[] = {0} b = Equal(mask, zero) u = Unsqueeze(b, middle)"
        " masked = Where(u, low, qk)",
        "constant full: int64[4] = {3, 1, 4, 4} ex = Expand(m4, full) masked = Add(ex, qk)",
        "constant full: int64[4] = {3, 2, 4, 4} ex = Expand(m4, full) half = Mul(ex, one)"
        " masked = Add(qk, half)"}) {
    const Packed p = pack(masked, "y = Relu(h) output y");
    EXPECT_EQ(p.ragged.packed, 1) << masked;
    expect_same_for_tokens(p);
  }
}

TEST(Ragged, WhatAnOperandHasOfPositionSampleAndToken) {
  const Packed p = pack(kPlain, R"(
    a1 = Add(h, places) a2 = Mul(a1, vector) a3 = Add(a2, other) y = Add(a3, scale)
    output y)");
  EXPECT_EQ(p.ragged.packed, 1);
  EXPECT_TRUE(p.ragged.unpacked.empty());
  expect_same_for_tokens(p);
}

TEST(Ragged, OperatorsWithinTokensStayPacked) {
  const Packed p = pack(kPlain, R"(
    constant flat: int64[2] = {12, 8} constant back: int64[3] = {3, 4, 8}
    constant four: int64[4] = {3, 4, 2, 4} constant wide: int64[4] = {3, 4, 4, 4}
    constant last: int64[1] = {-1} constant begin: int64[1] = {1} constant end: int64[1] = {7}
    constant parts: int64[2] = {3, 5} constant pick: int64[] = {2}
    f = Reshape(h, flat) g = MatMul(f, wo) t = Reshape(g, back)
    gl = Gelu(t) z = Softmax(gl) mean = ReduceMean(z, last) c = Sub(z, mean)
    s1, s2 = Split(c, parts) {axis = 2} j = Concat(s2, s1) {axis = -1}
    r4 = Reshape(j, four) tr = Transpose(r4) {perm = [0, 1, 3, 2]}
    sq = Slice(tr, begin, end, last) gp = Gather(sq, pick) {axis = 2}
    output gp, j)");
  EXPECT_EQ(p.ragged.packed, 1);
  EXPECT_TRUE(p.ragged.unpacked.empty()) << p.ragged.unpacked[0];
  expect_same_for_tokens(p);
}

TEST(Ragged, OperatorsAcrossTokensGetPaddedValues) {
  const Packed p = pack(kPlain, R"(
    constant second: int64[1] = {1} constant last: int64[1] = {2}
    m5 = Cast(mask) {to = "float32"} m6 = Unsqueeze(m5, last) k = Mul(h, m6)
    sum = ReduceSum(k, second) {keepdims = 0}
    t = MatMul(h, wo) y = Relu(t)
    output sum, y)");
  EXPECT_EQ(p.ragged.packed, 1);
  ASSERT_EQ(p.ragged.unpacked.size(), 1u);
  EXPECT_NE(p.ragged.unpacked[0].find("ReduceSum"), std::string::npos);
  expect_same_for_tokens(p);
}

TEST(Ragged, ValuesOfSamplesThatMeetTheirFirstToken) {
  Packed p = pack(kPlain, R"(
    constant first: int64[] = {0} c = Gather(h, first) {axis = 1} y = MatMul(c, wo) output y)");
  EXPECT_EQ(p.ragged.packed, 1);
  EXPECT_EQ(p.ragged.unpacked.size(), 1u);
}

// An attention whose mask does something else keeps it, and so does all that is around it.
TEST(Ragged, MasksThatAreNotThisMask) {
  for (std::string_view masked :
       {// causal as well
        "constant c: float32[1, 1, 4, 4] = {0, -1e9, -1e9, -1e9, 0, 0, -1e9, -1e9, 0, 0, 0, -1e9,"
        " 0, 0, 0, 0} cm = Min(c, m4) masked = Add(qk, cm)",
        // a bias beside it
        "constant c: float32[1, 2, 4, 4] = random(9) cm = Add(c, m4) masked = Add(qk, cm)",
        // hides nothing, and hides the wrong ones
        "constant half: float32[] = {1e-12} cm = Mul(m4, half) masked = Add(qk, cm)",
        "m7 = Mul(m1, low) m8 = Unsqueeze(m7, middle) masked = Add(qk, m8)",
        // what another input says
        "constant at: int64[1] = {2} cm = ReduceSum(other, at) {keepdims = 0}"
        " cn = Mul(cm, low) c8 = Unsqueeze(cn, middle) masked = Add(qk, c8)",
        // no mask
        "masked = Mul(qk, one)"}) {
    const Packed p = pack(masked, "y = Relu(h) output y");
    EXPECT_EQ(p.ragged.attentions, 1) << masked;
    EXPECT_EQ(p.ragged.packed, 0) << masked;
    EXPECT_EQ(p.ragged.not_packed.size(), 1u) << masked;
    EXPECT_EQ(p.nodes("stretto.RowIndex"), 0) << masked;
    expect_same_results(p.before, p.after, 1e-6);
  }
}

// Rows of a value that only has the shape of tokens would lose what padding hides.
TEST(Ragged, OnlyWhatMeetsAPackedAttentionIsPacked) {
  const Packed p = pack(kPlain, R"(
    apart = MatMul(other, wo) near = Relu(h)
    output near, apart)");
  EXPECT_EQ(p.ragged.packed, 1);
  std::vector<Tensor> inputs = random_inputs(p.before, 3);
  std::ranges::copy(kMasks[0], inputs[1].mutable_values<int64_t>().begin());
  const auto expected = ir::interpret(p.before, inputs)[1].as_doubles();
  const auto got = ir::interpret(p.after, inputs)[1].as_doubles();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6);
}

TEST(Ragged, FindsOutOnceWhatAMaskDoes) {
  std::map<std::string, bool> known;
  Packed p = pack(kPlain, "y = Relu(h) output y");
  p.after = p.before;
  p.ragged.known = &known;
  run_pipeline(p.after, {.ragged = &p.ragged});
  ASSERT_EQ(known.size(), 1u);
  known.begin()->second = false;
  p.after = p.before;
  run_pipeline(p.after, {.ragged = &p.ragged});
  EXPECT_EQ(p.ragged.packed, 0);
}

}  // namespace
}  // namespace stretto::passes
