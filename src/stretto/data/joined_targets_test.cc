// Boxes and label maps of sources that are joined, and what folders hold.
#include "stretto/data/loader_testing.h"
#include "stretto/data/pack.h"

namespace stretto::data {
namespace {

namespace fs = std::filesystem;

// Of one pixel, whose class is 0 or 1.
std::string map_of(int value) {
  const std::string rows = value == 0 ? std::string("\x78\x9c\x63\x60\0\0\0\2\0\1", 10)
                                      : std::string("\x78\x9c\x63\x60\4\0\0\3\0\2", 10);
  const std::string sum =
      value == 0 ? std::string("\x48\xaf\xa4\x71", 4) : std::string("\x4b\xf5\xdd\xea", 4);
  return std::string(
             "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3a\x7e\x9b\x55"
             "\0\0\0\x0aIDAT",
             41) +
         rows + sum + std::string("\0\0\0\0IEND\xae\x42\x60\x82", 12);
}

std::string coco_file(const TestFolder& folder, int first) {
  folder.write("a.png", tiny_png());
  folder.write("b.png", tiny_png());
  return folder.write("instances_x.json", fmt::format(R"({{
    "images": [{{"id": {}, "file_name": "a.png"}}, {{"id": {}, "file_name": "b.png"}}],
    "annotations": [{{"image_id": {}, "category_id": 0, "bbox": [0, 0, 1, 1],
                      "segmentation": [[0, 0, 1, 0, 1, 1, 0, 1]]}}],
    "categories": [{{"id": 0, "name": "thing"}}]}})",
                                                      first, first + 1, first));
}

std::vector<int64_t> ids_of(const Dataset& dataset) {
  LoaderOptions o = small_options();
  o.train = false;
  o.boxes = true;
  o.order.kind = OrderKind::kSequential;
  o.phases[0].shape = {.height = 4, .width = 4, .batch = 1};
  Loader loader(dataset, o);
  std::vector<int64_t> ids;
  while (const auto batch = loader.next()) ids.push_back(batch->image_ids[0]);
  return ids;
}

TEST(JoinedTargets, NumbersOfPicturesDoNotMeet) {
  const TestFolder a, b, out;
  const Dataset first = open_dataset(coco_file(a, 1)), second = open_dataset(coco_file(b, 1));
  EXPECT_EQ(ids_of(first), (std::vector<int64_t>{1, 2}));
  const Dataset both = concat(std::vector{first, second});
  EXPECT_EQ(ids_of(both), (std::vector<int64_t>{0, 1, 2, 3}));
  pack(both, out.path("pack"));
  EXPECT_EQ(ids_of(open_dataset(out.path("pack"))), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(verify_pack(out.path("pack")).damaged.empty());
  pack(first, out.path("one"));
  EXPECT_EQ(ids_of(open_dataset(out.path("one"))), (std::vector<int64_t>{1, 2}));
}

// images/a.png and images/a.webp have one name of their maps.
TEST(JoinedTargets, MapsOfOneNameAreNotUnpacked) {
  const TestFolder a, b, out;
  a.write("images/a.png", tiny_png());
  a.write("masks/a.png", map_of(0));
  b.write("images/a.webp", tiny_webp());
  for (const int value : {0, 1}) {
    b.write("masks/a.png", map_of(value));
    const std::string packed = out.path(fmt::format("pack{}", value));
    pack(concat(std::vector{open_dataset(a.path()), open_dataset(b.path())}), packed);
    const std::string to = out.path(fmt::format("to{}", value));
    if (value == 0) {
      EXPECT_EQ(unpack(packed, to).files, 3);
      continue;
    }
    EXPECT_TRUE(says(error_of<InvalidArgument>([&] { unpack(packed, to); }),
                     "the label map of sample images/a.webp is called \"masks/a.png\""));
    EXPECT_FALSE(fs::exists(to));
  }
}

TEST(JoinedTargets, FoldersBesideMasksAreClasses) {
  const TestFolder folder;
  for (const char* name : {"images/a.png", "masks/a.png"}) folder.write(name, tiny_png());
  fs::create_directory(folder.path("notes"));
  EXPECT_EQ(open_dataset(folder.path()).kind(), "segmentation");
  folder.write("other/deep/a.png", tiny_png());
  EXPECT_EQ(open_dataset(folder.path()).kind(), "folder");
  EXPECT_EQ(open_dataset(folder.path()).class_names(),
            (Names{"images", "masks", "notes", "other"}));
  EXPECT_EQ(open_dataset(folder.path(), "segmentation").size(), 1);
}

// As when a disk is not mounted.
TEST(JoinedTargets, AnOutageOfMapsLeavesNothingOut) {
  const TestFolder folder, out;
  for (const char* name : {"a", "b"}) {
    folder.write(fmt::format("images/{}.png", name), tiny_png());
    folder.write(fmt::format("masks/{}.png", name), map_of(0));
  }
  const Dataset dataset = open_dataset(folder.path());
  fs::rename(folder.path("masks"), folder.path("away"));
  PackOptions skip;
  skip.skip_bad = true;
  EXPECT_TRUE(says(error_of<FormatError>([&] { pack(dataset, out.path("pack"), skip); }),
                   folder.path("masks/")));
  fs::rename(folder.path("away"), folder.path("masks"));
  fs::remove(folder.path("masks/b.png"));  // alone, it is the sample's fault
  EXPECT_EQ(pack(dataset, out.path("pack"), skip).left_out.size(), 1);
}

}  // namespace
}  // namespace stretto::data
