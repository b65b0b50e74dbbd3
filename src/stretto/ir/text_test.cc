#include "stretto/ir/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "stretto/base/error.h"

namespace stretto::ir {
namespace {

std::string message_of(std::string_view text) {
  try {
    parse_text(text);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Text, ReadsWhatAPersonWrites) {
  const Graph g = parse_text(R"(
    graph tiny
    input x: float32[2, 3]        # a comment
    constant w: float32[2] = {1, -2.5}
    a = Identity(x)
    b: float32[2, 3] = Identity(a) as "the second"
    c = Identity(w)
    output b, c
  )");
  EXPECT_EQ(g.name, "tiny");
  ASSERT_EQ(g.nodes.size(), 3u);
  EXPECT_EQ(g.nodes[0].name, "a");
  EXPECT_EQ(g.nodes[1].name, "the second");
  EXPECT_EQ(*g.value(g.outputs[0]).shape, (Shape{2, 3}));
  EXPECT_EQ(g.values[1].constant.values<float>()[1], -2.5f);
}

TEST(Text, SurvivesARoundTrip) {
  const std::string text = R"(graph "odd name"
input "input": float32[1, 0, 3]
input scalar: int64[]
constant f: float32[4] = {0.1, -inf, nan, 1e+20}
constant d: float64[1] = {0.30000000000000004}
constant h: float16[2] = {0.5, 65504.0}
constant s: float32[1000] = {0.25 ...}
constant u: uint8[3] = {0, 128, 255}
constant i: int64[2] = {-9223372036854775808, 9223372036854775807}
constant none: int32[0] = {}
constant t: bool[2] = {true, false}
"a \"quoted\" \\ \x0a name": float32[1, 0, 3] = Identity("input") as other
"as": bool[2] = Identity(t)  # {true, false}
output "a \"quoted\" \\ \x0a name", "as", scalar
)";
  const Graph g = parse_text(text);
  EXPECT_EQ(to_text(g), text);
  EXPECT_EQ(to_text(parse_text(to_text(g))), text);
}

TEST(Text, KeepsEveryBitOfAFloat) {
  Graph g;
  g.name = "bits";
  std::vector<float> values;
  for (uint32_t bits = 1; bits < 0x7f800000; bits += 0x10fff7) {
    float value;
    static_assert(sizeof value == sizeof bits);
    std::memcpy(&value, &bits, sizeof value);
    values.push_back(value);
  }
  const auto count = static_cast<int64_t>(values.size());
  g.outputs = {g.add_constant("c", Tensor::of<float>({count}, values))};
  const Graph back = parse_text(to_text(g));
  const auto read = back.value(back.outputs[0]).constant.values<float>();
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(read[i], values[i]) << i;
}

TEST(Text, ElidesLongConstants) {
  Graph g;
  g.outputs = {g.add_constant("c", Tensor::int64s(std::vector<int64_t>{1, 2, 3}))};
  EXPECT_EQ(to_text(g, {.max_constant_elements = 2}),
            "graph unnamed\nconstant c: int64[3] = ...\noutput c\n");
  EXPECT_NE(message_of(to_text(g, {.max_constant_elements = 2})).find("left out"),
            std::string::npos);
}

TEST(Text, FillsConstantsFromASeed) {
  const Graph g = parse_text(
      "graph g constant a: float32[1000] = random(7) constant b: float32[1000] = random(8) output "
      "a, b");
  const auto a = g.values[0].constant.values<float>(), b = g.values[1].constant.values<float>();
  double sum = 0;
  int same = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_LE(std::fabs(a[i]), 1.0f);
    sum += a[i];
    same += a[i] == b[i];
  }
  EXPECT_LT(std::fabs(sum), 60);  // three standard deviations of 1000 uniform numbers are 55
  EXPECT_LT(same, 5);
}

TEST(Text, NamesTheLineAtFault) {
  EXPECT_EQ(message_of("tiny"), "line 1: expected 'graph' and its name, got 'tiny'");
  EXPECT_EQ(message_of("graph g\ny = Identity(x)"), "line 2: x is used before it is made");
  EXPECT_EQ(message_of("graph g\ny = Identity(y)"), "line 2: y is used before it is made");
  EXPECT_EQ(message_of("graph g\ninput x: float32[2]\n\ny = Nonsense(x)"),
            "line 4: there is no operator Nonsense");
  EXPECT_EQ(message_of("graph g\ninput x: float32[2]\ninput x: float32[2]"),
            "line 3: x is already defined");
  EXPECT_EQ(message_of("graph g\ninput x: float32[2]\ny: float32[3] = Identity(x)"),
            "line 3: y is declared 3, inference says 2");
  EXPECT_EQ(message_of("graph g\nconstant c: int8[1] = {300}"), "line 2: expected int8, got '300'");
  EXPECT_EQ(message_of("graph g\nconstant c: int8[3] = {3, 4}"), "line 2: 2 elements for shape 3");
  EXPECT_EQ(message_of("graph g\nconstant c: int8[1] = {3, 4}"),
            "line 2: more elements than the 1 of 1");
  EXPECT_EQ(message_of("graph g\ninput x: float32[?]"),
            "line 2: an open dimension: write a number instead of '?'");
}

TEST(Text, ShortTextsCannotAskForAllMemory) {
  EXPECT_NE(message_of("graph g constant c: int8[1000000000] = {0 ...}").find("altogether"),
            std::string::npos);
  EXPECT_NE(
      message_of("graph g constant c: int8[1000000, 1000000, 1000000] = {0 ...}").find("2^40"),
      std::string::npos);
}

TEST(Text, RefusesEveryTruncation) {
  const std::string text =
      "graph g input x: float32[2, 3] constant w: float32[2] = {1, -2.5} "
      "b: float32[2, 3] = Identity(x) as \"the \\x20 second\" output b";
  for (size_t length = 0; length < text.size(); ++length) {
    try {
      parse_text(std::string_view(text).substr(0, length));
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(std::string_view(error.what()).substr(0, 6), "line 1") << error.what();
    }
  }
}

}  // namespace
}  // namespace stretto::ir
