#include "command.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "stretto/base/error.h"

namespace stretto::cli {
namespace {

struct Values {
  bool fast = false, slow = false;
  int threads = 1;
  int64_t rows = 1;
  double seconds = 1;
  std::string file, colour = "red";
  std::vector<int> sizes;
  std::vector<std::string> names;
};

// Adds a verb, "paint", which returns 7.
void add_paint(Command& root, Values& values) {
  Command& paint = add_command(root, {.name = "paint", .summary = "Paint a file"});
  add_flag(paint, "--fast", &values.fast, "Hurry");
  add_flag(paint, "--slow", &values.slow, "Take care", {.excludes = "--fast"});
  add_option(paint, "file", &values.file, "FILE", "What to paint", {.required = true});
  add_option(paint, "-t,--threads", &values.threads, "N", "Threads",
             {.show_default = true, .range = Range{1, 8}});
  add_option(paint, "--rows", &values.rows, "N", "Rows");
  add_option(paint, "--seconds", &values.seconds, "SECONDS", "Time", {.range = Range{0.5, 2}});
  add_option(paint, "--colour", &values.colour, "red|blue", "Colour", {.one_of = {"red", "blue"}});
  add_option(paint, "--sizes", &values.sizes, "N,...", "Sizes");
  add_option(paint, "--name", &values.names, "NAME", "A name");
  paint.run = [] { return 7; };
}

std::string refusal(const std::vector<std::string>& words) {
  Values values;
  Command root{.name = "tool"};
  add_paint(root, values);
  try {
    parse(root, words);
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Command, ParsingSetsVariablesOfEveryKind) {
  Values values;
  Command root{.name = "tool"};
  add_paint(root, values);
  const std::vector<std::string> words{
      "paint",    "a.png", "--fast",  "-t",  "3",      "--rows", "5000000000", "--seconds", "0.5",
      "--colour", "blue",  "--sizes", "1,2", "--name", "a,b",    "--name",     "c"};
  EXPECT_EQ(parse(root, words)(), 7);
  EXPECT_TRUE(values.fast);
  EXPECT_FALSE(values.slow);
  EXPECT_EQ(values.file, "a.png");
  EXPECT_EQ(values.threads, 3);
  EXPECT_EQ(values.rows, 5000000000);
  EXPECT_EQ(values.seconds, 0.5);
  EXPECT_EQ(values.colour, "blue");
  EXPECT_EQ(values.sizes, (std::vector{1, 2}));
  EXPECT_EQ(values.names, (std::vector<std::string>{"a,b", "c"})) << "no list at commas";
  const Command& paint = root.commands.front();
  EXPECT_TRUE(was_given(paint, "-t") && was_given(paint, "--threads") && was_given(paint, "file"));
  EXPECT_FALSE(was_given(paint, "--slow") || was_given(paint, "--nonsense"));
}

TEST(Command, WordsThatDoNotFitAreRefused) {
  EXPECT_EQ(refusal({"paint", "a", "-t", "9"}),
            "--threads: 9 is not in the range 1 to 8; 'tool paint --help' lists what there is");
  EXPECT_EQ(refusal({"paint", "a", "--seconds", "3"}),
            "--seconds: 3 is not in the range 0.5 to 2; 'tool paint --help' lists what there is");
  EXPECT_EQ(refusal({"paint", "a", "--colour", "green"}),
            "--colour: green not in {red,blue}; 'tool paint --help' lists what there is");
  EXPECT_EQ(refusal({"paint", "a", "--fast", "--slow"}),
            "--fast excludes --slow; 'tool paint --help' lists what there is");
  EXPECT_EQ(refusal({"paint"}), "file is required; 'tool paint --help' lists what there is");
  EXPECT_EQ(refusal({"paint", "a", "--treads", "1"}),
            "paint has no option --treads, did you mean --threads?; 'tool paint --help' lists what "
            "there is");
  EXPECT_EQ(refusal({"paint", "a", "b"}),
            "paint takes no further argument 'b'; 'tool paint --help' lists what there is");
  EXPECT_EQ(refusal({"pain"}), "tool has no 'pain', did you mean paint?; there are: paint");
}

TEST(Command, WhatIsNoNumberIsNotSaidToBeOutOfRange) {
  const auto problem = [](const std::string& option, const std::string& value) {
    const std::string text = refusal({"paint", "a", option + "=" + value});
    return text.substr(0, text.find("; 'tool"));
  };
  for (const char* word : {"x", "1.5", "1x", " 1", "-"}) {
    EXPECT_EQ(problem("--threads", word),
              fmt::format("--threads: '{}' is not a whole number", word));
    EXPECT_EQ(problem("--rows", word), fmt::format("--rows: '{}' is not a whole number", word));
  }
  EXPECT_EQ(problem("--seconds", "1s"), "--seconds: '1s' is not a number");
  EXPECT_EQ(problem("--seconds", "nan"), "--seconds: nan is not in the range 0.5 to 2");
  EXPECT_EQ(problem("--sizes", "1,99999999999"),
            "--sizes: 99999999999 is not in the range -2147483648 to 2147483647");
  EXPECT_EQ(problem("--threads", "99999999999999999999"),
            "--threads: 99999999999999999999 is not in the range 1 to 8");
}

TEST(Command, AnOptionThatTakesOneValueIsGivenOnceAndWithIt) {
  EXPECT_EQ(refusal({"paint", "a", "--rows"}),
            "--rows needs a value; 'tool paint --help' lists what there is");
  EXPECT_EQ(refusal({"paint", "a", "--rows="}),
            "--rows needs a value; 'tool paint --help' lists what there is");
  EXPECT_EQ(refusal({"paint", "a", "--rows", "1", "--rows", "1"}),
            "--rows is given twice; 'tool paint --help' lists what there is");
}

TEST(Command, WordsBehindTwoDashesAreArguments) {
  Values values;
  Command root{.name = "tool"};
  add_paint(root, values);
  const std::vector<std::string> words{"paint", "--rows", "2", "--", "--fast"};
  EXPECT_EQ(parse(root, words)(), 7);
  EXPECT_EQ(values.file, "--fast");
  EXPECT_FALSE(values.fast);
}

TEST(Command, OptionsOfTheProgramStandBeforeTheVerb) {
  Values values;
  Command root{.name = "tool"};
  bool quiet = false;
  std::string colours;
  add_flag(root, "-q", &quiet, "Be quiet");
  add_option(root, "--colours", &colours, "FILE", "Colours there are");
  add_paint(root, values);
  const std::vector<std::string> words{"-q", "--colours", "paint", "paint", "a"};
  EXPECT_EQ(parse(root, words)(), 7);
  EXPECT_TRUE(quiet);
  EXPECT_EQ(refusal({"--quite", "paint", "a"}),
            "tool has no option --quite; 'tool --help' lists what there is");
  EXPECT_EQ(refusal({}), "tool needs a verb: paint; 'tool --help' lists what there is");
}

TEST(Command, ACommandThatParsesItselfKeepsItsWords) {
  Command root{.name = "tool"};
  Command& other = add_command(root, {.name = "other", .parses_itself = true});
  other.run = [&other] { return static_cast<int>(other.words.size()); };
  const std::vector<std::string> words{"other", "--help", "-n", "4", "x.py"};
  EXPECT_EQ(parse(root, words)(), 4);
  EXPECT_EQ(other.words, (std::vector<std::string>{"--help", "-n", "4", "x.py"}));
}

TEST(Command, TheHelpShowsDefaultsFromBeforeParsing) {
  Values values;
  Command root{.name = "tool"};
  add_paint(root, values);
  const std::vector<std::string> words{"paint", "a", "-t", "5"};
  parse(root, words);
  const CommandInfo paint = describe(root).commands.front();
  EXPECT_EQ(paint.name, "tool paint");
  EXPECT_EQ(paint.options[3].names, (std::vector<std::string>{"-t", "--threads"}));
  EXPECT_EQ(paint.options[3].fallback, "1");
  EXPECT_EQ(paint.options[4].fallback, "");
  EXPECT_TRUE(paint.options[2].positional && paint.options[2].required);
  EXPECT_TRUE(paint.options[7].repeatable && !paint.options[2].repeatable);
}

}  // namespace
}  // namespace stretto::cli
