// Models of many nodes, each of which needs the one before: nothing may recurse as deep as a file
// is long, and nothing may take time that grows with its square.
#include <gtest/gtest.h>
#include <pthread.h>

#include <fmt/core.h>

#include <functional>

#include "stretto/base/clock.h"
#include "stretto/import/onnx/test_model.h"
#include "stretto/stretto.h"

namespace stretto {
namespace {

using namespace onnx::testing;  // NOLINT: the messages of a model

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(STRETTO_EMULATED)
// A sanitizer takes ten times as long, and as much stack; an emulator twenty times as long.
constexpr int kNodes = 10'000;
#else
constexpr int kNodes = 100'000;
#endif
// Each takes seconds on a quiet machine; what is quadratic takes many minutes.
constexpr double kLimit_s = 60;
// What Linux gives a main thread.
constexpr size_t kStackBytes = 8 << 20;

struct Chain {
  const char* name;
  // Node i of the chain, which makes `y` of `x`.
  std::string (*node)(int i, const std::string& x, const std::string& y);
  // From the last value to "out".
  std::vector<std::string> (*end)(const std::string& last);
};

std::vector<std::string> identity(const std::string& last) {
  return {node("Identity", {last}, {"out"})};
}

// "x", "w" and "out" are 4 x 4; "c" is a scalar.
constexpr Chain kChains[] = {
    {"elementwise",
     [](int, const std::string& x, const std::string& y) {
       return node("Add", {x, "c"}, {y});
     },
     identity},
    {"scaled_scores",
     [](int i, const std::string& x, const std::string& y) {
       return i == 0 ? node("MatMul", {x, "x"}, {y}) : node("Mul", {x, "c"}, {y});
     },
     [](const std::string& last) {
       return std::vector<std::string>{node("Softmax", {last}, {"p"}),
                                       node("MatMul", {"p", "x"}, {"out"})};
     }},
    {"activation_products",
     [](int i, const std::string& x, const std::string& y) {
       return i % 2 == 0 ? node("Sigmoid", {x}, {y})
                         : node("Mul", {x, i < 2 ? "x" : fmt::format("v{}", i - 1)}, {y});
     },
     identity},
    {"softmax",
     [](int, const std::string& x, const std::string& y) { return node("Softmax", {x}, {y}); },
     identity},
    {"products",
     [](int, const std::string& x, const std::string& y) {
       return node("MatMul", {x, "w"}, {y});
     },
     identity},
    {"transposes",
     [](int i, const std::string& x, const std::string& y) {
       return i % 3 == 2 ? node("Relu", {x}, {y}) : node("Transpose", {x}, {y});
     },
     identity},
    {"interpreted",
     [](int i, const std::string& x, const std::string& y) {
       return i == 0 ? node("IsNaN", {x}, {y}) : node("Not", {x}, {y});
     },
     identity},
};

std::string model_of(const Chain& chain, int count) {
  const auto name = [](int i) { return i == 0 ? std::string("x") : fmt::format("v{}", i); };
  GraphParts parts{.inputs = {input("x", {"4", "4"})},
                   .outputs = {"out"},
                   .initializers = {floats("c", {}, {-1.0f}), floats("w", {4, 4},
                                                                     {0, 1, 0, 0, 0, 0, 1, 0,  //
                                                                      0, 0, 0, 1, 1, 0, 0, 0})}};
  for (int i = 0; i < count; ++i) parts.nodes.push_back(chain.node(i, name(i), name(i + 1)));
  for (std::string& one : chain.end(name(count))) parts.nodes.push_back(std::move(one));
  return model(parts);
}

// Runs `work` on a thread whose stack is as deep as a main thread's, whatever the shell says.
void on_usual_stack(std::function<void()> work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

class DeepChain : public ::testing::TestWithParam<Chain> {};

TEST_P(DeepChain, IsOptimisedInTimeAndOnAnOrdinaryStack) {
  // The first chain takes every step: the reference checks it, and it is timed for the report.
  const bool whole = GetParam().name == kChains[0].name;
  const std::string bytes = model_of(GetParam(), kNodes);
  on_usual_stack([&] {
    const double start = now_s();
    try {
      const Model made = optimize(std::as_bytes(std::span(bytes)), "chain.onnx", "",
                                  {.threads = 1,
                                   .tuning = "off",
                                   .tuning_cache = "none",
                                   .verify = whole,
                                   .profile = whole});
      Session session(made);
      std::vector<float> x(16, 0.5f);
      const auto y = session.run(std::vector<Tensor>{Tensor::of<float>({4, 4}, x)});
      EXPECT_EQ(y.size(), 1u);
    } catch (const Unsupported& error) {
      ADD_FAILURE() << error.what();
    }
    EXPECT_LT(now_s() - start, kLimit_s);
  });
}

INSTANTIATE_TEST_SUITE_P(All, DeepChain, ::testing::ValuesIn(kChains),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace stretto
