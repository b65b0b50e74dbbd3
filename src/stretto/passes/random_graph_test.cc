// Random small graphs of common operators: the whole pipeline, and every prefix of it, must keep
// their results.
#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

// Writes a graph in text form, choosing from the values made so far.
class Writer {
 public:
  explicit Writer(uint32_t seed) : random_(seed) {
    text_ = "graph random\n";
    images_.push_back(declare("input", {1, 4, 6, 6}, ""));
    rows_.push_back(declare("input", {2, 5, 8}, ""));
    for (int i = 0; i < 14; ++i) {
      if (pick(2) == 0)
        image_node();
      else
        row_node();
    }
  }

  std::string text() {
    std::string outputs = images_.back() + ", " + rows_.back();
    // One more output in the middle of the graph stops fusions there.
    const std::string extra = images_[pick(images_.size())];
    if (extra != images_.back() && extra != "v0") outputs += ", " + extra;
    return text_ + "output " + outputs + "\n";
  }

 private:
  size_t pick(size_t count) { return random_() % count; }
  std::string fresh() { return fmt::format("v{}", next_++); }

  std::string declare(std::string_view kind, const Shape& shape, std::string_view elements) {
    const std::string name = fresh();
    std::string dims;
    for (int64_t d : shape) dims += fmt::format("{}{}", dims.empty() ? "" : ", ", d);
    text_ += fmt::format("{} {}: float32[{}]{}\n", kind, name, dims, elements);
    return name;
  }
  std::string weights(const Shape& shape) {
    return declare("constant", shape, fmt::format(" = random({})", pick(1000)));
  }
  std::string number(double value) {
    return declare("constant", {}, fmt::format(" = {{{}}}", value));
  }

  std::string emit(std::string_view expression) {
    const std::string name = fresh();
    text_ += fmt::format("{} = {}\n", name, expression);
    return name;
  }

  std::string any(const std::vector<std::string>& from) { return from[pick(from.size())]; }

  // Any of the forms that keep the shape, of a value with `channel` as its constant's shape.
  std::string same_shape(const std::vector<std::string>& from, const Shape& channel) {
    const std::string x = any(from);
    switch (pick(13)) {
      case 0:
        return emit(fmt::format("Relu({})", x));
      case 1:
        return emit(fmt::format("Sigmoid({})", x));
      case 2:
        return emit(fmt::format("Mul({}, {})", x, emit(fmt::format("Sigmoid({})", x))));
      case 3:
        return emit(fmt::format("Clip({}, {}, {})", x, number(-1), number(2)));
      case 4:
        return emit(fmt::format("Add({}, {})", x, any(from)));
      case 5:
        return emit(fmt::format("Mul({}, {})", weights(channel), x));
      case 6:
        return emit(fmt::format("Sub({}, {})", x, weights(channel)));
      case 7:
        return emit(fmt::format("Div({}, {})", x, number(3)));
      case 8:
        return emit(fmt::format("Identity({})", x));
      case 9:
        return emit(fmt::format("Tanh({})", emit(fmt::format("Neg({})", x))));
      case 10:
        return emit(fmt::format("HardSigmoid({})", x));
      case 11:
        return emit(fmt::format("Max({}, {})", x, any(from)));
      default:
        return emit(fmt::format("Add({}, {})", x, number(0)));
    }
  }

  void image_node() {  // [1, 4, 6, 6] to the same
    const std::string x = any(images_);
    switch (pick(8)) {
      case 0: {
        const bool grouped = pick(2) == 0;
        const std::string w = weights({4, grouped ? 2 : 4, 3, 3});
        images_.push_back(emit(fmt::format("Conv({}, {}) {{pads = [1, 1, 1, 1], group = {}}}", x, w,
                                           grouped ? 2 : 1)));
        return;
      }
      case 1: {
        const std::string w = weights({4, 4, 1, 1}), b = weights({4});
        images_.push_back(emit(fmt::format("Conv({}, {}, {})", x, w, b)));
        return;
      }
      case 2: {
        const std::string g = weights({4}), b = weights({4}), m = weights({4});
        const std::string v = declare("constant", {4}, " = {1, 2, 0.5, 3}");
        images_.push_back(
            emit(fmt::format("BatchNormalization({}, {}, {}, {}, {})", x, g, b, m, v)));
        return;
      }
      case 3: {
        const std::string t = emit(fmt::format("Transpose({}) {{perm = [0, 2, 3, 1]}}", x));
        const std::string s = emit(fmt::format("Add({}, {})", t, weights({4})));
        images_.push_back(emit(fmt::format("Transpose({}) {{perm = [0, 3, 1, 2]}}", s)));
        return;
      }
      case 4: {
        const std::string pool = emit(fmt::format("GlobalAveragePool({})", x));
        const std::string w = weights({4, 4, 1, 1});
        const std::string gate = emit(fmt::format("Conv({}, {})", pool, w));
        images_.push_back(emit(fmt::format("Mul({}, {})", x, gate)));
        return;
      }
      default:
        images_.push_back(same_shape(images_, {4, 1, 1}));
    }
  }

  void row_node() {  // [2, 5, 8] to the same
    const std::string x = any(rows_);
    switch (pick(7)) {
      case 0:
      case 1: {
        const std::string m = emit(fmt::format("MatMul({}, {})", x, weights({8, 8})));
        rows_.push_back(emit(fmt::format("Add({}, {})", weights({8}), m)));
        return;
      }
      case 2: {
        const std::string scale = weights({8}), bias = weights({8});
        rows_.push_back(emit(fmt::format("LayerNormalization({}, {}, {})", x, scale, bias)));
        return;
      }
      case 3: {
        const std::string y = any(rows_), z = any(rows_);
        const std::string heads = fresh(), back = fresh();
        text_ += fmt::format("constant {}: int64[4] = {{0, 0, 2, 4}}\n", heads);
        text_ += fmt::format("constant {}: int64[3] = {{0, 0, 8}}\n", back);
        const auto head = [&](const std::string& rows, std::string_view perm) {
          const std::string four = emit(fmt::format("Reshape({}, {})", rows, heads));
          return emit(fmt::format("Transpose({}) {{perm = {}}}", four, perm));
        };
        const std::string q = head(x, "[0, 2, 1, 3]"), k = head(y, "[0, 2, 3, 1]");
        const std::string v = head(z, "[0, 2, 1, 3]");
        const std::string m = emit(fmt::format("MatMul({}, {})", q, k));
        const std::string d = emit(fmt::format("Div({}, {})", m, number(2)));
        const std::string s = emit(fmt::format("Softmax({})", d));
        const std::string o = emit(fmt::format("MatMul({}, {})", s, v));
        const std::string t = emit(fmt::format("Transpose({}) {{perm = [0, 2, 1, 3]}}", o));
        rows_.push_back(emit(fmt::format("Reshape({}, {})", t, back)));
        return;
      }
      default:
        rows_.push_back(same_shape(rows_, {8}));
    }
  }

  std::mt19937 random_;
  std::string text_;
  std::vector<std::string> images_, rows_;
  int next_ = 0;
};

TEST(RandomGraph, ThePipelineKeepsResults) {
  std::set<std::string> seen;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    const std::string text = Writer(seed).text();
    SCOPED_TRACE(fmt::format("seed {}\n{}", seed, text));
    const ir::Graph before = ir::parse_text(text);
    ir::Graph after = before;
    const PipelineReport report = run_pipeline(after);
    for (const Fired& f : report.fired) seen.insert(f.rule);
    // Each folded weight rounds once, and layers follow each other: ten roundings of 6e-8,
    // amplified by the normalisations between them.
    expect_same_results(before, after, 1e-5, seed);
    if (HasFatalFailure()) return;
    // A graph cut off in the middle of the pipeline must be whole, too.
    ir::Graph part = before;
    run_pipeline(part, {.max_applications = static_cast<int>(seed % (report.fired.size() + 1))});
    expect_same_results(before, part, 1e-5, seed);
    if (HasFatalFailure()) return;
    // What has been rewritten once is at rest, or at least means the same.
    ir::Graph again = after;
    run_pipeline(again);
    expect_same_results(before, again, 1e-5, seed);
    if (HasFatalFailure()) return;
  }
  for (const char* rule : {"fold-batch-norm", "fold-scale", "fold-shift", "attention", "residual",
                           "activation", "silu", "merge-elementwise", "transpose-pair",
                           "merge-projections", "add-layer-norm", "batch-norm-affine"}) {
    EXPECT_TRUE(seen.contains(rule)) << rule << " never fired";
  }
}

}  // namespace
}  // namespace stretto::passes
