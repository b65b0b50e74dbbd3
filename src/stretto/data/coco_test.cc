#include "stretto/data/coco.h"

#include <gtest/gtest.h>

#include "stretto/data/data_testing.h"

namespace stretto::data {
namespace {

constexpr std::string_view kInstances = R"({
  "info": {"images": [{"id": 99, "file_name": "no.jpg"}], "deep": [[{"id": 5}]]},
  "images": [{"license": 3, "id": 20, "file_name": "b.jpg", "name": "kitchen", "height": 5, "x": {"id": 1}},
             {"name": "hall", "file_name": "a.jpg", "id": 10}],
  "annotations": [
    {"segmentation": [[1.5, 2, 3, 4]], "iscrowd": 0, "bbox": [1, 2.5, 3, 4], "image_id": 20,
     "category_id": 90, "id": 1},
    {"bbox": [0, 0, 7, 8], "image_id": 20, "category_id": 3},
    {"segmentation": {"counts": [1, 2], "size": [3, 4]}, "iscrowd": 1, "image_id": 10,
     "bbox": [0, 0, 1, 1], "category_id": 3}],
  "categories": [{"id": 90, "name": "toothbrush"}, {"id": 3, "name": "car", "file_name": "x"}]})";

TEST(Coco, InstancesBecomeAnnotationsInTheOrderOfIds) {
  const TestFolder folder;
  const std::string source = folder.write("annotations/instances_val.json", kInstances);
  folder.write("images/val/a.jpg", "x");
  const Dataset dataset = open_dataset(source);
  EXPECT_EQ(dataset.kind(), "coco");
  EXPECT_EQ(dataset.class_names(), (Names{"car", "toothbrush"}));
  EXPECT_EQ(names_of(dataset), (Names{"a.jpg", "b.jpg"}));
  EXPECT_EQ(labels_of(dataset), (LabelList{-1, -1}));
  EXPECT_EQ(dataset.path(1), folder.path("images/val/b.jpg"));
  EXPECT_TRUE(dataset.annotations(0).empty());  // a crowd
  const auto boxes = dataset.annotations(1);
  ASSERT_EQ(boxes.size(), 2);
  EXPECT_EQ(boxes[0].x0, 1);
  EXPECT_EQ(boxes[0].y0, 2.5);
  EXPECT_EQ(boxes[0].x1, 4);
  EXPECT_EQ(boxes[0].y1, 6.5);
  EXPECT_EQ(boxes[0].label, 1);
  EXPECT_EQ(boxes[1].label, 0);
}

TEST(Coco, PicturesAreWhereTheFirstOneIs) {
  for (const char* place : {"annotations/", "annotations/val/", "annotations/images/val/",
                            "annotations/images/", "", "val/", "images/val/", "images/"}) {
    const TestFolder folder;
    const std::string source = folder.write("annotations/instances_val.json", kInstances);
    folder.write(fmt::format("{}a.jpg", place), "x");
    EXPECT_EQ(open_coco(source).path(0), folder.path(fmt::format("{}a.jpg", place)));
  }
  const TestFolder folder;
  const std::string source = folder.write("annotations/instances_val.json", kInstances);
  const std::string error = error_of<FormatError>([&] { open_coco(source); });
  EXPECT_TRUE(says(error, source + ": its first picture, a.jpg, is in none of\n"));
  EXPECT_TRUE(says(error, "\n  " + folder.path("images/val")));
}

TEST(Coco, ErrorsNameTheElement) {
  const auto error = [](std::string_view text) {
    return error_of<FormatError>([&] { parse_coco("i.json", text, "."); });
  };
  EXPECT_TRUE(says(error("{\"images\": [1, ]}"), "i.json (byte "));
  EXPECT_TRUE(says(error("{} x"), "expected JSON"));
  EXPECT_TRUE(says(error(""), "expected JSON"));
  for (const char* text : {"{}", "[]", "7", "{\"images\": {\"id\": 1, \"file_name\": \"a\"}}",
                           "{\"images\": [[{\"id\": 1, \"file_name\": \"a\"}]]}"}) {
    EXPECT_TRUE(says(error(text), "i.json: expected the instances of COCO"));
  }
  EXPECT_TRUE(says(error(R"({"images": [{"id": 1, "file_name": "a"}, {"id": 2}]})"),
                   "element 1 of \"images\": expected a whole number \"id\" and a \"file_name\""));
  EXPECT_TRUE(says(error(R"({"images": [{"id": 1.5, "file_name": "a"}]})"), "element 0 of"));
  EXPECT_TRUE(
      says(error(R"({"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}]})"),
           "two images have the id 1"));
  const std::string images = R"({"images": [{"id": 1, "file_name": "a"}], )";
  EXPECT_TRUE(says(error(images + R"("categories": [{"id": 1}]})"), "element 0 of \"categories\""));
  EXPECT_TRUE(
      says(error(images + R"("categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]})"),
           "element 1 of \"categories\": expected an \"id\" of its own"));
  for (const char* box : {"[1, 2, 3]", "[1, 2, 3, 4, 5]", "[1, 2, 3, null]", "[[1, 2, 3, 4]]"}) {
    EXPECT_TRUE(
        says(error(images + fmt::format(R"("annotations": [{{"image_id": 1, "category_id": 1,
                                                 "bbox": {}}}]}})",
                                        box)),
             "element 0 of \"annotations\""));
  }
  EXPECT_TRUE(says(error(images + R"("categories": [{"id": 1, "name": "a"}], "annotations":
                                    [{"image_id": 2, "category_id": 1, "bbox": [1, 2, 3, 4]}]})"),
                   "an annotation is of image 2 and category 1, which are not both listed"));
}

}  // namespace
}  // namespace stretto::data
