// Several datasets as one.
#include <numeric>

#include "stretto/data/folder.h"
#include "stretto/data/loader_testing.h"

namespace stretto::data {
namespace {

Dataset folder_of(const TestFolder& folder, const std::vector<std::string>& files) {
  for (const std::string& file : files) folder.write(file, tiny_png());
  return open_folder(folder.path());
}

TEST(Concat, ClassesOfOneNameBecomeOne) {
  const TestFolder a, b;
  const Dataset first = folder_of(a, {"cat/1.png", "dog/2.png"});
  const Dataset second = folder_of(b, {"ant/3.png", "cat/4.png", "owl/5.png"});
  const Dataset both = concat(std::vector{first, second});
  EXPECT_EQ(both.class_names(), (Names{"cat", "dog", "ant", "owl"}));
  EXPECT_EQ(names_of(both),
            (Names{"cat/1.png", "dog/2.png", "ant/3.png", "cat/4.png", "owl/5.png"}));
  EXPECT_EQ(labels_of(both), (LabelList{0, 1, 2, 0, 3}));
  EXPECT_EQ(both.path(0), a.path("cat/1.png"));
  EXPECT_EQ(both.path(3), b.path("cat/4.png"));
  EXPECT_EQ(both.kind(), "concat");
  EXPECT_EQ(both.source(), a.path() + ", " + b.path());
  const auto parts = both.parts();
  ASSERT_EQ(parts.size(), 2);
  EXPECT_EQ(parts[1].source, b.path());
  EXPECT_EQ(parts[1].begin, 2);
  EXPECT_EQ(parts[1].size, 3);
  const Dataset thrice = concat(std::vector{both, second});
  EXPECT_EQ(labels_of(thrice), (LabelList{0, 1, 2, 0, 3, 2, 0, 3}));
  EXPECT_EQ(thrice.parts().size(), 3);
  EXPECT_EQ(thrice.path(5), b.path("ant/3.png"));
  EXPECT_EQ(concat(std::vector{first}).kind(), "folder");
}

Dataset table_of(std::vector<std::string> classes, std::vector<int64_t> labels) {
  TableBuilder builder;
  for (const int64_t label : labels) builder.add("x.png", {.label = label});
  builder.table().source = classes.empty() ? "numbers" : "names";
  builder.table().one_file_each_below = "d";
  builder.table().class_names = std::move(classes);
  return Dataset(std::move(builder).take());
}

TEST(Concat, LabelsThatCannotBeComparedAreRefused) {
  const Dataset named = table_of({"a", "b"}, {1}), numbered = table_of({}, {3});
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] {
                     concat(std::vector{named, numbered});
                   }),
                   "names has names of classes, and the labels of numbers are numbers"));
  EXPECT_EQ(labels_of(concat(std::vector{named, table_of({}, {-1})})), (LabelList{1, -1}));
  EXPECT_EQ(labels_of(concat(std::vector{numbered, numbered})), (LabelList{3, 3}));
  const Dataset twice = table_of({"a", "a"}, {1});
  EXPECT_EQ(labels_of(concat(std::vector{twice, twice})), (LabelList{1, 1}));
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] {
                     concat(std::vector{named, twice});
                   }),
                   "two classes of names are called \"a\""));
  EXPECT_THROW(concat({}), InvalidArgument);
}

// A folder and a pack of the same pictures, read together, are twice what each is alone.
TEST(Concat, PicturesAreThoseOfTheirSources) {
  const TestPictures pictures(7);
  const Dataset both = concat(std::vector{pictures.as_folder(), pictures.as_pack()});
  EXPECT_FALSE(both.one_file_each());
  EXPECT_TRUE(both.one_file_each(0));
  EXPECT_FALSE(both.one_file_each(7));
  LoaderOptions o = small_options();
  o.order.kind = OrderKind::kSequential;
  o.train = false;
  o.phases[0].shape.batch = 7;
  for (const CacheKind cache : {CacheKind::kPage, CacheKind::kUser, CacheKind::kDecoded}) {
    o.cache = cache;
    Loader alone(pictures.as_folder(), o), loader(both, o);
    const auto want = rest_of_epoch(alone), got = rest_of_epoch(loader);
    ASSERT_EQ(got.size(), 2);
    EXPECT_EQ(got[0], want[0]);
    EXPECT_EQ(got[1].pixels, want[0].pixels);
    EXPECT_EQ(got[1].labels, want[0].labels);
    EXPECT_EQ(loader.stats().part_samples, (std::vector<int64_t>{7, 7}));
  }
}

TEST(Concat, ErrorsNameTheFileOfTheSource) {
  const TestPictures pictures(4);
  const Dataset both = concat(std::vector{pictures.as_pack(), pictures.as_folder()});
  std::filesystem::remove(pictures.path(2));
  LoaderOptions o = small_options();
  o.order.kind = OrderKind::kSequential;
  Loader loader(both, o);
  EXPECT_TRUE(loader.next().has_value());
  EXPECT_EQ(error_of<FormatError>([&] { loader.next(); }),
            pictures.path(2) + ": cannot be opened: No such file or directory");
  o.errors = OnError::kSkip;
  Loader skipping(both, o);
  EXPECT_EQ(rest_of_epoch(skipping).size(), 2);
  EXPECT_EQ(skipping.stats().skipped_names, (std::vector<std::string>{"p2.jpg"}));
}

LoaderOptions mixed_options(int64_t first, int64_t second) {
  LoaderOptions o = small_options();
  o.order.source_sizes = {first, second};
  o.order.source_weights = {0.25, 0.75};
  o.phases[0].shape.batch = 12;
  return o;
}

TEST(Concat, MixturesHaveTheirSharesForAnyNumberOfRanks) {
  const TestPictures a(9), b(5);
  const Dataset both = concat(std::vector{a.as_folder(), b.as_pack()});
  LoaderOptions o = mixed_options(9, 5);
  o.order.epoch_size = 600;
  Loader whole(both, o);
  std::vector<std::vector<Given>> ranks;
  for (int64_t rank = 0; rank < 3; ++rank) {
    LoaderOptions part = o;
    part.phases[0].shape.batch = 4;
    part.rank = rank;
    part.world = 3;
    part.threads = 1 + static_cast<int>(rank);
    Loader loader(both, part);
    ranks.push_back(rest_of_epoch(loader));
  }
  const auto given = rest_of_epoch(whole);
  EXPECT_EQ(given, together(ranks));
  const auto counts = whole.stats().part_samples;
  ASSERT_EQ(counts.size(), 2);
  EXPECT_EQ(counts[0] + counts[1], 600);
  EXPECT_NEAR(static_cast<double>(counts[0]), 150, 50);  // five deviations of 600 draws

  // And after a resume.
  Loader first(both, o), second(both, o);
  for (int i = 0; i < 20; ++i) first.next();
  second.load(first.position());
  EXPECT_EQ(rest_of_epoch(second), std::vector<Given>(given.begin() + 20, given.end()));
}

}  // namespace
}  // namespace stretto::data
