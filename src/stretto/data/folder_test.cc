#include "stretto/data/folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "stretto/base/log.h"
#include "stretto/data/data_testing.h"
#include "stretto/data/index.h"

namespace stretto::data {
namespace {

TEST(Folder, SortedFoldersAreClasses) {
  const TestFolder folder;
  for (const char* name : {"dog/2.jpg", "dog/10.jpg", "cat/b.PNG", "cat/a.WebP", "Zebra/x.JpEg",
                           "cat/notes.txt", "cat/.hidden.jpg", ".git/a.jpg", "dog/._2.jpg",
                           "labels.csv", "cat/nothing", "cat/b.jpg.old"}) {
    folder.write(name, "x");
  }
  std::filesystem::create_directory(folder.path("empty"));
  std::filesystem::create_directory(folder.path("cat/folder.jpg"));
  const Dataset dataset = open_dataset(folder.path());
  EXPECT_EQ(dataset.kind(), "folder");
  EXPECT_EQ(dataset.source(), folder.path());
  EXPECT_EQ(dataset.class_names(), (Names{"Zebra", "cat", "dog", "empty"}));
  EXPECT_EQ(names_of(dataset),
            (Names{"Zebra/x.JpEg", "cat/a.WebP", "cat/b.PNG", "dog/10.jpg", "dog/2.jpg"}));
  EXPECT_EQ(labels_of(dataset), (LabelList{0, 1, 1, 2, 2}));
  EXPECT_TRUE(dataset.one_file_each());
  EXPECT_EQ(dataset.path(3), folder.path("dog/10.jpg"));
  EXPECT_EQ(dataset.sample(3).length, 0);
  EXPECT_TRUE(dataset.annotations(3).empty());
}

TEST(Folder, NestedFoldersComeInTheOrderOfTheirPaths) {
  const TestFolder folder;
  for (const char* name : {"a/z.jpg", "a/b/y.jpg", "a/b-c/x.jpg", "a/b/d/w.jpg", "a/A.jpg"}) {
    folder.write(name, "x");
  }
  EXPECT_EQ(names_of(open_folder(folder.path())),
            (Names{"a/A.jpg", "a/z.jpg", "a/b/y.jpg", "a/b-c/x.jpg", "a/b/d/w.jpg"}));
}

TEST(Folder, WithoutSubFoldersHasNoLabels) {
  const TestFolder folder;
  folder.write("b.jpg", "x");
  folder.write("a.png", "x");
  std::filesystem::create_directory(folder.path("thumbnails"));
  const Dataset dataset = open_folder(folder.path());
  EXPECT_EQ(names_of(dataset), (Names{"a.png", "b.jpg"}));
  EXPECT_EQ(labels_of(dataset), (LabelList{-1, -1}));
  EXPECT_TRUE(dataset.class_names().empty());
}

TEST(Folder, SaysThatPicturesBesideClassesAreLeftOut) {
  const TestFolder folder;
  folder.write("a/1.jpg", "x");
  folder.write("logo.png", "x");
  std::string said;
  const LogCallback before = set_log([&](LogLevel, std::string_view text) { said += text; });
  const Dataset dataset = open_folder(folder.path());
  set_log(before);
  EXPECT_EQ(names_of(dataset), (Names{"a/1.jpg"}));
  EXPECT_TRUE(says(said, "1 pictures beside the folders"));
}

TEST(Folder, FollowsLinksButNotInCircles) {
  const TestFolder folder, elsewhere;
  elsewhere.write("far.jpg", "x");
  folder.write("a/1.jpg", "x");
  std::filesystem::create_directory_symlink(folder.path("a"), folder.path("a/again"));
  std::filesystem::create_directory_symlink(folder.path(), folder.path("a/top"));
  std::filesystem::create_directory_symlink(elsewhere.path(), folder.path("b"));
  std::filesystem::create_symlink(folder.path("a/1.jpg"), folder.path("b/link.jpg"));
  std::filesystem::create_symlink("nowhere", folder.path("b/dangling.png"));
  EXPECT_EQ(names_of(open_folder(folder.path())),
            (Names{"a/1.jpg", "b/dangling.png", "b/far.jpg", "b/link.jpg"}));
}

TEST(Folder, ErrorsNameTheFolder) {
  const TestFolder folder;
  EXPECT_TRUE(says(error_of<FormatError>([&] { open_dataset(folder.path()); }),
                   folder.path() + ": the folder has no pictures"));
  EXPECT_TRUE(says(error_of<FormatError>([&] { open_dataset(folder.path("missing")); }),
                   folder.path("missing") + ": cannot open: No such file"));
  EXPECT_TRUE(says(error_of<FormatError>([&] { open_folder(folder.path("missing")); }),
                   folder.path("missing") + ": cannot read the folder: No such file"));
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { open_dataset(folder.path(), "lmdb"); }),
                   "no kind of dataset \"lmdb\"; expected one of\n"));
  const std::string file = folder.write("a/picture.txt", "x");
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { open_dataset(file); }),
                   file + ": not a dataset; expected one of\n"));
  std::string deep = "a";
  for (int i = 0; i < 101; ++i) deep += "/d";
  folder.write(deep + "/1.jpg", "x");
  EXPECT_TRUE(says(error_of<FormatError>([&] { open_folder(folder.path()); }),
                   "more than 100 folders in each other"));
}

TEST(Dataset, ChecksTheIndexOfASample) {
  const TestFolder folder;
  folder.write("1.jpg", "x");
  const Dataset dataset = open_folder(folder.path());
  for (const int64_t index : {int64_t{-1}, int64_t{1}, INT64_MAX, INT64_MIN}) {
    EXPECT_THROW(dataset.sample(index), InvalidArgument);
    EXPECT_THROW(dataset.name(index), InvalidArgument);
    EXPECT_THROW(dataset.path(index), InvalidArgument);
    EXPECT_THROW(dataset.annotations(index), InvalidArgument);
  }
  EXPECT_THROW(dataset.container_path(0), InvalidArgument);
}

TEST(Dataset, LabelsAndBoxesThatCannotBeAreErrors) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const bool names : {false, true}) {
    TableBuilder builder;
    for (const int64_t label : {int64_t{-1}, int64_t{1}, int64_t{-2}, int64_t{1'000'000}}) {
      const Annotation boxes[] = {{.label = label}};
      builder.add("x.jpg", {.label = label}, boxes);
    }
    const Annotation endless[] = {{.x1 = inf, .label = 0}};
    builder.add("x.jpg", {}, endless);
    builder.table().source = builder.table().one_file_each_below = "d";
    if (names) builder.table().class_names = {"a", "b"};
    const Dataset dataset(std::move(builder).take());
    EXPECT_EQ(dataset.sample(0).label, -1);
    EXPECT_EQ(dataset.sample(1).label, 1);
    EXPECT_EQ(dataset.annotations(1)[0].label, 1);
    EXPECT_EQ(error_of<FormatError>([&] { dataset.sample(2); }),
              "d: its index is damaged: the label of sample 2");
    EXPECT_THROW(dataset.annotations(2), FormatError);
    EXPECT_TRUE(says(error_of<FormatError>([&] { dataset.annotations(4); }),
                     "its index is damaged: an annotation of sample 4"));
    if (names) {
      EXPECT_THROW(dataset.sample(3), FormatError);
      EXPECT_THROW(dataset.annotations(3), FormatError);
    } else {
      EXPECT_EQ(dataset.sample(3).label, 1'000'000);
    }
  }
}

TEST(Dataset, FingerprintIsOfNamesAndLabels) {
  const TestFolder a, b, c, d;
  for (const TestFolder* folder : {&a, &b}) {
    folder->write("x/1.jpg", "one");
    folder->write("y/2.jpg", "two");
  }
  c.write("x/1.jpg", "one");
  c.write("y/3.jpg", "two");
  d.write("x/1.jpg", "one");
  d.write("xx/2.jpg", "two");
  const uint64_t fingerprint = open_folder(a.path()).fingerprint();
  EXPECT_EQ(open_folder(b.path()).fingerprint(), fingerprint);
  EXPECT_NE(open_folder(c.path()).fingerprint(), fingerprint);
  EXPECT_NE(open_folder(d.path()).fingerprint(), fingerprint);
}

}  // namespace
}  // namespace stretto::data
