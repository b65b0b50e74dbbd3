// Outlines and label maps: what is kept of them, and which pixels they are.
#include "stretto/data/label_map.h"

#include <sstream>

#include "stretto/data/coco.h"
#include "stretto/data/data_testing.h"
#include "stretto/data/outline.h"

namespace stretto::data {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// tests/media/outlines.txt: polygons and what pycocotools finds in them.
struct GoldenOutline {
  int64_t width, height;
  std::vector<double> polygon;
  std::string runs;
};

std::vector<GoldenOutline> golden_outlines() {
  std::istringstream text(read_file(STRETTO_CORPUS "/../media/outlines.txt"));
  std::vector<GoldenOutline> all;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    GoldenOutline golden;
    std::string numbers;
    words >> golden.width >> golden.height >> numbers >> golden.runs;
    std::istringstream list(numbers);
    for (std::string number; std::getline(list, number, ',');) {
      golden.polygon.push_back(std::stod(number));
    }
    all.push_back(std::move(golden));
  }
  return all;
}

TEST(LabelMap, PolygonsHaveThePixelsThatPycocotoolsFinds) {
  const auto all = golden_outlines();
  ASSERT_EQ(all.size(), 80);
  for (const GoldenOutline& golden : all) {
    SCOPED_TRACE(golden.runs);
    std::vector<int64_t> want;
    int64_t at = 0;
    const auto runs = runs_of_text(golden.runs);
    for (size_t i = 0; i + 1 < runs.size(); ++i) want.push_back(at += runs[i]);
    EXPECT_EQ(polygon_changes(golden.polygon, golden.width, golden.height), want);
    // The same as runs, in a map.
    const Annotation box{.x1 = 1, .y1 = 1, .label = 6};
    std::vector<uint8_t> by_polygon, by_runs;
    paint_label_map({.outlines = {{.box = 0, .polygons = {golden.polygon}}}}, {&box, 1},
                    golden.width, golden.height, 1 << 20, by_polygon);
    paint_label_map(
        {.outlines = {{.box = 0, .runs = runs, .width = golden.width, .height = golden.height}}},
        {&box, 1}, golden.width, golden.height, 1 << 20, by_runs);
    EXPECT_EQ(by_polygon, by_runs);
  }
}

TEST(LabelMap, SmallThingsLieOnLargeOnesAndCrowdsBelow) {
  const Annotation boxes[] = {{.label = 0}, {.label = 1}};
  const std::vector<double> large{0, 0, 6, 0, 6, 4, 0, 4}, small{0, 0, 2, 0, 2, 2, 0, 2};
  std::vector<uint8_t> map;
  paint_label_map({.outlines = {{.box = 1, .polygons = {small}},
                                {.box = 0, .polygons = {large}},
                                {.box = -1, .runs = {16, 16}, .width = 8, .height = 4}}},
                  boxes, 8, 4, 1 << 20, map);
  const std::vector<uint8_t> want{2, 2, 1, 1, 1, 1, 255, 255, 2, 2, 1, 1, 1, 1, 255, 255,
                                  1, 1, 1, 1, 1, 1, 255, 255, 1, 1, 1, 1, 1, 1, 255, 255};
  EXPECT_EQ(map, want);
}

TEST(LabelMap, WhatDoesNotFitIsNamed) {
  const Annotation boxes[] = {{.label = 254}, {.label = 3}, {.label = INT64_MAX}};
  const auto error = [&](const Outline& outline) {
    std::vector<uint8_t> map;
    try {
      paint_label_map({.outlines = {outline}}, boxes, 8, 4, 1 << 20, map);
    } catch (const FormatError& e) {
      return std::string(e.what());
    } catch (const Unsupported& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_TRUE(says(error({.box = 0, .polygons = {{0, 0, 1, 0, 1, 1}}}), "class 254 does not fit"));
  EXPECT_TRUE(says(error({.box = 2, .polygons = {{0, 0, 1, 0, 1, 1}}}), "does not fit"));
  EXPECT_TRUE(says(error({.box = 3}), "an outline is of no box"));
  EXPECT_TRUE(says(error({.box = 1, .polygons = {{0, 0, 1, 0, 1, 1, 3}}}), "an x without a y"));
  EXPECT_TRUE(says(error({.box = 1, .polygons = {{0, 0, 1e9, 0, 1, 1}}}), "far from its picture"));
  EXPECT_TRUE(says(error({.box = 1, .runs = {4, 4}, .width = 4, .height = 8}), "of 4x8 pixels"));
  EXPECT_TRUE(says(error({.box = 1, .runs = {4, 4}, .width = 8, .height = 4}), "are shorter"));
  EXPECT_TRUE(says(error({.box = 1, .runs = {4, 40}, .width = 8, .height = 4}), "are longer"));
  std::vector<double> zigzag;
  for (int i = 0; i < 1000; ++i) zigzag.insert(zigzag.end(), {i % 2 * 9e5, 0.0});
  EXPECT_TRUE(says(error({.box = 1, .polygons = {zigzag}}), "too long"));
}

// Each of these is possible, and so many of them are not: time and memory are bounded by the
// picture.
TEST(LabelMap, ManyOutlinesAreBoundedByThePicture) {
  const Annotation box{.label = 3};
  std::vector<uint8_t> map;
  const auto paint = [&](const Outline& outline, size_t count) {
    paint_label_map({.outlines = std::vector<Outline>(count, outline)}, {&box, 1}, 64, 48, 1 << 20,
                    map);
  };
  const auto error = [&](const Outline& outline, size_t count) {
    return error_of<FormatError>([&] { paint(outline, count); });
  };
  std::vector<double> zigzag;
  for (int i = 0; i < 60; ++i) zigzag.insert(zigzag.end(), {i % 2 * 64.0, i * 0.8});
  const Outline walked{.box = 0, .polygons = {zigzag}};
  EXPECT_NO_THROW(paint(walked, 20));
  EXPECT_TRUE(says(error(walked, 60), "too long"));
  Outline parts{.box = 0, .polygons = std::vector<std::vector<double>>(60, zigzag)};
  EXPECT_TRUE(says(error(parts, 1), "too long"));
  const Outline everything{.box = 0, .runs = {0, 64 * 48}, .width = 64, .height = 48};
  EXPECT_NO_THROW(paint(everything, 256));
  EXPECT_TRUE(says(error(everything, 257), "too many times"));
}

TEST(LabelMap, BoxesWithoutAnOutlineAreIgnored) {
  const Annotation boxes[] = {{.x0 = 0, .y0 = 0, .x1 = 2, .y1 = 2, .label = 0},
                              {.x0 = 1, .y0 = 0, .x1 = 4, .y1 = 1, .label = 1},
                              {.x0 = -9, .y0 = 1.75, .x1 = 0.75, .y1 = 99, .label = 1}};
  std::vector<uint8_t> map;
  // That of the third has no pixels.
  paint_label_map({.outlines = {{.box = 0, .polygons = {{0, 0, 2, 0, 2, 2, 0, 2}}},
                                {.box = 2, .polygons = {{1, 2, 3, 4}}}}},
                  boxes, 4, 3, 1 << 20, map);
  EXPECT_EQ(map, (std::vector<uint8_t>{1, 1, 255, 255, 1, 1, 0, 0, 255, 0, 0, 0}));
}

TEST(Details, MoreThanAnyPictureHasAreRefused) {
  // A crowd without a polygon takes three bytes here and much more in memory.
  std::vector<std::byte> bytes = bytes_of(std::string_view("\x02\x80\x80\x08", 4));  // 2^17
  bytes.resize(4 + 3 * (1 << 17));
  EXPECT_TRUE(says(error_of<FormatError>([&] { decode_details(bytes); }), "at most 65536"));
  bytes =
      bytes_of(std::string_view("\x02\x01\x00\x00\x80\x80\x08", 7));  // polygons without corners
  bytes.resize(7 + (1 << 17));
  EXPECT_TRUE(says(error_of<FormatError>([&] { decode_details(bytes); }), "at most 65536"));
  // Runs behind the limit of outlines: 2^24.
  bytes = bytes_of(std::string_view("\x02\x01\x00\x02\x01\x01\x80\x80\x80\x08", 10));
  bytes.resize(10 + (1 << 24));
  EXPECT_TRUE(says(error_of<FormatError>([&] { decode_details(bytes); }), "as many elements"));
}

TEST(Details, TheNumberIsReadWithoutTheRest) {
  Details details{.image_id = INT64_MIN};
  details.outlines.resize(3);
  const auto bytes = encode_details(details);
  EXPECT_EQ(decode_image_id(media::Bytes(bytes).first(kLongestId)), INT64_MIN);
  details.image_id.reset();
  EXPECT_EQ(decode_image_id(encode_details(details)), std::nullopt);
  EXPECT_EQ(decode_image_id({}), std::nullopt);
}

TEST(Details, AreReadAsTheyWereWritten) {
  Details details{.image_id = -7};
  details.outlines.push_back({.box = 0, .polygons = {{1.25, 2, -3.07, 400.1, 0, 0}, {}}});
  details.outlines.push_back({.box = 300, .polygons = {{1.0 / 3, 1e17, 2, 3}}});
  details.outlines.push_back({.box = -1, .runs = {0, 5, 70000}, .width = 9, .height = 12345});
  const std::vector<std::byte> mask = bytes_of("a file");
  details.mask = mask;
  const auto bytes = encode_details(details);
  const Details read = decode_details(bytes);
  EXPECT_EQ(read.image_id, -7);
  ASSERT_EQ(read.outlines.size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.outlines[i].box, details.outlines[i].box);
    EXPECT_EQ(read.outlines[i].polygons, details.outlines[i].polygons);
    EXPECT_EQ(read.outlines[i].runs, details.outlines[i].runs);
    EXPECT_EQ(read.outlines[i].width, details.outlines[i].width);
    EXPECT_EQ(read.outlines[i].height, details.outlines[i].height);
  }
  EXPECT_TRUE(std::equal(read.mask.begin(), read.mask.end(), mask.begin(), mask.end()));
  EXPECT_TRUE(encode_details({}).empty());
  EXPECT_TRUE(decode_details({}).outlines.empty());
  // Cut short anywhere before the mask, which has no length.
  for (size_t size = 1; size + mask.size() < bytes.size(); ++size) {
    EXPECT_THROW(decode_details(media::Bytes(bytes).first(size)), FormatError) << size;
  }
  for (const char* text : {"\x08", "\x04", "\x01", "\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                           "\x02\x01\x01\x03\x01\x01", "\x01\x02\x03"}) {
    EXPECT_THROW(decode_details(bytes_of(text)), FormatError);
  }
}

TEST(Details, RunsOfTextThatAreNoneAreRefused) {
  for (const char* text : {" ", "P", "PPPPPPPPPPPPPPP0", "0O", "\x7f"}) {
    EXPECT_THROW(runs_of_text(text), FormatError) << text;
  }
  EXPECT_TRUE(runs_of_text("").empty());
}

TEST(Coco, OutlinesCrowdsAndIdsAreKept) {
  const Dataset dataset = parse_coco("i.json", R"({
    "images": [{"id": 20, "file_name": "b.jpg"}, {"id": 10, "file_name": "a.jpg"}],
    "annotations": [
      {"segmentation": [[1.5, 2, 3, 4, 5.25, 6], [0, 0, 1, 0, 1, 1]], "bbox": [1, 2.5, 3, 4],
       "image_id": 20, "category_id": 9},
      {"segmentation": {"size": [3, 4], "counts": [5, 7]}, "iscrowd": 1, "image_id": 20},
      {"segmentation": {"counts": "52203", "size": [3, 4]}, "image_id": 20, "category_id": 9,
       "bbox": [0, 0, 1, 1]},
      {"bbox": [0, 0, 1, 1], "image_id": 10, "category_id": 9}],
    "categories": [{"id": 9, "name": "car"}]})",
                                     ".");
  EXPECT_TRUE(dataset.has_details());
  EXPECT_EQ(decode_details(dataset.details(0)).image_id, 10);
  EXPECT_EQ(dataset.annotations(1).size(), 2);
  const Details details = decode_details(dataset.details(1));
  EXPECT_EQ(details.image_id, 20);
  ASSERT_EQ(details.outlines.size(), 3);
  EXPECT_EQ(details.outlines[0].box, 0);
  EXPECT_EQ(details.outlines[0].polygons,
            (std::vector<std::vector<double>>{{1.5, 2, 3, 4, 5.25, 6}, {0, 0, 1, 0, 1, 1}}));
  EXPECT_EQ(details.outlines[1].box, -1);
  EXPECT_EQ(details.outlines[1].runs, (std::vector<uint32_t>{5, 7}));
  EXPECT_EQ(details.outlines[1].width, 4);
  EXPECT_EQ(details.outlines[1].height, 3);
  EXPECT_EQ(details.outlines[2].box, 1);
  EXPECT_EQ(details.outlines[2].runs, (std::vector<uint32_t>{5, 2, 2, 2, 5}));
  const auto error = [](std::string_view counts) {
    return error_of<FormatError>([&] {
      parse_coco(
          "i.json",
          fmt::format(R"({{"annotations": [{{"segmentation": {{"counts": {}}}}}]}})", counts), ".");
    });
  };
  EXPECT_TRUE(says(error("[1, -2]"), "element 0 of \"annotations\""));
  EXPECT_TRUE(says(error("\" \""), "COCO's compressed runs"));
}

}  // namespace
}  // namespace stretto::data
