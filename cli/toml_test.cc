#include "toml.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto::cli {
namespace {

using Words = std::vector<std::string>;

std::string refusal(std::string_view text) {
  try {
    parse_toml(text, "c.toml");
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Toml, EveryKindOfValueIsRead) {
  const auto items = parse_toml(R"(# what holds for all
quiet = true   # a comment
[optimize]
threads = 1_000
accuracy = "str\u0069ct\t"
'tuning' = 'C:\x'
disable = [ "a", 'b',  # more
  "c,d", ]
kernels.conv2d.seconds = -2.5e-1

[kernels.conv2d]
isa = "avx2"
)",
                                "c.toml");
  const std::vector<std::tuple<Words, std::string, Words, int>> want{
      {{}, "quiet", {"true"}, 2},
      {{"optimize"}, "", {}, 3},
      {{"optimize"}, "threads", {"1000"}, 4},
      {{"optimize"}, "accuracy", {"strict\t"}, 5},
      {{"optimize"}, "tuning", {"C:\\x"}, 6},
      {{"optimize"}, "disable", {"a", "b", "c,d"}, 7},
      {{"optimize", "kernels", "conv2d"}, "seconds", {"-2.5e-1"}, 9},
      {{"kernels", "conv2d"}, "", {}, 11},
      {{"kernels", "conv2d"}, "isa", {"avx2"}, 12}};
  ASSERT_EQ(items.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const TomlItem& item = items[i];
    EXPECT_EQ(std::tuple(item.section, item.name, item.values, item.line), want[i]) << i;
  }
  EXPECT_TRUE(parse_toml("", "c.toml").empty() && parse_toml("\r\n # x", "c.toml").empty());
}

TEST(Toml, WhatIsNoTomlIsRefusedWithItsLine) {
  EXPECT_EQ(refusal("[optimize"), "c.toml:1: expected ']'");
  EXPECT_EQ(refusal("\n[optimize] x"), "c.toml:2: expected the end of the line, found 'x'");
  EXPECT_EQ(refusal("a = 1\nthreads 2"), "c.toml:2: expected '=', found '2'");
  EXPECT_EQ(refusal("\x7f"
                    "ELF"),
            "c.toml:1: expected a key, found '\x7f"
            "ELF'");
  EXPECT_EQ(refusal("tuning = off"),
            "c.toml:1: expected a value: a string in quotes, a number, true, false or a list of "
            "these, found 'off'");
  for (const char* text : {"a =", "a = [1", "a = [1 2]", "a = \"x", "a = \"\\q\"", "a = 1 2",
                           "a = {b = 1}", "[[a]]", "a = 2024-01-01", "a = \"\"\"x\"\"\"",
                           "a = [[1]]", "= 1", "[]", "a = \"\\u12\"", "a = 0x10", "a.=1"}) {
    EXPECT_TRUE(refusal(text).starts_with("c.toml:1: ")) << text << ": " << refusal(text);
  }
  EXPECT_EQ(refusal("[v]\na = 1\na = 2"), "c.toml:3: v.a is given twice");
  EXPECT_EQ(refusal("[v]\n[w]\n[v]"), "c.toml:3: [v] is given twice");
}

}  // namespace
}  // namespace stretto::cli
