#include "stretto/data/list.h"

#include <gtest/gtest.h>

#include "stretto/data/data_testing.h"

namespace stretto::data {
namespace {

TEST(List, CsvWithAHeaderTakesItsColumns) {
  const TestFolder folder;
  const std::string list = folder.write("lists/train.csv",
                                        "\xEF\xBB\xBFsplit,label,path\r\n"
                                        "a,dog,../x/1.jpg\r\n"
                                        "\r\n"
                                        "b,\"cat, \"\"big\"\"\",/far/2.png\r\n"
                                        "c,,3.jpg");
  const Dataset dataset = open_dataset(list);
  EXPECT_EQ(dataset.kind(), "list");
  EXPECT_EQ(dataset.class_names(), (Names{"cat, \"big\"", "dog"}));
  EXPECT_EQ(labels_of(dataset), (LabelList{1, 0, -1}));
  EXPECT_EQ(names_of(dataset), (Names{"../x/1.jpg", "/far/2.png", "3.jpg"}));
  EXPECT_EQ(dataset.path(0), folder.path("lists/../x/1.jpg"));
  EXPECT_EQ(dataset.path(1), "/far/2.png");
  EXPECT_EQ(dataset.path(2), folder.path("lists/3.jpg"));
}

TEST(List, OfUrlsNeedsAStore) {
  const TestFolder folder;
  for (const char* text : {"path,label\nhttp://host/a.jpg,1\n", "s3://bucket/a,1\n"}) {
    const std::string list = folder.write("l.csv", text);
    EXPECT_TRUE(says(error_of<Unsupported>([&] { open_dataset(list); }),
                     "it names URLs, such as " + parse_csv(list, text).name(0)));
  }
  for (const char* path : {"http://host/a", "S3+x.y-1://b", "memory:///a"})
    EXPECT_TRUE(is_url(path));
  for (const char* path : {"a.jpg", "/a://b", "://a", "http:/a", "a b://c", ""}) {
    EXPECT_FALSE(is_url(path));
  }
}

TEST(List, CsvWithoutAHeaderIsPathAndLabel) {
  const Dataset numbers = parse_csv("l.csv", "a.jpg,7\nb.jpg,0\nc.jpg,-1\n");
  EXPECT_EQ(labels_of(numbers), (LabelList{7, 0, -1}));
  EXPECT_TRUE(numbers.class_names().empty());
  EXPECT_EQ(numbers.path(0), "./a.jpg");
  const Dataset names = parse_csv("/l.csv", "a.jpg,y\nb.jpg,x\nc.jpg,-1\n");
  EXPECT_EQ(names.class_names(), (Names{"x", "y"}));
  EXPECT_EQ(labels_of(names), (LabelList{1, 0, -1}));
  const Dataset alone = parse_csv("l.csv", "a.jpg\n\"b\nc.jpg\"\n");
  EXPECT_EQ(names_of(alone), (Names{"a.jpg", "b\nc.jpg"}));
  EXPECT_EQ(labels_of(alone), (LabelList{-1, -1}));
}

TEST(List, CsvNumbersStayNumbers) {
  // As a table with a missing number is often written.
  std::string text = "path,label\n";
  for (int i = 0; i < 12; ++i) text += fmt::format("{}.jpg,{}.0\n", i, i);
  const Dataset dataset = parse_csv("l.csv", text + "12.jpg,\n");
  EXPECT_EQ(labels_of(dataset), (LabelList{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -1}));
  EXPECT_TRUE(dataset.class_names().empty());
}

TEST(List, CsvMayHaveSpacesBehindCommas) {
  std::string text;
  for (int i = 0; i < 12; ++i) text += fmt::format("{}.jpg, {} \r\n", i, i);
  for (const char* header : {"", "path, label\n", " \"path\",\t\"label\"\n"}) {
    const Dataset dataset = parse_csv("l.csv", header + text + "12.jpg, \n13.jpg, -1\n");
    EXPECT_EQ(labels_of(dataset), (LabelList{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -1, -1}));
    EXPECT_TRUE(dataset.class_names().empty());
  }
  EXPECT_EQ(parse_csv("l.csv", "a.jpg, \"x, y\"\nb.jpg,cat\nc.jpg, cat\n").class_names(),
            (Names{"cat", "x, y"}));
  EXPECT_EQ(names_of(parse_csv("l.csv", "path,label\n a.jpg,1\n")), (Names{" a.jpg"}));
}

TEST(List, CsvSaysHowDigitsAreNames) {
  for (const char* text : {"a.jpg,\"7\"\nb.jpg,x\n", "a.jpg,x\nb.jpg,7\n"}) {
    EXPECT_TRUE(says(error_of<FormatError>([&] { parse_csv("l.csv", text); }),
                     "; for names that are digits, write the list as .jsonl with texts, such as "
                     "\"label\": \"7\""));
  }
  EXPECT_EQ(parse_json_lines("l.jsonl",
                             "{\"path\": \"a\", \"label\": \"x\"}\n"
                             "{\"path\": \"b\", \"label\": \"7\"}\n")
                .class_names(),
            (Names{"7", "x"}));
}

TEST(List, CsvTakesNoUnknownHeaderForAPicture) {
  const auto error = [](std::string_view text) {
    return error_of<FormatError>([&] { parse_csv("l.csv", text); });
  };
  EXPECT_TRUE(says(error("filename,class\na.jpg,1\n"),
                   "l.csv:1: expected a header with a column \"path\", or the path of a picture; "
                   "got \"filename\""));
  EXPECT_TRUE(says(error("image\na.jpg\n"), "got \"image\""));
  for (const char* header : {"path,class\n", "class, path\n"}) {
    EXPECT_TRUE(says(error(header),
                     "l.csv:1: expected a column \"label\" beside \"path\", or "
                     "\"path\" alone; got \"class\""));
  }
  const TestFolder folder;
  folder.write("0001", "a picture without an ending");
  EXPECT_EQ(labels_of(open_dataset(folder.write("l.csv", "0001,5\n"))), (LabelList{5}));
}

TEST(List, JsonLinesHaveLabelsAndBoxes) {
  const Dataset dataset =
      parse_json_lines("d/l.jsonl",
                       "{\"path\": \"a.jpg\", \"label\": \"dog\", \"more\": [{}]}\n\n"
                       "{\"path\": \"b.jpg\", \"label\": null, \"boxes\": [[1, 2.5, 3, 4, "
                       "\"cat\"], [0, 0, 9, 9]]}\r\n"
                       "{\"path\": \"c.jpg\", \"boxes\": []}");
  EXPECT_EQ(dataset.class_names(), (Names{"cat", "dog"}));
  EXPECT_EQ(labels_of(dataset), (LabelList{1, -1, -1}));
  EXPECT_TRUE(dataset.annotations(0).empty());
  ASSERT_EQ(dataset.annotations(1).size(), 2);
  const Annotation& box = dataset.annotations(1)[0];
  EXPECT_EQ(box.x0, 1);
  EXPECT_EQ(box.y0, 2.5);
  EXPECT_EQ(box.x1, 3);
  EXPECT_EQ(box.y1, 4);
  EXPECT_EQ(box.label, 0);
  EXPECT_EQ(dataset.annotations(1)[1].label, -1);
  EXPECT_TRUE(dataset.annotations(2).empty());
  EXPECT_EQ(dataset.path(2), "d/c.jpg");
  const Dataset numbers =
      parse_json_lines("l.jsonl", "{\"path\": \"a\", \"label\": 5}\n{\"path\": \"b\"}");
  EXPECT_EQ(labels_of(numbers), (LabelList{5, -1}));
}

TEST(List, CsvErrorsNameTheLine) {
  const auto error = [](std::string_view text) {
    return error_of<FormatError>([&] { parse_csv("l.csv", text); });
  };
  EXPECT_TRUE(says(error("path,label\na,b\n\nc\n"), "l.csv:4: expected 2 fields, got 1"));
  EXPECT_TRUE(says(error("a.jpg,1\n\"x\ny\",2\n,3"), "l.csv:4: expected a path"));
  EXPECT_TRUE(says(error("a.jpg,1\n\"x,2\n"), "l.csv:2: a quote is not closed"));
  EXPECT_TRUE(says(error("\"x\"y,2\n"), "l.csv:1: expected a comma behind the closing quote"));
  EXPECT_TRUE(says(error("image,label\na,b"), "l.csv:1: the header has a column \"label\""));
  EXPECT_TRUE(says(error("a.jpg,7\nb.jpg,x\n"),
                   "l.csv:2: expected all labels to be names, or all to be numbers; those before "
                   "\"x\" are numbers"));
  EXPECT_TRUE(says(error("a.jpg,x\nb.jpg,7\n"), "those before \"7\" are names"));
  EXPECT_TRUE(says(error("a.jpg,-2\n"), "l.csv:1: expected a label of at least 0, got -2"));
  EXPECT_TRUE(says(error("a,b,c\n"), "l.csv:1: expected a header with a column \"path\""));
  EXPECT_TRUE(says(error(""), "l.csv: the list names no pictures"));
  EXPECT_TRUE(says(error("path,label\n"), "l.csv: the list names no pictures"));
  EXPECT_TRUE(says(error(std::string(5000, 'x')), "l.csv:1: the path is too long"));
  EXPECT_TRUE(says(error(std::string_view("a\0b", 3)), "l.csv:1: the path is too long, or has a"));
  EXPECT_TRUE(says(error(std::string(2000, ',')), "l.csv:1: more than 1000 fields"));
}

TEST(List, JsonErrorsNameTheLine) {
  const auto error = [](std::string_view text) {
    return error_of<FormatError>([&] { parse_json_lines("l.jsonl", text); });
  };
  for (const char* line : {"[]", "{", "7", "{\"path\": \"a\"} x", "\xFF"}) {
    EXPECT_TRUE(says(error(std::string("{\"path\": \"a\"}\n") + line),
                     "l.jsonl:2: expected a JSON object"));
  }
  EXPECT_TRUE(says(error("{\"label\": 1}"), "l.jsonl:1: expected a \"path\" that is a text"));
  EXPECT_TRUE(says(error("{\"path\": \"\"}"), "l.jsonl:1: expected a path"));
  for (const char* label : {"true", "1.5", "18446744073709551615", "[]"}) {
    EXPECT_TRUE(says(error(fmt::format("{{\"path\": \"a\", \"label\": {}}}", label)),
                     "l.jsonl:1: expected a label that is a whole number or a name"));
  }
  EXPECT_TRUE(says(error("{\"path\": \"a\", \"label\": -2}"), "expected a label of at least 0"));
  EXPECT_TRUE(says(error("{\"path\": \"a\", \"label\": 1}\n{\"path\": \"b\", \"label\": \"x\"}"),
                   "l.jsonl:2: expected all labels to be names, or all to be numbers"));
  EXPECT_TRUE(
      says(error("{\"path\": \"a\", \"boxes\": {}}"), "expected \"boxes\" that are a list"));
  for (const char* box :
       {"[1, 2, 3]", "[1, 2, 3, \"4\"]", "[1, 2, 3, 1e300]", "7", "[1, 2, 3, 4, 5, 6]"}) {
    EXPECT_TRUE(says(error(fmt::format("{{\"path\": \"a\", \"boxes\": [{}]}}", box)),
                     "l.jsonl:1: expected boxes of [x0, y0, x1, y1, label]"));
  }
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_TRUE(says(error(deep), "l.jsonl:1: expected a JSON object"));
  EXPECT_TRUE(
      says(error("\n" + std::string((16 << 20) + 1, ' ') + "{}"), "l.jsonl:2: the line has"));
}

}  // namespace
}  // namespace stretto::data
