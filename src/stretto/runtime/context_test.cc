#include "stretto/runtime/context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/import/onnx/test_model.h"
#include "stretto/runtime/context_testing.h"
#include "stretto/runtime/testing.h"
#include "stretto/stretto.h"

namespace stretto::runtime {
namespace {

using namespace onnx::testing;  // NOLINT

Tensor of_floats(Shape shape, std::vector<float> values) {
  return Tensor::of<float>(std::move(shape), std::span<const float>(values));
}

// A cache of two heads of three numbers, and y: the sum of all that is visible of it, per head. At
// the places before, position_ids is added to what goes in, so they are tested too. With `attend`,
// y is attention of the new places instead.
std::string summing() {
  const auto longs = [](std::string_view name, const std::vector<int64_t>& values) {
    std::string data(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
    return tensor(name, onnx::DataType::kInt64, {static_cast<int64_t>(values.size())}, data);
  };
  return model({.nodes = {node("Cast", {"position_ids"}, {"at"}, {attr("to", 1)}),
                          node("Unsqueeze", {"at", "last"}, {"at3"}),
                          node("Add", {"inputs_embeds", "at3"}, {"moved"}),
                          node("Reshape", {"moved", "heads"}, {"split"}),
                          node("Transpose", {"split"}, {"new"}, {attr_ints("perm", {0, 2, 1, 3})}),
                          node("Concat", {"past_key_values.0.key", "new"}, {"present.0.key"},
                               {attr("axis", 2)}),
                          node("Cast", {"attention_mask"}, {"seen"}, {attr("to", 1)}),
                          node("Unsqueeze", {"seen", "sides"}, {"seen4"}),
                          node("Mul", {"present.0.key", "seen4"}, {"shown"}),
                          node("ReduceSum", {"shown", "places"}, {"y"}, {attr("keepdims", 0)})},
                .inputs = {input("inputs_embeds", {"batch", "new", "6"}),
                           input("attention_mask", {"batch", "total"}, onnx::DataType::kInt64),
                           input("position_ids", {"batch", "new"}, onnx::DataType::kInt64),
                           input("past_key_values.0.key", {"batch", "2", "past", "3"})},
                .outputs = {"y", "present.0.key"},
                .initializers = {longs("last", {2}), longs("heads", {0, 0, 2, 3}),
                                 longs("sides", {1, 3}), longs("places", {2})}});
}

// What the model computes, kept as one sum per sample.
struct Expected {
  explicit Expected(int64_t batch)
      : sums(static_cast<size_t>(batch)), lengths(static_cast<size_t>(batch)) {}
  void add(const Tensor& x, const std::vector<std::vector<int>>& mask = {}) {
    for (int64_t b = 0; b < x.dim(0); ++b) {
      auto& sum = sums[static_cast<size_t>(b)];
      sum.resize(6);
      for (int64_t p = 0; p < x.dim(1); ++p) {
        if (!mask.empty() && !mask[static_cast<size_t>(b)][static_cast<size_t>(p)]) continue;
        const int64_t at = lengths[static_cast<size_t>(b)]++;
        for (int64_t c = 0; c < 6; ++c) {
          sum[static_cast<size_t>(c)] +=
              x.values<float>()[static_cast<size_t>((b * x.dim(1) + p) * 6 + c)] +
              static_cast<float>(at);
        }
      }
    }
  }
  std::vector<float> all() const {
    std::vector<float> flat;
    for (const auto& sum : sums) flat.insert(flat.end(), sum.begin(), sum.end());
    return flat;
  }
  std::vector<std::vector<float>> sums;
  std::vector<int64_t> lengths;
};

TEST(Context, StepsAppendMoveAndGrow) {
  Session session(optimized(summing()));
  Context context(session.model(), {.batch = 2});
  EXPECT_EQ(context.inputs(), (std::vector<std::string>{"inputs_embeds"}));
  EXPECT_EQ(context.optional_inputs(),
            (std::vector<std::string>{"attention_mask", "position_ids"}));
  EXPECT_EQ(context.outputs(), (std::vector<std::string>{"y"}));
  Expected expected(2);
  std::vector<int64_t> capacities;
  for (int i = 0; i < 300; ++i) {
    const Tensor x = step(2, i == 0 ? 5 : i % 50 == 49 ? 40 : 1, i);
    expected.add(x);
    const auto y = session.run({{"inputs_embeds", x}}, context);
    ASSERT_EQ(values(y[0]), expected.all()) << "step " << i;
    EXPECT_EQ(context.lengths(), expected.lengths);
    if (capacities.empty() || capacities.back() != context.capacity()) {
      capacities.push_back(context.capacity());
    }
  }
  EXPECT_EQ(capacities, (std::vector<int64_t>{64, 128, 256, 512}));
}

TEST(Context, SamplesOfDifferentLengthsGiveWhatEachGivesAlone) {
  Session session(optimized(summing()));
  Context context(session.model(), {.batch = 3});
  const std::vector<std::vector<int>> mask{{0, 0, 1, 1}, {1, 1, 1, 1}, {1, 0, 0, 0}};
  Tensor given(DType::kInt64, {3, 4});
  for (size_t i = 0; i < 12; ++i) given.mutable_values<int64_t>()[i] = mask[i / 4][i % 4];
  const Tensor prompt = step(3, 4, 1);
  Expected expected(3);
  expected.add(prompt, mask);
  auto y = session.run({{"inputs_embeds", prompt}, {"attention_mask", given}}, context);
  EXPECT_EQ(values(y[0]), expected.all());
  EXPECT_EQ(context.lengths(), (std::vector<int64_t>{2, 4, 1}));
  EXPECT_EQ(context.length(), 4);
  for (int i = 0; i < 100; ++i) {
    // Now and then a sample gets a place that its mask hides.
    const std::vector<std::vector<int>> seen{{1}, {i % 7 != 3}, {1}};
    const Tensor x = step(3, 1, i);
    expected.add(x, seen);
    y = session.run(
        {{"inputs_embeds", x}, {"attention_mask", of_int64s({3, 1}, {1, i % 7 != 3, 1})}}, context);
    ASSERT_EQ(values(y[0]), expected.all()) << "step " << i;
  }
  EXPECT_EQ(context.lengths(), expected.lengths);
}

TEST(Context, ForkReorderResetSaveAndRestore) {
  Session session(optimized(summing()));
  Context context(session.model(), {.batch = 2});
  Expected expected(2);
  const auto run = [&](Context& c, Expected& e, int seed) {
    const Tensor x = step(2, 1, seed);
    e.add(x);
    const auto y = session.run({{"inputs_embeds", x}}, c);
    EXPECT_EQ(values(y[0]), e.all());
  };
  for (int i = 0; i < 70; ++i) run(context, expected, i);
  Context other = context.fork();
  Expected others = expected;
  run(context, expected, 1);
  run(other, others, 2);
  run(context, expected, 3);
  const int64_t from[] = {1, 1};
  context.reorder(from);
  expected.sums[0] = expected.sums[1];
  run(context, expected, 4);

  const auto saved = other.save();
  EXPECT_EQ(saved.at("past_key_values.0.key").shape(), (Shape{2, 2, 71, 3}));
  Context restored(session.model(), {.batch = 2});
  restored.restore(saved);
  for (int i = 0; i < 80; ++i) run(restored, others, i);

  context.reset();
  EXPECT_EQ(context.length(), 0);
  Expected fresh(2);
  run(context, fresh, 9);
  EXPECT_THROW(restored.restore({}), InvalidArgument);
  EXPECT_THROW(context.reorder(std::vector<int64_t>{0}), InvalidArgument);
  EXPECT_THROW(context.reorder(std::vector<int64_t>{0, 2}), InvalidArgument);
}

// Programs are made for a number of rows of memory.
TEST(Context, FollowUpsOfManyLengthsNeedOneMemory) {
  Session session(optimized(summing()));
  std::vector<int64_t> bytes;
  for (int64_t count = 20; count < 30; ++count) {
    Context context(session.model());
    Expected expected(1);
    for (int64_t places : {int64_t{20}, count, int64_t{1}}) {
      const Tensor x = step(1, places, static_cast<int>(count));
      expected.add(x);
      ASSERT_EQ(values(session.run({{"inputs_embeds", x}}, context)[0]), expected.all());
    }
    bytes.push_back(context.memory_bytes());
  }
  EXPECT_EQ(std::ranges::count(bytes, bytes[0]), 10);
}

// The window has places that are not used, and must not have more than the model can take.
TEST(Context, RangesHoldForTheWindow) {
  const Model model =
      optimized(summing(), {1, 2, 4, 3},
                {{"past_key_values.0.key", parse_shape_range("batch:1..x2xpast:1..50x3")}});
  Session session(model);
  Context context(model);
  Expected expected(1);
  for (int i = 0; i < 51; ++i) {
    const Tensor x = step(1, 1, i);
    expected.add(x);
    ASSERT_EQ(values(session.run({{"inputs_embeds", x}}, context)[0]), expected.all());
    EXPECT_LE(context.capacity(), 50);
  }
  try {
    session.run({{"inputs_embeds", step(1, 1, 0)}}, context);
    ADD_FAILURE();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(),
                 "context: 51 places are used, and input past_key_values.0.key takes at most 50");
  }
  EXPECT_EQ(context.length(), 51);
}

// Each length of a prompt has a program, and threads only while it is one of the last used.
TEST(Context, ThreadsOfManyPromptsAreBounded) {
  const auto threads = [] {
    std::error_code error;
    const std::filesystem::directory_iterator tasks("/proc/self/task", error);
    return error ? 0 : std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  if (before == 0) return;  // only Linux says how many there are
  Session session(optimized(summing()), 48);
  const auto run = [&](int64_t places) {
    Context context(session.model());
    Expected expected(1);
    const Tensor x = step(1, places, static_cast<int>(places));
    expected.add(x);
    ASSERT_EQ(values(session.run({{"inputs_embeds", x}}, context)[0]), expected.all());
  };
  for (int64_t places = 2; places < 10; ++places) run(places);
  EXPECT_LT(threads() - before, 4 * 48);  // eight prompts, and what the session has itself
  for (int64_t places = 2; places < 10; ++places) run(places);  // made again
  EXPECT_LT(threads() - before, 4 * 48);
}

TEST(Context, TheModelIsLookedAtOnce) {
  const Model model = optimized(summing());
  EXPECT_EQ(describe_state(model, {}), describe_state(model, {}));
  EXPECT_NE(describe_state(model, {}),
            describe_state(model, {{"past_key_values.0.key", "present.0.key"}}));
}

TEST(Context, TwoContextsInTwoThreads) {
  Session session(optimized(summing()));
  const auto work = [&](int seed) {
    Context context(session.model(), {.batch = 1});
    Expected expected(1);
    for (int i = 0; i < 200; ++i) {
      const Tensor x = step(1, 1, i + seed);
      expected.add(x);
      const auto y = session.run({{"inputs_embeds", x}}, context);
      ASSERT_EQ(values(y[0]), expected.all());
    }
  };
  std::thread other([&] { work(1000); });
  work(1);
  other.join();
}

TEST(Context, MistakesAreNamed) {
  Session session(optimized(summing()));
  const auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  const auto contains = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  Context context(session.model(), {.batch = 1, .max_length = 3});
  contains(message([&] { session.run({}, context); }), "inputs_embeds is missing");
  contains(message([&] {
             session.run({{"inputs_embeds", step(2, 1, 0)}}, context);
           }),
           "expected a shape of [1, new places, ...], got 2x1x6");
  contains(message([&] {
             session.run({{"inputs_embeds", Tensor(DType::kFloat32, {1, 1, 7})}}, context);
           }),
           "inputs_embeds: expected shape");
  contains(message([&] {
             session.run(
                 {{"inputs_embeds", step(1, 1, 0)}, {"attention_mask", of_int64s({1, 2}, {1, 1})}},
                 context);
           }),
           "attention_mask: expected shape 1x1 of the new places, got 1x2");
  contains(message([&] {
             session.run(
                 {{"inputs_embeds", step(1, 1, 0)}, {"attention_mask", of_int64s({1, 1}, {0})}},
                 context);
           }),
           "sample 0 has no token");
  contains(message([&] {
             session.run({{"inputs_embeds", step(1, 4, 0)}}, context);
           }),
           "max_length is 3");
  contains(message([&] {
             session.run({{"inputs_embeds", step(1, 1, 0)},
                          {"past_key_values.0.key", Tensor(DType::kFloat32, {1, 2, 4, 3})}},
                         context);
           }),
           "past_key_values.0.key");
  contains(message([&] {
             Context(session.model(), {.state = {{"past_key_values.0.key", "y"}}});
           }),
           "Concat(past_key_values.0.key, new)");
  contains(message([&] { Context(session.model(), {.state = {{"z", "y"}}}); }), "no such input");
  contains(message([&] { Context(session.model(), {.batch = 0}); }), "batch");
  Session another(optimized(summing()));
  contains(message([&] {
             another.run({{"inputs_embeds", step(1, 1, 0)}}, context);
           }),
           "another model");
}

// The past is read besides: a view of its window would begin at any address.
TEST(Context, ThePastMayBeReadByOthers) {
  const auto axis = [](std::string_view name) { return onnx::testing::int64s(name, {1}); };
  Session session(optimized(
      model({.nodes = {node("Unsqueeze", {"inputs_embeds", "one"}, {"new"}),
                       node("Concat", {"past_key_values.0.key", "new"}, {"present.0.key"},
                            {attr("axis", 2)}),
                       node("Mul", {"past_key_values.0.key", "past_key_values.0.key"}, {"squares"}),
                       node("ReduceSum", {"squares"}, {"before"}, {attr("keepdims", 0)}),
                       node("ReduceSum", {"present.0.key"}, {"after"}, {attr("keepdims", 0)}),
                       node("Cast", {"attention_mask"}, {"seen"}, {attr("to", 1)}),
                       node("ReduceSum", {"seen"}, {"count"}, {attr("keepdims", 0)})},
             .inputs = {input("inputs_embeds", {"batch", "new", "6"}),
                        input("attention_mask", {"batch", "total"}, onnx::DataType::kInt64),
                        input("position_ids", {"batch", "new"}, onnx::DataType::kInt64),
                        input("past_key_values.0.key", {"batch", "1", "past", "6"})},
             .outputs = {"before", "after", "count", "present.0.key"},
             .initializers = {axis("one")}}),
      {1, 1, 4, 6}));
  Context context(session.model());
  float squares = 0, sum = 0;
  for (int i = 0; i < 200; ++i) {
    const Tensor x = step(1, 1, i);
    const auto y = session.run({{"inputs_embeds", x}}, context);
    ASSERT_EQ(y[0].values<float>()[0], squares) << i;
    for (float v : x.values<float>()) {
      squares += v * v;
      sum += v;
    }
    ASSERT_EQ(y[1].values<float>()[0], sum) << i;
    ASSERT_EQ(y[2].values<float>()[0], static_cast<float>(i + 1));
  }
}

TEST(Context, ReorderNeedsToKnowTheBatch) {
  const auto model = [](std::string_view h) {
    return model_of(
        fmt::format("graph g\n input x: float32[{0}]\n input h0: float32[{0}]\n"
                    "hn = Add(h0, x)\n y = Neg(hn)\n output y, hn",
                    h));
  };
  Session clear(model("3, 2, 4"));
  Context context(clear.model(), {.batch = 2});
  Tensor x(DType::kFloat32, {3, 2, 4});
  for (size_t i = 0; i < 24; ++i) x.mutable_values<float>()[i] = static_cast<float>(i);
  clear.run({{"x", x}}, context);
  context.reorder(std::vector<int64_t>{1, 0});
  const Tensor h = context.save().at("h0");
  for (size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(h.values<float>()[i], static_cast<float>(i / 8 * 8 + (i % 8 + 4) % 8));
  }
  Session unclear(model("2, 2, 4"));
  Context other(unclear.model(), {.batch = 2});
  EXPECT_THROW(other.reorder(std::vector<int64_t>{1, 0}), InvalidArgument);
}

// State that keeps its shape: the output takes the place of the input, and nothing is copied.
TEST(Context, RecurrentStateChangesPlaces) {
  Session session(model_of(R"(graph g
    input x: float32[2, 3]
    input h0: float32[2, 3]
    constant half: float32[] = {0.5}
    f = Mul(h0, half)
    hn = Add(f, x)
    y = Mul(hn, half)
    output y, hn)",
                           2));
  Context context(session.model(), {.batch = 2});
  EXPECT_EQ(context.outputs(), (std::vector<std::string>{"y"}));
  std::vector<float> h(6, 0);
  for (int i = 0; i < 5; ++i) {
    const float x = static_cast<float>(i);
    for (float& v : h) v = v / 2 + x;
    const auto y = session.run({{"x", of_floats({2, 3}, std::vector<float>(6, x))}}, context);
    for (size_t j = 0; j < 6; ++j) EXPECT_EQ(y[0].values<float>()[j], h[j] / 2);
  }
  EXPECT_EQ(values(context.save().at("h0")), h);
  context.reset();
  EXPECT_EQ(values(context.save().at("h0")), std::vector<float>(6, 0));
}

}  // namespace
}  // namespace stretto::runtime
