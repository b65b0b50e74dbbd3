#include "stretto/ir/host/host.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/ir/host/regex.h"
#include "stretto/ir/host/utf8.h"

namespace stretto::ir {
namespace {

HostCall run(std::string_view op, std::vector<AnyValue> inputs,
             std::initializer_list<std::pair<const char*, Attribute>> attributes = {}) {
  HostCall call{.op = std::string(op),
                .name = "n",
                .attributes = {},
                .inputs = std::move(inputs),
                .outputs = std::vector<AnyValue>(2)};
  for (const auto& [name, value] : attributes) call.attributes.set(name, value);
  const HostOperator* row = find_host_operator(op == "LabelEncoder" ? "ai.onnx.ml" : "", op);
  EXPECT_NE(row, nullptr) << op;
  row->run(call);
  return call;
}

Tensor scalar(int64_t value) { return Tensor::scalar<int64_t>(value); }

Strings texts(std::vector<std::string> values) {
  const auto count = static_cast<int64_t>(values.size());
  return {{count}, std::move(values)};
}

Sequence three() { return {scalar(1), scalar(2), scalar(3)}; }

int64_t integer(const AnyValue& value) { return value.tensor().as_int64s()[0]; }

TEST(HostOperators, SequencesAreIndexedFromBothEnds) {
  EXPECT_EQ(integer(run("SequenceAt", {three(), scalar(-1)}).outputs[0]), 3);
  EXPECT_EQ(integer(run("SequenceAt", {three(), scalar(0)}).outputs[0]), 1);
  EXPECT_THROW(run("SequenceAt", {three(), scalar(3)}), InvalidArgument);
  EXPECT_THROW(run("SequenceAt", {Sequence(), scalar(0)}), InvalidArgument);
  const auto longer = run("SequenceInsert", {three(), scalar(9), scalar(-1)}).outputs[0];
  EXPECT_EQ(integer(longer.sequence()[2]), 9);
  EXPECT_THROW(run("SequenceInsert", {three(), scalar(9), scalar(5)}), InvalidArgument);
  EXPECT_THROW(run("SequenceInsert", {three(), Tensor::scalar<float>(1)}), InvalidArgument);
  EXPECT_EQ(run("SequenceErase", {three()}).outputs[0].sequence().size(), 2U);
  EXPECT_THROW(run("SequenceErase", {Sequence()}), InvalidArgument);
  EXPECT_THROW(run("SequenceLength", {scalar(1)}), InvalidArgument);
}

TEST(HostOperators, SplitAndConcatenateAreInverse) {
  const Tensor x = Tensor::of<float>({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto parts = run("SplitToSequence", {x, scalar(2)}, {{"axis", int64_t{1}}}).outputs[0];
  ASSERT_EQ(parts.sequence().size(), 2U);
  EXPECT_EQ(parts.sequence()[1].tensor().shape(), (Shape{2, 1}));
  const auto whole = run("ConcatFromSequence", {parts}, {{"axis", int64_t{1}}}).outputs[0];
  EXPECT_EQ(whole.tensor().as_doubles(), x.as_doubles());
  const auto rows = run("SplitToSequence", {x}, {{"keepdims", int64_t{0}}}).outputs[0];
  const auto stacked =
      run("ConcatFromSequence", {rows}, {{"axis", int64_t{0}}, {"new_axis", int64_t{1}}})
          .outputs[0];
  EXPECT_EQ(stacked.tensor().shape(), (Shape{2, 3}));
  EXPECT_EQ(stacked.tensor().as_doubles(), x.as_doubles());
  const auto sizes = Tensor::int64s(std::vector<int64_t>{1, 3});
  EXPECT_THROW(run("SplitToSequence", {x, sizes}, {{"axis", int64_t{1}}}), InvalidArgument);
  EXPECT_THROW(run("SplitToSequence", {x, scalar(0)}), InvalidArgument);
  EXPECT_THROW(run("ConcatFromSequence", {Sequence{x, scalar(1)}}, {{"axis", int64_t{0}}}),
               InvalidArgument);
  EXPECT_THROW(run("ConcatFromSequence", {Sequence()}, {{"axis", int64_t{0}}}), InvalidArgument);
}

TEST(HostOperators, StringsAreCutJoinedAndNormalised) {
  const auto split = run("StringSplit", {texts({"a b", " c ", ""})});
  EXPECT_EQ(split.outputs[0].strings().shape, (Shape{3, 2}));
  EXPECT_EQ(split.outputs[0].strings().values,
            (std::vector<std::string>{"a", "b", "c", "", "", ""}));
  EXPECT_EQ(split.outputs[1].tensor().as_int64s(), (std::vector<int64_t>{2, 1, 0}));
  const auto upper = run("StringNormalizer",
                         {texts({"tag",
                                 "Stra\xc3\x9f"
                                 "e",
                                 "\xc3\xa4l"})},
                         {{"case_change_action", std::string("UPPER")},
                          {"stopwords", std::vector<std::string>{"TAG"}}});
  EXPECT_EQ(upper.outputs[0].strings().values, (std::vector<std::string>{"STRA\xc3\x9f"
                                                                         "E",
                                                                         "\xc3\x84L"}));
  EXPECT_THROW(run("StringConcat", {texts({"a", "b"}), texts({"a", "b", "c"})}), InvalidArgument);
  EXPECT_THROW(run("StringConcat", {texts({"a"}), scalar(1)}), InvalidArgument);
}

TEST(HostOperators, NumbersAndStringsBecomeEachOther) {
  const auto numbers = run("Cast", {texts({"1.5", "-2e1", "INF"})},
                           {{"to", int64_t{1}}, {"dtype", std::string("float32")}});
  EXPECT_EQ(numbers.outputs[0].tensor().as_doubles()[1], -20);
  const auto back = run("Cast", {numbers.outputs[0]}, {{"to", int64_t{8}}});
  EXPECT_EQ(back.outputs[0].strings().values[0], "1.5");
  EXPECT_THROW(run("Cast", {texts({"one"})}, {{"dtype", std::string("float32")}}), InvalidArgument);
}

TEST(HostOperators, LabelsAreLookedUp) {
  const auto found = run("LabelEncoder", {texts({"b", "?", "a"})},
                         {{"keys_strings", std::vector<std::string>{"a", "b"}},
                          {"values_int64s", std::vector<int64_t>{7, 8}},
                          {"default_int64", int64_t{-3}}});
  EXPECT_EQ(found.outputs[0].tensor().as_int64s(), (std::vector<int64_t>{8, -3, 7}));
  EXPECT_THROW(run("LabelEncoder", {texts({"b"})},
                   {{"keys_strings", std::vector<std::string>{"a", "b"}},
                    {"values_int64s", std::vector<int64_t>{7}}}),
               InvalidArgument);
}

TEST(Regex, MatchesWholeTexts) {
  const auto matches = [](std::string_view pattern, std::string_view text) {
    return Regex(pattern).matches(text);
  };
  EXPECT_TRUE(matches("a(b|c)*d", "abcbd"));
  EXPECT_FALSE(matches("a(b|c)*d", "abcbde"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches("[^a-c]{2,3}", "xyz"));
  EXPECT_FALSE(matches("[^a-c]{2,3}", "xyzx"));
  EXPECT_TRUE(matches("x{2,}", "xxxxx"));
  EXPECT_TRUE(matches(R"(\d+\.\w*\s?)", "42.ab "));
  EXPECT_TRUE(
      matches("(?i)stra\xc3\x9f"
              "e",
              "STRA\xc3\x9f"
              "E"));
  EXPECT_TRUE(matches(".", "\xc3\xa4"));  // one character of two bytes
  EXPECT_FALSE(matches(".", "\n"));
  EXPECT_TRUE(matches("(?s).", "\n"));
  EXPECT_TRUE(matches(R"([[:alpha:]\]-]+)", "a]-"));
  EXPECT_TRUE(matches("(?P<name>a)|^b$", "b"));
  EXPECT_FALSE(matches("(?:)x", "y"));
  EXPECT_TRUE(matches("a{,2}", "a{,2}"));
}

TEST(Regex, TakesTimeLinearInTheText) {
  // Takes exponential time where alternatives are tried one after the other.
  EXPECT_FALSE(Regex("(a*)*b").matches(std::string(100'000, 'a')));
  EXPECT_THROW(Regex("((((a{100}){100}){100}){100})"), InvalidArgument);
  EXPECT_THROW(Regex(std::string(100'000, '(')), InvalidArgument);
  for (const char* broken : {"(", ")", "[", "a**", "*", "\\", "[z-a]", "a{3,2}", "(?x)"}) {
    EXPECT_THROW(Regex{broken}, InvalidArgument) << broken;
  }
  EXPECT_THROW(Regex("\\pN"), Unsupported);
}

TEST(Utf8, KeepsBytesThatAreNoText) {
  for (const std::string& text :
       {std::string("\xff\x80"
                    "a"),
        std::string("\xf0\x9f\x98\x80"), std::string("\xed\xa0"), std::string("\xc0\x80")}) {
    EXPECT_EQ(encoded(decoded(text)), text);
  }
  EXPECT_EQ(decoded("\xf0\x9f\x98\x80").size(), 1U);
}

}  // namespace
}  // namespace stretto::ir
