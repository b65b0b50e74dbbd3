#include "stretto/runtime/staged.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <numeric>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/import/onnx/test_model.h"
#include "stretto/runtime/model_state.h"
#include "stretto/stretto.h"
#include "stretto/tensor/compare.h"

namespace stretto::runtime {
namespace {

using namespace onnx::testing;  // NOLINT
using onnx::DataType;

OptimizeOptions quick() {
  return {.threads = 1, .tuning = "off", .tuning_cache = "none", .profile = false};
}

Model optimized(const std::string& bytes) {
  return optimize(std::as_bytes(std::span(bytes)), "m.onnx", "", quick());
}

std::string error_of(const std::string& bytes, const std::vector<AnyValue>& inputs) {
  try {
    Session(optimized(bytes)).run_values(inputs);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

Tensor ramp(const Shape& shape, float from = 0, float step = 1) {
  Tensor tensor(DType::kFloat32, shape);
  for (float& v : tensor.mutable_values<float>()) {
    v = from;
    from += step;
  }
  return tensor;
}

std::string ramp_tensor(std::string_view name, const std::vector<int64_t>& dims, float step) {
  const Tensor values = ramp(dims, -1, step);
  return tensor(name, DataType::kFloat, dims,
                std::string(static_cast<const char*>(values.data()), values.bytes()));
}

std::vector<float> floats_of(const AnyValue& value) {
  const auto values = value.tensor().values<float>();
  return {values.begin(), values.end()};
}

int programs_of(const Model& model) { return model.state().staged->programs(); }

// x: two rows where its sum is positive, else one column.
std::string branches() {
  const std::string two = graph({.nodes = {node("Concat", {"x", "x"}, {"then"}, {attr("axis", 0)})},
                                 .inputs = {},
                                 .outputs = {"then"},
                                 .initializers = {}});
  const std::string one = graph({.nodes = {node("Slice", {"x", "zero", "one", "one"}, {"else"})},
                                 .inputs = {},
                                 .outputs = {"else"},
                                 .initializers = {}});
  return model(
      {.nodes = {node("ReduceSum", {"x"}, {"sum"}, {attr("keepdims", 0)}),
                 node("Greater", {"sum", "threshold"}, {"positive"}),
                 node("If", {"positive"}, {"y"},
                      {attr_graph("then_branch", two), attr_graph("else_branch", one)}),
                 node("Shape", {"y"}, {"shape"}), node("Neg", {"y"}, {"z"})},
       .inputs = {input("x", {"N", "3"})},
       .outputs = {"z", "shape"},
       .initializers = {floats("threshold", {}, {0.0f}), int64s("zero", {0}), int64s("one", {1})}});
}

TEST(Staged, AComputedConditionTakesBranchesOfOtherShapes) {
  const Model model = optimized(branches());
  ASSERT_TRUE(model.staged());
  Session session(model);
  const auto up = session.run({ramp({1, 3}, 1)});
  EXPECT_EQ(up[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(floats_of(up[0]), (std::vector<float>{-1, -2, -3, -1, -2, -3}));
  EXPECT_EQ(up[1].as_int64s(), (Shape{2, 3}));
  const auto down = session.run({ramp({2, 3}, -9)});
  EXPECT_EQ(down[0].shape(), (Shape{2, 1}));
  EXPECT_EQ(floats_of(down[0]), (std::vector<float>{9, 6}));
}

TEST(Staged, ASecondCallWithTheSameShapesMakesNoProgram) {
  const Model model = optimized(branches());
  Session session(model);
  session.run({ramp({4, 3}, 1)});
  session.run({ramp({4, 3}, -20)});
  const int before = programs_of(model);
  for (int i = 0; i < 3; ++i) {
    session.run({ramp({4, 3}, 2)});
    session.run({ramp({4, 3}, -30)});
  }
  EXPECT_EQ(programs_of(model), before);
  session.run({ramp({5, 3}, 1)});
  EXPECT_GT(programs_of(model), before);
}

// Adds row i of what it has to itself `n` times: a tensor that grows.
std::string growing(const std::string& body_condition = "more") {
  const std::string body =
      graph({.nodes = {node("Add", {"rows", "one"}, {"next"}),
                       node("Concat", {"rows", "next"}, {"longer"}, {attr("axis", 0)}),
                       node("Identity", {"condition"}, {"more"}),
                       node("ReduceMax", {"longer"}, {"top"}, {attr("keepdims", 0)})},
             .inputs = {input("i", {}, DataType::kInt64), input("condition", {}, DataType::kBool),
                        input("rows", {"k"})},
             .outputs = {body_condition, "longer", "top"},
             .initializers = {}});
  return model({.nodes = {node("Loop", {"n", "", "x"}, {"y", "tops"}, {attr_graph("body", body)})},
                .inputs = {input("n", {}, DataType::kInt64), input("x", {"k0"})},
                .outputs = {"y", "tops"},
                .initializers = {floats("one", {}, {1.0f})}});
}

TEST(Staged, ALoopWhoseTurnsDependOnDataCarriesATensorThatGrows) {
  const Model model = optimized(growing());
  Session session(model);
  for (const int64_t turns : {3, 1, 5, 3}) {
    const auto got = session.run({Tensor::scalar<int64_t>(turns), ramp({1}, 2)});
    ASSERT_EQ(got[0].shape(), (Shape{int64_t{1} << turns}));
    EXPECT_EQ(floats_of(got[0]).back(), 2 + static_cast<float>(turns));
    std::vector<float> tops(static_cast<size_t>(turns));
    std::iota(tops.begin(), tops.end(), 3.0f);
    EXPECT_EQ(floats_of(got[1]), tops);
  }
  const int before = programs_of(model);
  session.run({Tensor::scalar<int64_t>(5), ramp({1}, 7)});
  EXPECT_EQ(programs_of(model), before);
}

// Multiplies by a captured matrix until the largest value is large enough; in each turn an If adds
// or takes away.
std::string nested() {
  const auto branch = [](const char* op, const char* output) {
    return graph({.nodes = {node(op, {"product", "bias"}, {output})},
                  .inputs = {},
                  .outputs = {output},
                  .initializers = {}});
  };
  const std::string body =
      graph({.nodes = {node("MatMul", {"state", "w"}, {"product"}),
                       node("ReduceSum", {"product"}, {"total"}, {attr("keepdims", 0)}),
                       node("Less", {"total", "zero"}, {"negative"}),
                       node("If", {"negative"}, {"moved"},
                            {attr_graph("then_branch", branch("Add", "added")),
                             attr_graph("else_branch", branch("Sub", "taken"))}),
                       node("ReduceMax", {"moved"}, {"top"}, {attr("keepdims", 0)}),
                       node("Less", {"top", "limit"}, {"more"})},
             .inputs = {input("i", {}, DataType::kInt64), input("condition", {}, DataType::kBool),
                        input("state", {"2", "64"})},
             .outputs = {"more", "moved", "top"},
             .initializers = {}});
  return model(
      {.nodes = {node("Loop", {"most", "", "x"}, {"y", "tops"}, {attr_graph("body", body)})},
       .inputs = {input("x", {"2", "64"}), input("limit", {})},
       .outputs = {"y", "tops"},
       .initializers = {ramp_tensor("w", {64, 64}, 0.0005f), ramp_tensor("bias", {64}, 0.03f),
                        floats("zero", {}, {0.0f}),
                        tensor("most", DataType::kInt64, {}, raw<int64_t>({12}))}});
}

// The same by hand.
std::vector<float> nested_by_hand(const Tensor& x, float limit, std::vector<float>& tops) {
  const Tensor w = ramp({64, 64}, -1, 0.0005f), bias = ramp({64}, -1, 0.03f);
  std::vector<float> state = floats_of(x);
  for (int turn = 0; turn < 12; ++turn) {
    std::vector<double> product(128, 0.0);
    for (int r = 0; r < 2; ++r) {
      for (int k = 0; k < 64; ++k) {
        for (int c = 0; c < 64; ++c) {
          product[r * 64 + c] += static_cast<double>(state[r * 64 + k]) *
                                 static_cast<double>(w.values<float>()[k * 64 + c]);
        }
      }
    }
    const double total = std::accumulate(product.begin(), product.end(), 0.0);
    for (int i = 0; i < 128; ++i) {
      const double b = static_cast<double>(bias.values<float>()[i % 64]);
      state[i] = static_cast<float>(product[i] + (total < 0 ? b : -b));
    }
    tops.push_back(*std::max_element(state.begin(), state.end()));
    if (tops.back() >= limit) break;
  }
  return state;
}

TEST(Staged, AnIfInALoopWithACapturedWeightThatIsPackedOnce) {
  const Model model = optimized(nested());
  Session session(model);
  const Tensor x = ramp({2, 64}, -0.02f, 0.0003f);
  for (const float limit : {0.5f, 1e9f, 30.0f}) {
    std::vector<float> tops;
    const std::vector<float> expected = nested_by_hand(x, limit, tops);
    const auto got = session.run({x, Tensor::scalar<float>(limit)});
    ASSERT_EQ(got[1].shape(), (Shape{static_cast<int64_t>(tops.size())})) << limit;
    // Sums of 64 float32 products, in up to twelve turns.
    EXPECT_LT(compare(got[0], Tensor::of<float>({2, 64}, expected)).relative_to_max, 1e-4) << limit;
  }
  // One program for the product, one per branch, one for the condition; the matrix is packed once.
  EXPECT_LE(programs_of(model), 4);
  EXPECT_LT(model.weight_bytes(), 2 * 64 * 64 * 4);
}

TEST(Staged, FourThreadsComputeTheSame) {
  const Model model = optimized(nested());
  Session session(model);
  const Tensor x = ramp({2, 64}, -0.02f, 0.0003f);
  std::vector<std::vector<Tensor>> expected;
  for (int i = 0; i < 4; ++i) {
    expected.push_back(session.run({x, Tensor::scalar<float>(0.1f * static_cast<float>(i))}));
  }
  Session fresh(optimized(nested()));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 20; ++turn) {
        const auto got = fresh.run({x, Tensor::scalar<float>(0.1f * static_cast<float>(i))});
        wrong += got[0].shape() != expected[i][0].shape() ||
                 compare(got[0], expected[i][0]).max_abs != 0 ||
                 got[1].shape() != expected[i][1].shape();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Staged, AnArtefactKeepsTheModel) {
  const Model model = optimized(nested());
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("staged-{}.stretto", getpid());
  model.save(path.string());
  const Model loaded = stretto::load(path.string());
  std::filesystem::remove(path);
  ASSERT_TRUE(loaded.staged());
  EXPECT_EQ(loaded.inputs()[0].shape, model.inputs()[0].shape);
  const Tensor x = ramp({2, 64}, -0.02f, 0.0003f), limit = Tensor::scalar<float>(0.5f);
  EXPECT_EQ(compare(Session(loaded).run({x, limit})[0], Session(model).run({x, limit})[0]).max_abs,
            0);
  EXPECT_EQ(
      compare(Session(loaded, 2).run({x, limit})[0], Session(model).run({x, limit})[0]).max_abs, 0);
}

// Boxes chosen by NonMaxSuppression, then gathered.
std::string detector() {
  return model(
      {.nodes = {node("MatMul", {"x", "w"}, {"raw"}), node("Sigmoid", {"raw"}, {"scores"}),
                 node("NonMaxSuppression", {"boxes", "scores", "most", "overlap"}, {"kept"}),
                 node("Gather", {"kept", "two"}, {"places"}, {attr("axis", 1)}),
                 node("Squeeze", {"places", "one"}, {"rows"}),
                 node("Gather", {"boxes", "rows"}, {"y"}, {attr("axis", 1)})},
       .inputs = {input("x", {"1", "1", "8"}), input("boxes", {"1", "6", "4"})},
       .outputs = {"y", "rows"},
       .initializers = {ramp_tensor("w", {8, 6}, 0.03f), int64s("most", {6}),
                        floats("overlap", {1}, {0.4f}), int64s("two", {2}), int64s("one", {1})}});
}

TEST(Staged, ADetectorGathersWhatItsSuppressionKeeps) {
  const Model model = optimized(detector());
  Session session(model);
  Tensor boxes(DType::kFloat32, {1, 6, 4});
  for (int i = 0; i < 6; ++i) {  // three places, two boxes at each
    const float at = static_cast<float>(i / 2) * 10 + static_cast<float>(i % 2);
    const float corners[] = {at, at, at + 8, at + 8};
    std::copy(std::begin(corners), std::end(corners), boxes.mutable_values<float>().data() + 4 * i);
  }
  // Later columns of w are larger, so the second box of each place wins.
  const auto got = session.run({ramp({1, 1, 8}, 0, 0.1f), boxes});
  EXPECT_EQ(got[1].as_int64s(), (std::vector<int64_t>{5, 3, 1}));
  EXPECT_EQ(got[0].shape(), (Shape{1, 3, 4}));
  EXPECT_EQ(floats_of(got[0])[0], 21);
}

std::string kernel_of(const Instruction& in) {
  return fmt::format("{} {}", in.op, in.family != nullptr ? in.family->row_name(in.row) : "none");
}

// A piece has the instructions that the same nodes have as a model of their own.
TEST(Staged, APieceRunsTheKernelsThatItHasAlone) {
  const std::vector<std::string> layers = {
      node("Conv", {"x", "w0"}, {"a"}, {attr_ints("pads", {1, 1, 1, 1})}),
      node("Relu", {"a"}, {"b"}),
      node("Conv", {"b", "w1"}, {"c"}, {attr_ints("pads", {1, 1, 1, 1})}),
      node("Add", {"c", "b"}, {"d"}), node("Relu", {"d"}, {"e"})};
  GraphParts parts{.nodes = layers,
                   .inputs = {input("x", {"1", "16", "40", "40"})},
                   .outputs = {"e"},
                   .initializers = {ramp_tensor("w0", {32, 16, 3, 3}, 0.0004f),
                                    ramp_tensor("w1", {32, 32, 3, 3}, 0.0002f)}};
  const Model alone = optimized(onnx::testing::model(parts));
  ASSERT_FALSE(alone.staged());
  parts.nodes.push_back(node("NonZero", {"e"}, {"places"}));
  parts.outputs.push_back("places");
  const Model within = optimized(onnx::testing::model(parts));
  ASSERT_TRUE(within.staged());
  std::vector<std::string> found;
  Staged::Observer observer;
  observer.piece = [&](const std::shared_ptr<StagePiece>& piece, const std::vector<Tensor>&) {
    for (const Instruction& in : piece->program->instructions) {
      found.push_back(kernel_of(in));
    }
  };
  within.state().staged->run(std::vector<AnyValue>{ramp({1, 16, 40, 40}, 0, 1e-4f)}, &observer);
  std::vector<std::string> expected;
  for (const Instruction& in : alone.state().program->instructions) {
    expected.push_back(kernel_of(in));
  }
  EXPECT_EQ(found, expected);
}

TEST(Staged, SequencesAndStringsGoThrough) {
  const std::string bytes = model(
      {.nodes = {node("SequenceConstruct", {"x", "x"}, {"two"}), node("Neg", {"x"}, {"minus"}),
                 node("SequenceInsert", {"two", "minus", "zero"}, {"three"}),
                 node("ConcatFromSequence", {"three"}, {"y"}, {attr("axis", 0)})},
       .inputs = {input("x", {"2"})},
       .outputs = {"y", "three"},
       .initializers = {tensor("zero", DataType::kInt64, {}, raw<int64_t>({0}))}});
  Session session(optimized(bytes));
  const std::vector<AnyValue> given{ramp({2}, 1)};
  const auto got = session.run_values(given);
  EXPECT_EQ(floats_of(got[0]), (std::vector<float>{-1, -2, 1, 2, 1, 2}));
  EXPECT_EQ(got[1].sequence().size(), 3U);
  const std::vector<Tensor> tensors{ramp({2}, 1)};
  EXPECT_THROW(session.run(tensors), Unsupported);  // an output is no tensor

  const std::string words = model(
      {.nodes = {node("StringConcat", {"a", "b"}, {"ab"}), node("Gather", {"ab", "last"}, {"y"})},
       .inputs = {input("a", {"2"}, DataType::kString), input("b", {"1"}, DataType::kString)},
       .outputs = {"y"},
       .initializers = {int64s("last", {1, 0})}});
  const std::vector<AnyValue> texts{Strings{{2}, {"x", "y"}}, Strings{{1}, {"\xc3\xa4"}}};
  const auto joined = Session(optimized(words)).run_values(texts);
  EXPECT_EQ(joined[0].strings().values, (std::vector<std::string>{"y\xc3\xa4", "x\xc3\xa4"}));
}

struct Enough : std::runtime_error {
  Enough() : std::runtime_error("enough") {}
};

TEST(Staged, AnEndlessLoopCanBeInterrupted) {
  const std::string body =
      graph({.nodes = {node("Identity", {"condition"}, {"more"}), node("Neg", {"x"}, {"minus"})},
             .inputs = {input("i", {}, DataType::kInt64), input("condition", {}, DataType::kBool),
                        input("x", {"2"})},
             .outputs = {"more", "minus"},
             .initializers = {}});
  const std::string bytes =
      model({.nodes = {node("Loop", {"", "go", "a"}, {"y"}, {attr_graph("body", body)})},
             .inputs = {input("a", {"2"}), input("go", {}, DataType::kBool)},
             .outputs = {"y"},
             .initializers = {}});
  // Made-up inputs would let it run for ever: what is given lets it end at once.
  OptimizeOptions options = quick();
  options.inputs = {{"go", Tensor::scalar<bool>(false)}};
  Session session(optimize(std::as_bytes(std::span(bytes)), "m.onnx", "", options));
  const double start = now_s();
  const InterruptScope scope([&] {
    if (now_s() - start > 0.2) throw Enough();
  });
  EXPECT_THROW(session.run({ramp({2}), Tensor::scalar<bool>(true)}), Enough);
  EXPECT_LT(now_s() - start, 5);
}

TEST(Staged, ALoopWithTooManyTurnsToUnrollRunsTurnByTurn) {
  const std::string body =
      graph({.nodes = {node("Add", {"x", "one"}, {"next"}), node("Identity", {"c"}, {"more"})},
             .inputs = {input("i", {}, DataType::kInt64), input("c", {}, DataType::kBool),
                        input("x", {})},
             .outputs = {"more", "next"},
             .initializers = {}});
  const std::string bytes =
      model({.nodes = {node("Loop", {"n", "", "a"}, {"y"}, {attr_graph("body", body)})},
             .inputs = {input("a", {})},
             .outputs = {"y"},
             .initializers = {floats("one", {}, {1.0f}),
                              tensor("n", DataType::kInt64, {}, raw<int64_t>({40'000}))}});
  const Model model = optimized(bytes);
  EXPECT_TRUE(model.staged());
  EXPECT_EQ(floats_of(Session(model).run({ramp({}, 2)})[0])[0], 40'002);
}

TEST(Staged, LiesOfTheModelAreNamed) {
  // A body without the output that the node wants, and one that is not there.
  EXPECT_NE(error_of(growing("missing"), {Tensor::scalar<int64_t>(2), ramp({1})}).find("missing"),
            std::string::npos);
  const std::string one = graph({.nodes = {node("Identity", {"x"}, {"a"})},
                                 .inputs = {},
                                 .outputs = {"a", "a"},
                                 .initializers = {}});
  const std::string bytes =
      model({.nodes = {node("If", {"c"}, {"y"},
                            {attr_graph("then_branch", one), attr_graph("else_branch", one)})},
             .inputs = {input("x", {"2"}), input("c", {}, DataType::kBool)},
             .outputs = {"y"},
             .initializers = {}});
  const std::string text = error_of(bytes, {ramp({2}), Tensor::scalar<bool>(true)});
  EXPECT_NE(text.find("If \"if\": a branch has other outputs"), std::string::npos) << text;
  // Arrays of the wrong type and shape.
  Session session(optimized(branches()));
  EXPECT_THROW(session.run({Tensor(DType::kInt64, {1, 3})}), InvalidArgument);
  EXPECT_THROW(session.run({ramp({1, 4})}), InvalidArgument);
}

TEST(Staged, BoundsTheNestingOfGraphs) {
  std::string chain = graph(
      {.nodes = {node("Neg", {"x"}, {"y"})}, .inputs = {}, .outputs = {"y"}, .initializers = {}});
  for (int i = 0; i < 100; ++i) {
    chain = graph({.nodes = {node("If", {"c"}, {"y"}, {attr_graph("then_branch", chain)})},
                   .inputs = {},
                   .outputs = {"y"},
                   .initializers = {}});
  }
  const std::string bytes =
      model({.nodes = {node("If", {"c"}, {"y"}, {attr_graph("then_branch", chain)})},
             .inputs = {input("x", {"2"}), input("c", {}, DataType::kBool)},
             .outputs = {"y"},
             .initializers = {}});
  const std::string text = error_of(bytes, {ramp({2}), Tensor::scalar<bool>(true)});
  EXPECT_NE(text.find("nested too deeply"), std::string::npos) << text;
}

}  // namespace
}  // namespace stretto::runtime
