#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

#include "stretto/base/random.h"
#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

using Given = std::initializer_list<std::pair<std::string, Attribute>>;

const Attribute kDouble = std::string("float64"), kSingle = std::string("float32");

Attributes attributes_of(Given given) {
  Attributes attributes;
  for (const auto& [name, value] : given) attributes.set(name, value);
  return attributes;
}

// One evaluation: another one would draw other numbers.
Tensor draw(std::string_view op, std::vector<Tensor> inputs, Given given) {
  OneNode one(op, std::move(inputs), {}, 1);
  one.graph.nodes[0].attributes = attributes_of(given);
  infer(one.graph);
  return evaluate(one.graph, one.graph.nodes[0], one.inputs)[0];
}

std::vector<double> drawn(std::string_view op, int64_t count, Given given = {}) {
  OneNode one(op, {}, {}, 1);
  one.graph.nodes[0].attributes = attributes_of(given);
  one.graph.nodes[0].attributes.set("shape", Shape{count});
  infer(one.graph);
  return evaluate(one.graph, one.graph.nodes[0], {})[0].as_doubles();
}

struct Moments {
  double mean = 0, deviation = 0, skew = 0, kurtosis = 0;
};

Moments moments(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  Moments m;
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double second = 0, third = 0, fourth = 0;
  for (double v : values) {
    const double d = v - m.mean;
    second += d * d / n;
    third += d * d * d / n;
    fourth += d * d * d * d / n;
  }
  m.deviation = std::sqrt(second);
  m.skew = third / std::pow(second, 1.5);
  m.kurtosis = fourth / (second * second);
  return m;
}

// Of 200,000 numbers, by which sums of so many stray less than once in 10^7 times.
constexpr int64_t kMany = 200'000;

TEST(Random, NormalNumbersHaveTheirMoments) {
  for (const Attribute& dtype : {kSingle, kDouble}) {
    manual_seed(1);
    const Moments m = moments(drawn("RandomNormal", kMany, {{"dtype", dtype}}));
    EXPECT_NEAR(m.mean, 0, 0.012);
    EXPECT_NEAR(m.deviation, 1, 0.009);
    EXPECT_NEAR(m.skew, 0, 0.03);
    EXPECT_NEAR(m.kurtosis, 3, 0.06);
    const auto other =
        drawn("RandomNormal", kMany, {{"dtype", dtype}, {"mean", 5.0}, {"scale", 0.5}});
    EXPECT_NEAR(moments(other).mean, 5, 0.006);
    EXPECT_NEAR(moments(other).deviation, 0.5, 0.0045);
  }
}

TEST(Random, NormalNumbersAreThoseOfBoxAndMuller) {
  constexpr int kPlaces = 64;
  const RandomStream stream = random_stream_of(std::bit_cast<uint64_t>(4.0));
  const auto values = drawn("RandomNormal", 400 * 256, {{"seed", 4.0}});
  for (uint64_t place = 0; place < 400 * kPlaces; ++place) {
    const auto words = stream(place);
    const double* block = values.data() + place / kPlaces * 256 + place % kPlaces;
    for (int k = 0; k < 4; k += 2) {
      const double radius = std::sqrt(-2 * std::log(((words[k] >> 1) + 1) * 0x1p-31));
      const double angle = 2 * std::numbers::pi * (words[k + 1] >> 8) * 0x1p-24;
      EXPECT_NEAR(block[k * kPlaces], radius * std::cos(angle), 2e-6);
      EXPECT_NEAR(block[(k + 1) * kPlaces], radius * std::sin(angle), 2e-6);
    }
  }
}

TEST(Random, NormalNumbersHaveTheirTails) {
  manual_seed(2);
  const auto values = drawn("RandomNormal", kMany);
  for (const auto& [beyond, share] : {std::pair(1.0, 0.317311), {2.0, 0.0455}, {3.0, 0.0027}}) {
    const auto count =
        std::ranges::count_if(values, [&](double v) { return std::fabs(v) > beyond; });
    const double expected = share * kMany, deviation = std::sqrt(expected * (1 - share));
    EXPECT_NEAR(static_cast<double>(count), expected, 5.5 * deviation) << beyond;
  }
  // Those 64 places apart are made of the same two numbers.
  double together = 0;
  for (size_t i = 0; i + 64 < values.size(); ++i) together += values[i] * values[i + 64];
  EXPECT_NEAR(together / kMany, 0, 0.013);
}

TEST(Random, UniformNumbersFillTheirRange) {
  for (const Attribute& dtype : {kSingle, kDouble}) {
    manual_seed(3);
    auto values = drawn("RandomUniform", kMany, {{"dtype", dtype}, {"low", -2.0}, {"high", 3.0}});
    EXPECT_TRUE(std::ranges::all_of(values, [](double v) { return -2 <= v && v < 3; }));
    std::ranges::sort(values);
    // The largest distance between shares below and what they should be (Kolmogorov, Smirnov).
    double most = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      most = std::max(most, std::fabs((values[i] + 2) / 5 - static_cast<double>(i) / kMany));
    }
    EXPECT_LT(most, 2.9 / std::sqrt(kMany));
  }
}

TEST(Random, RangesWithoutWidthAndOfOneStepHoldTheirEnds) {
  for (double v : drawn("RandomUniform", 100, {{"low", 2.0}, {"high", 2.0}})) EXPECT_EQ(v, 2);
  const double next = std::nextafter(1.0f, 2.0f);
  for (double v : drawn("RandomUniform", 100, {{"low", 1.0}, {"high", next}})) EXPECT_EQ(v, 1);
  for (double v : drawn("RandomNormal", 100, {{"mean", 2.0}, {"scale", 0.0}})) EXPECT_EQ(v, 2);
}

TEST(Random, EveryEvaluationDrawsOthersButFromASeed) {
  EXPECT_NE(drawn("RandomNormal", 8), drawn("RandomNormal", 8));
  const auto seeded = [](double seed) { return drawn("RandomNormal", 8, {{"seed", seed}}); };
  EXPECT_EQ(seeded(0.5), seeded(0.5));
  EXPECT_NE(seeded(0.5), seeded(0.25));
  manual_seed(9);
  const auto first = drawn("RandomNormal", 8);
  manual_seed(9);
  EXPECT_EQ(drawn("RandomNormal", 8), first);
  const RepeatedDraws repeated;
  EXPECT_EQ(drawn("RandomNormal", 8), drawn("RandomNormal", 8));
  EXPECT_NE(drawn("RandomNormal", 8, {{"node", int64_t{1}}}),
            drawn("RandomNormal", 8, {{"node", int64_t{2}}}));
}

TEST(Random, ATeamDrawsWhatOneThreadDoes) {
  OneNode one("RandomNormal", {}, {{"shape", Shape{3, 4099}}, {"seed", 1.0}}, 1);
  infer(one.graph);
  ThreadTeam team(3);
  const Node& node = one.graph.nodes[0];
  const auto alone = evaluate(one.graph, node, {}), together = evaluate(one.graph, node, {}, &team);
  EXPECT_EQ(alone[0].as_doubles(), together[0].as_doubles());
}

TEST(Random, ShapesAndTypes) {
  EXPECT_EQ(draw("RandomUniformLike", {ramp({2, 0, 5})}, {}).shape(), (Shape{2, 0, 5}));
  EXPECT_EQ(draw("RandomNormalLike", {ints({2, 3})}, {{"dtype", kDouble}}).dtype(),
            DType::kFloat64);
  EXPECT_EQ(draw("RandomNormal", {}, {{"shape", Shape{}}}).shape(), Shape{});
  const auto half = draw("RandomUniform", {},
                         {{"shape", Shape{4}}, {"dtype", std::string("float16")}, {"seed", 1.0}});
  EXPECT_EQ(half.dtype(), DType::kFloat16);
  const auto full = draw("RandomUniform", {}, {{"shape", Shape{4}}, {"seed", 1.0}});
  EXPECT_EQ(half.as_doubles(), full.converted(DType::kFloat16).as_doubles());
  EXPECT_NE(error_of("RandomNormalLike", {ints({2})}).find("dtype: expected float32"),
            std::string::npos);
  EXPECT_NE(error_of("RandomNormal", {}, {{"shape", Shape{2, -1}}}).find("shape"),
            std::string::npos);
}

TEST(Random, IsNeverKnownBeforehand) {
  OneNode one("RandomNormalLike", {ints({2})}, {{"dtype", kDouble}}, 1);
  infer(one.graph);
  EXPECT_FALSE(one.graph.value(one.graph.outputs[0]).is_constant());
}

}  // namespace
}  // namespace stretto::ir
