// Every rewrite meets dimensions of zero: it keeps the results or leaves the graph alone.
#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

// A graph whose shapes name their dimensions, such as $n, and what these are when they are not 0.
struct Pattern {
  const char* name;
  std::string_view text;
  std::vector<std::pair<std::string_view, int64_t>> dims;
  std::string_view rule;  // fires when no dimension is zero, so that the pattern is the right one
};

const std::vector<Pattern> kPatterns{
    {"attention",
     R"(input q: float32[$b, $h, $s, $d]
        input k: float32[$b, $h, $d, $t]
        input v: float32[$b, $h, $t, $d]
        input mask: float32[$b, 1, $s, $t]
        m = MatMul(q, k) a = Add(m, mask) p = Softmax(a) y = MatMul(p, v)
        output y)",
     {{"$b", 2}, {"$h", 3}, {"$s", 5}, {"$d", 4}, {"$t", 6}},
     "attention"},
    {"attention_without_batch",
     R"(input q: float32[$h, $s, $d]
        input k: float32[$h, $d, $t]
        constant v: float32[$h, $t, $d] = random(1)
        m = MatMul(q, k) p = Softmax(m) y = MatMul(p, v)
        output y)",
     {{"$h", 3}, {"$s", 5}, {"$d", 4}, {"$t", 6}},
     "attention"},
    {"attention_of_projections",
     R"(input x: float32[$b, $s, $w]
        constant wq: float32[$w, 12] = random(1)
        constant wk: float32[$w, 12] = random(2)
        constant wv: float32[$w, 12] = random(3)
        constant heads: int64[4] = {$b, $s, 3, 4}
        constant rows: int64[3] = {$b, $s, 12}
        a = MatMul(x, wq) b = MatMul(x, wk) c = MatMul(x, wv)
        ra = Reshape(a, heads) {allowzero = 1}
        rb = Reshape(b, heads) {allowzero = 1}
        rc = Reshape(c, heads) {allowzero = 1}
        q = Transpose(ra) {perm = [0, 2, 1, 3]}
        k = Transpose(rb) {perm = [0, 2, 3, 1]}
        v = Transpose(rc) {perm = [0, 2, 1, 3]}
        m = MatMul(q, k) p = Softmax(m) o = MatMul(p, v)
        t = Transpose(o) {perm = [0, 2, 1, 3]}
        y = Reshape(t, rows) {allowzero = 1}
        output y)",
     {{"$b", 2}, {"$s", 5}, {"$w", 8}},
     "merge-projections"},
    {"norm_into_next_convolution",
     R"(input x: float32[$n, $c, 5, 4]
        constant g: float32[$c] = random(1)
        constant b: float32[$c] = random(2)
        constant m: float32[$c] = random(3)
        constant w: float32[$k, $c, 1, 1] = random(4)
        sq = Mul(g, g)
        a = BatchNormalization(x, g, b, m, sq)
        y = Conv(a, w)
        output y)",
     {{"$n", 1}, {"$c", 3}, {"$k", 6}},
     "batch-norm-into-next"},
    {"norm_into_convolution",
     R"(input x: float32[$n, $c, 5, 4]
        constant g: float32[$k] = random(1)
        constant w: float32[$k, $c, 3, 3] = random(4)
        sq = Mul(g, g)
        a = Conv(x, w) {pads = [1, 1, 1, 1]}
        b = BatchNormalization(a, g, g, g, sq)
        y = Relu(b)
        output y)",
     {{"$n", 1}, {"$c", 3}, {"$k", 6}},
     "fold-batch-norm"},
    {"scaled_transposed_convolution",
     R"(input x: float32[$n, $c, 5, 4]
        constant g: float32[$k, 1, 1] = random(1)
        constant w: float32[$c, $k, 2, 2] = random(4)
        a = ConvTranspose(x, w) {strides = [2, 2]}
        y = Mul(a, g)
        output y)",
     {{"$n", 1}, {"$c", 3}, {"$k", 6}},
     "fold-scale"},
    {"convolutions_of_one_input",
     R"(input x: float32[1, $c, 5, 4]
        constant v: float32[$k, $c, 1, 1] = random(1)
        constant w: float32[$l, $c, 1, 1] = random(2)
        a = Conv(x, v) b = Conv(x, w) p = Softmax(a) q = Softmax(b)
        output p, q)",
     {{"$c", 3}, {"$k", 16}, {"$l", 32}},
     "merge-convolutions"},
    {"linear",
     R"(input x: float32[$m, $k]
        constant w: float32[$k, $n] = random(1)
        constant s: float32[$n] = random(2)
        a = MatMul(x, w) b = Mul(a, s) c = Add(b, s) y = Relu(c)
        output y)",
     {{"$m", 4}, {"$k", 5}, {"$n", 6}},
     "activation"},
    {"mean_over_images",
     R"(input x: float32[$n, $c, $y, $x]
        constant axes: int64[2] = {2, 3}
        a = ReduceMean(x, axes) {keepdims = 0}
        y = Sigmoid(a)
        output y)",
     {{"$n", 2}, {"$c", 3}, {"$y", 5}, {"$x", 4}},
     "mean-to-global-pool"},
    {"sum_over_radix",
     R"(input x: float32[$n, $t, $y, $x]
        constant five: int64[5] = {$n, 2, $c, $y, $x}
        a = Reshape(x, five) {allowzero = 1}
        constant axes: int64[1] = {1}
        y = ReduceSum(a, axes) {keepdims = 0}
        output y)",
     {{"$n", 2}, {"$y", 5}, {"$x", 4}, {"$c", 3}},
     "radix-sum"},
    {"layer_norm",
     R"(input x: float32[$m, $n]
        input r: float32[$m, $n]
        constant s: float32[$n] = random(1)
        constant two: float32[] = {2}
        constant small: float32[] = {0.00001}
        constant axes: int64[1] = {-1}
        z = Add(x, r)
        mean = ReduceMean(z, axes)
        d = Sub(z, mean) sq = Pow(d, two)
        var = ReduceMean(sq, axes)
        e = Add(var, small) root = Sqrt(e) q = Div(d, root) f = Mul(q, s) y = Add(f, s)
        output y)",
     {{"$m", 4}, {"$n", 6}},
     "layer-norm"},
    {"transposes",
     R"(input x: float32[$n, $c, $y, $x]
        constant s: float32[$c] = random(1)
        a = Transpose(x) {perm = [0, 2, 3, 1]} b = Add(a, s)
        y = Transpose(b) {perm = [0, 3, 1, 2]}
        output y)",
     {{"$n", 2}, {"$c", 3}, {"$y", 5}, {"$x", 4}},
     "transpose-pair"},
};

std::string replaced(std::string text, std::string_view what, int64_t by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos;) {
    text.replace(at, what.size(), std::to_string(by));
  }
  return text;
}

// The graph with dimension `zero` set to 0 (none: nullopt).
std::string text_of(const Pattern& pattern, std::optional<size_t> zero) {
  std::string text = "graph g\n" + std::string(pattern.text);
  int64_t channels = 0;
  for (size_t i = 0; i < pattern.dims.size(); ++i) {
    const auto& [name, dim] = pattern.dims[i];
    const int64_t now = zero == i ? 0 : dim;
    if (name == "$c") channels = now;
    text = replaced(text, name, now);
  }
  return replaced(text, "$t", 2 * channels);  // both halves of a radix
}

class EmptyShapes : public ::testing::TestWithParam<Pattern> {};

TEST_P(EmptyShapes, KeepTheirResults) {
  const Pattern& pattern = GetParam();
  ir::Graph whole = ir::parse_text(text_of(pattern, {}));
  const PipelineReport report = run_pipeline(whole);
  EXPECT_TRUE(std::any_of(report.fired.begin(), report.fired.end(),
                          [&](const Fired& fired) { return fired.rule == pattern.rule; }))
      << pattern.rule << " did not fire";
  for (size_t zero = 0; zero < pattern.dims.size(); ++zero) {
    SCOPED_TRACE(std::string(pattern.dims[zero].first) + " is 0");
    const ir::Graph before = ir::parse_text(text_of(pattern, zero));
    ir::Graph after = before;
    ASSERT_NO_THROW(run_pipeline(after));
    expect_same_results(before, after, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmptyShapes, ::testing::ValuesIn(kPatterns),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace stretto::passes
