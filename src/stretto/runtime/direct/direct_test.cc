// Single operators through a context: what is kept, what is packed, who may call.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "stretto/ops.h"
#include "stretto/runtime/direct/engine.h"
#include "stretto/tensor/compare.h"

namespace stretto::ops {
namespace {

using Ints = std::vector<int64_t>;

// Not aligned to anything where `shift` says so.
Tensor numbers(const Shape& shape, uint32_t seed, size_t shift = 0) {
  const auto count = static_cast<size_t>(element_count(shape));
  auto memory = std::make_shared<std::vector<float>>(count + shift + 1);
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : *memory) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / (1 << 23) - 1;
  }
  const float* data = memory->data() + shift;
  return Tensor(DType::kFloat32, shape, data, std::move(memory));
}

// Sums of up to a few hundred products in another order; Winograd is not among the kernels here.
void expect_near(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  EXPECT_LE(compare(got, want).relative_to_max, 1e-5);
}

Tensor plain_conv(const Tensor& x, const Tensor& w, const Tensor& b, int64_t pad) {
  const auto [n, c, h, width] = std::array{x.dim(0), x.dim(1), x.dim(2), x.dim(3)};
  const int64_t k = w.dim(0), r = w.dim(2), out_h = h + 2 * pad - r + 1,
                out_w = width + 2 * pad - r + 1;
  Tensor y(DType::kFloat32, {n, k, out_h, out_w});
  const auto xs = x.values<float>(), ws = w.values<float>(), bs = b.values<float>();
  auto ys = y.mutable_values<float>();
  size_t at = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t o = 0; o < k; ++o)
      for (int64_t p = 0; p < out_h; ++p)
        for (int64_t q = 0; q < out_w; ++q, ++at) {
          double sum = bs[static_cast<size_t>(o)];
          for (int64_t ci = 0; ci < c; ++ci)
            for (int64_t u = 0; u < r; ++u)
              for (int64_t v = 0; v < r; ++v) {
                const int64_t yy = p + u - pad, xx = q + v - pad;
                if (yy < 0 || yy >= h || xx < 0 || xx >= width) continue;
                sum += double{xs[static_cast<size_t>(((i * c + ci) * h + yy) * width + xx)]} *
                       ws[static_cast<size_t>(((o * c + ci) * r + u) * r + v)];
              }
          ys[at] = static_cast<float>(sum);
        }
  return y;
}

const Attributes kPadded{{"pads", Ints{1, 1, 1, 1}}};

TEST(DirectOperators, WeightsArePackedInEveryCallOrOnce) {
  Context context({.threads = 2, .accuracy = "strict", .tuning_cache = "none"});
  const Tensor x = numbers({2, 5, 9, 11}, 1), b = numbers({7}, 3);
  for (const uint32_t seed : {2u, 4u}) {  // other weights of the same shape: the same program
    const Tensor w = numbers({7, 5, 3, 3}, seed);
    const Tensor want = plain_conv(x, w, b, 1);
    expect_near(context.run("Conv", {x, w, b}, kPadded)[0], want);
    expect_near(context.run("Conv", {x, Constant(w), Constant(b)}, kPadded)[0], want);
  }
  const CacheStatistics s = context.statistics();
  EXPECT_EQ(s.misses, 3);  // one of arrays, one per constant
  EXPECT_EQ(s.hits, 1);
}

TEST(DirectOperators, PackedCallsRunKernels) {
  runtime::direct::Engine engine({.threads = 1, .tuning_cache = "none"});
  const struct {
    const char* op;
    std::vector<Shape> inputs;
    ir::Attributes attributes;
  } cases[] = {{"Conv", {{1, 8, 14, 14}, {16, 8, 3, 3}, {16}}, {}},
               {"Conv", {{1, 8, 14, 14}, {16, 8, 1, 1}}, {}},
               {"Conv", {{1, 8, 50}, {16, 8, 3}}, {}},
               {"ConvTranspose", {{1, 8, 14, 14}, {8, 6, 3, 3}, {6}}, {}},
               {"Gemm", {{5, 7}, {7, 9}, {9}}, {}},
               {"MatMul", {{5, 7}, {7, 9}}, {}},
               {"LayerNormalization", {{4, 30}, {30}, {30}}, {}}};
  for (const auto& c : cases) {
    const auto& op = runtime::direct::direct_operator(c.op);
    std::vector<runtime::direct::Argument> arguments;
    for (const Shape& shape : c.inputs) {
      arguments.push_back({.kind = runtime::direct::ArgumentKind::kArray,
                           .dtype = DType::kFloat32,
                           .shape = shape});
    }
    const runtime::direct::Key key(op, 1, 0);
    const auto prepared = engine.prepare(key, op, arguments, c.attributes, 1, 0);
    EXPECT_FALSE(prepared->interprets()) << c.op << " " << shape_text(c.inputs[1]);
    engine.clear();
  }
}

TEST(DirectOperators, ArraysMayLieAnywhereAndOverlap) {
  Context context({.threads = 1, .tuning_cache = "none"});
  const Tensor x = numbers({3, 37}, 5, 1), z = numbers({3, 37}, 6, 3);
  Tensor want(DType::kFloat32, {3, 37});
  for (size_t i = 0; i < 111; ++i) {
    want.mutable_values<float>()[i] = x.values<float>()[i] + z.values<float>()[i];
  }
  expect_near(context.run("Add", {x, z})[0], want);
  Tensor over = x;
  context.run_into("Add", std::vector<Input>{x, z}, {}, {&over, 1});
  expect_near(over, want);
}

TEST(DirectOperators, TheOneNotUsedForLongestGoes) {
  Context context({.threads = 1, .capacity = 2, .tuning_cache = "none"});
  const auto run = [&](int64_t n) { context.run("Relu", {numbers({n}, 1)}); };
  run(1);
  run(2);
  run(1);
  run(3);  // in place of 2
  run(1);
  run(2);
  const CacheStatistics s = context.statistics();
  EXPECT_EQ(s.entries, 2);
  EXPECT_EQ(s.hits, 2);
  EXPECT_EQ(s.misses, 4);
  EXPECT_EQ(s.evictions, 2);
}

TEST(DirectOperators, WhatAConstantLeavesBehindGoes) {
  Context context({.threads = 1, .tuning_cache = "none"});
  const Tensor x = numbers({4, 8}, 1);
  {
    const Constant w(numbers({8, 8}, 2));
    context.run("MatMul", {x, w});
  }
  EXPECT_EQ(context.statistics().entries, 1);
  context.run("Relu", {x});
  EXPECT_EQ(context.statistics().entries, 1);
  {
    const Constant w(numbers({8, 8}, 2));
    context.run("MatMul", {x, w});
  }
  EXPECT_EQ(context.statistics().entries, 2);
  context.run("Relu", {x});  // compiles nothing
  EXPECT_EQ(context.statistics().entries, 1);
}

TEST(DirectOperators, CompilingReadsValuesFromTheKey) {
  namespace direct = runtime::direct;
  direct::Engine engine({.threads = 1, .tuning_cache = "none"});
  const direct::DirectOperator& op = direct::direct_operator("Reshape");
  const Tensor x = numbers({2, 6}, 1);
  Tensor shape = Tensor::int64s(Ints{3, 4});
  direct::Argument arguments[] = {{.kind = direct::ArgumentKind::kArray,
                                   .dtype = x.dtype(),
                                   .shape = x.shape(),
                                   .data = x.data()},
                                  {.kind = direct::ArgumentKind::kValue,
                                   .dtype = shape.dtype(),
                                   .shape = shape.shape(),
                                   .data = shape.data()}};
  direct::Key key(op, 1, 0);
  for (const direct::Argument& argument : arguments) key.add(argument);
  shape.mutable_values<int64_t>()[0] = 99;  // as another thread might
  const auto prepared = engine.prepare(key, op, arguments, {}, 1, 0);
  EXPECT_EQ(prepared->program.outputs[0].shape, (Shape{3, 4}));
}

TEST(DirectOperators, HalvesOfAConstantArePackedOnce) {
  // More than 2^19 elements, so that folding leaves them alone.
  const Constant w(numbers({1024, 640}, 2).converted(DType::kFloat16));
  const Tensor x = numbers({3, 1024}, 1).converted(DType::kFloat16);
  int64_t bytes = 0;
  for (int i = 0; i < 2; ++i) {
    Context context({.threads = 1, .tuning_cache = "none"});
    context.run("MatMul", {x, w});
    if (i == 0) bytes = w.state()->made().packed.bytes();
  }
  EXPECT_GE(bytes, 1024 * 640 * 4);
  EXPECT_EQ(w.state()->made().packed.bytes(), bytes);
}

TEST(DirectOperators, AForkedChildDoesNotWaitForItsParent) {
  const Constant w(numbers({8, 8}, 2).converted(DType::kFloat16));
  const std::lock_guard lock(w.state()->made().mutex);  // as of a call in another thread
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    _exit(w.state()->wide().count() == 64 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(DirectOperators, ValuesThatDecideShapesArePartOfTheKey) {
  Context context({.threads = 1, .tuning_cache = "none"});
  const Tensor x = numbers({2, 6}, 1);
  EXPECT_EQ(context.run("Reshape", {x, Tensor::int64s(Ints{3, 4})})[0].shape(), (Shape{3, 4}));
  EXPECT_EQ(context.run("Reshape", {x, Tensor::int64s(Ints{-1})})[0].shape(), (Shape{12}));
  EXPECT_EQ(context.run("Split", {x}, {{"num_outputs", 3}, {"axis", 1}}).size(), 3u);
}

TEST(DirectOperators, ThreadsMayCallAtOnce) {
  Context context({.threads = 2, .capacity = 3, .tuning_cache = "none"});
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 40; ++round) {
        // Large enough for two threads every now and then.
        const int64_t n = 16 + 16 * t, m = round % 8 == 0 ? 4096 : 3;
        const Tensor x = numbers({m, n}, static_cast<uint32_t>(round));
        const Tensor y = context.run("Mul", {x, Tensor::scalar<float>(2)})[0];
        for (size_t i = 0; i < static_cast<size_t>(x.count()); ++i) {
          wrong += y.values<float>()[i] != 2 * x.values<float>()[i];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

template <typename F>
std::string text_of(F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(DirectOperators, ErrorsNameOperatorAndArgument) {
  Context context({.threads = 1, .tuning_cache = "none"});
  const Tensor x = numbers({1, 4, 8, 8}, 1), w = numbers({8, 3, 3, 3}, 2);
  EXPECT_EQ(text_of([&] { context.run("Convv", {x}); }),
            "ops: there is no operator Convv; did you mean Conv?");
  EXPECT_EQ(text_of([&] {
              context.run("Relu", {x}, {{"alpha", 1.0}});
            }),
            "Relu has no attribute alpha; it has none");
  const std::string channels = text_of([&] { context.run("Conv", {x, w}); });
  EXPECT_TRUE(channels.starts_with("Conv: ")) << channels;
  EXPECT_NE(channels.find("channels"), std::string::npos) << channels;
  EXPECT_EQ(text_of([&] { context.run("Conv", {x}); }), "Conv: input 1 (W) is missing");
  EXPECT_EQ(text_of([&] { context.run("Relu", {x}, {}, {.opset = 3}); }),
            "Relu: opset: expected 6 to 28, got 3");
}

}  // namespace
}  // namespace stretto::ops
