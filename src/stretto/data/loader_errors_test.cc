// What a loader does with files that are not what they were, and with pictures that are none.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "stretto/base/memory.h"
#include "stretto/data/loader_testing.h"

namespace stretto::data {
namespace {

namespace fs = std::filesystem;

// The texts of the errors of an epoch, "" for a batch without.
std::vector<std::string> errors_of_epoch(Loader& loader) {
  std::vector<std::string> errors;
  for (;;) {
    try {
      if (!loader.next()) return errors;
      errors.push_back("");
    } catch (const FormatError& e) {
      errors.push_back(e.what());
    }
  }
}

LoaderOptions in_sequence() {
  LoaderOptions o = small_options();
  o.order.kind = OrderKind::kSequential;
  return o;
}

TEST(LoaderErrors, ABatchFailsAndTheNextOnesCome) {
  const TestPictures pictures(16);
  const Dataset dataset = pictures.as_folder();
  std::vector<Given> good;
  {
    Loader loader(dataset, in_sequence());
    good = rest_of_epoch(loader);
  }
  fs::resize_file(pictures.path(5), 300);
  fs::remove(pictures.path(6));
  fs::remove(pictures.path(15));
  for (int threads = 1; threads <= 4; ++threads) {
    LoaderOptions o = in_sequence();
    o.threads = threads;
    Loader loader(dataset, o);
    for (int epoch = 0; epoch < 2; ++epoch) {
      EXPECT_EQ(copy_of(*loader.next()).pixels == good[0].pixels, epoch == 0);
      // The first sample that failed, whichever thread was first.
      EXPECT_TRUE(says(error_of<FormatError>([&] { loader.next(); }), pictures.path(5) + ": JPEG"));
      EXPECT_EQ(loader.position().place, 8);
      EXPECT_EQ(copy_of(*loader.next()).number, 2);
      const std::string gone = error_of<FormatError>([&] { loader.next(); });
      EXPECT_EQ(gone, pictures.path(15) + ": cannot be opened: No such file or directory");
      EXPECT_FALSE(loader.next());
    }
  }
}

TEST(LoaderErrors, SkippedPicturesAreReplacedByThoseBehindThem) {
  const TestPictures pictures(17);
  const Dataset dataset = pictures.as_folder();
  for (const int64_t bad : {5, 6, 16}) fs::resize_file(pictures.path(bad), 300);
  LoaderOptions o = in_sequence();
  o.errors = OnError::kSkip;
  o.last = Last::kPad;
  o.phases[0].shape.batch = 12;
  std::vector<Given> expected;
  for (const int64_t world : {1, 2, 3, 4}) {
    o.world = world;
    o.threads = static_cast<int>(5 - world);
    o.phases[0].shape.batch = 12 / world;
    std::vector<std::vector<Given>> ranks;
    for (o.rank = 0; o.rank < world; ++o.rank) {
      o.ahead = 1;
      Loader loader(dataset, o);
      ranks.push_back(rest_of_epoch(loader));
      EXPECT_EQ(ranks.back().size(), 2u);
    }
    const auto all = together(ranks);
    const std::vector<int64_t> samples{0, 1, 2, 3, 4, 7, 7, 7, 8, 9, 10, 11};
    EXPECT_EQ(all[0].samples, samples);
    EXPECT_EQ(all[1].samples,
              (std::vector<int64_t>{12, 13, 14, 15, 0, -1, -1, -1, -1, -1, -1, -1}));
    for (size_t j = 0; j < 12; ++j) EXPECT_EQ(all[0].labels[j], pictures.label(samples[j]));
    // The same sample in the same epoch: the same crop.
    const size_t bytes = all[0].pixels.size() / 12;
    EXPECT_EQ(all[0].pixels.substr(5 * bytes, bytes), all[0].pixels.substr(7 * bytes, bytes));
    if (world == 1) expected = all;
    EXPECT_EQ(all, expected);
  }
  o.world = 1;
  o.rank = 0;
  o.phases[0].shape.batch = 17;
  o.threads = 3;
  Loader loader(dataset, o);
  rest_of_epoch(loader);
  rest_of_epoch(loader);
  rest_of_epoch(loader);
  const Stats s = loader.stats();
  EXPECT_GE(s.skipped, 9);  // more where the next epoch has begun
  std::vector<std::string> names = s.skipped_names;
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"p16.jpg", "p5.jpg", "p6.jpg"}));
}

TEST(LoaderErrors, ADatasetOfBadPicturesIsAnErrorAlsoWhenSkipping) {
  const TestPictures pictures(6);
  const Dataset dataset = pictures.as_folder();
  for (int64_t i = 0; i < 6; ++i) fs::remove(pictures.path(i));
  pictures.folder().write("another", "");
  LoaderOptions o = in_sequence();
  o.errors = OnError::kSkip;
  Loader loader(dataset, o);
  EXPECT_EQ(error_of<FormatError>([&] { loader.next(); }),
            pictures.path(0) + ": cannot be opened: No such file or directory");
}

TEST(LoaderErrors, AFileThatChangesBetweenTwoEpochsIsNamed) {
  const TestPictures pictures(8);
  LoaderOptions o = in_sequence();
  o.ahead = 1;
  Loader loader(pictures.as_folder(), o);
  EXPECT_EQ(rest_of_epoch(loader).size(), 2u);
  const auto& other = pictures.file(1);
  pictures.folder().write(TestPictures::name(2),
                          {reinterpret_cast<const char*>(other.data()), other.size()});
  loader.set_epoch(7);
  EXPECT_EQ(error_of<FormatError>([&] { loader.next(); }),
            pictures.path(2) + ": the file was changed or replaced since it was read first");
}

// A mount that is away for a while must not change what is trained on.
TEST(LoaderErrors, AStoreThatIsGoneIsNotSkipped) {
  const TestPictures pictures(8);
  const Dataset folder = pictures.as_folder(), pack = pictures.as_pack();
  LoaderOptions o = in_sequence();
  o.errors = OnError::kSkip;
  fs::remove(pictures.shard(0));
  Loader shards(pack, o);
  EXPECT_TRUE(says(error_of<FormatError>([&] { shards.next(); }), "p0.jpg: cannot be opened"));
  EXPECT_EQ(shards.stats().skipped, 0);
  for (const bool mount_point : {true, false}) {
    fs::remove_all(pictures.folder().path());
    if (mount_point) fs::create_directory(pictures.folder().path());
    Loader files(folder, o);
    EXPECT_TRUE(says(error_of<FormatError>([&] { files.next(); }), "p0.jpg: cannot be opened"));
    EXPECT_EQ(files.stats().skipped, 0);
  }
}

TEST(LoaderErrors, WhatCanNeverBeReadIsSkipped) {
  const TestPictures pictures(8);
  const Dataset dataset = pictures.as_folder();
  fs::remove(pictures.path(1));
  fs::create_symlink(TestPictures::name(1), pictures.path(1));  // a loop
  LoaderOptions o = in_sequence();
  o.errors = OnError::kSkip;
  Loader loader(dataset, o);
  EXPECT_EQ(copy_of(*loader.next()).samples, (std::vector<int64_t>{0, 2, 2, 3}));
  EXPECT_EQ(loader.stats().skipped_names, Names{"p1.jpg"});
}

TEST(LoaderErrors, ABatchWithoutMemoryComesWhenThereIsSome) {
  const TestPictures pictures(12);
  const Dataset dataset = pictures.as_folder();
  LoaderOptions o = in_sequence();
  Loader other(dataset, o);
  const auto expected = rest_of_epoch(other);
  int64_t taken = 0;
  for (int64_t step = total_memory_bytes(); step > 0;) {
    try {
      take_memory(step);
      taken += step;
    } catch (const Unsupported&) {
      step /= 2;
    }
  }
  {
    Loader loader(dataset, o);
    for (int i = 0; i < 3; ++i) EXPECT_THROW(loader.next(), Unsupported);
    EXPECT_EQ(loader.position().place, 0);
    return_memory(taken);
    EXPECT_EQ(rest_of_epoch(loader), expected);
  }
}

TEST(LoaderErrors, DamagedPicturesAreNamed) {
  const TestPictures pictures(4);
  const auto cut = [&](int64_t i, size_t bytes) {
    const auto& file = pictures.file(i);
    pictures.folder().write(TestPictures::name(i),
                            {reinterpret_cast<const char*>(file.data()), bytes});
  };
  cut(0, 3);
  cut(1, pictures.file(1).size() / 3);
  pictures.folder().write(TestPictures::name(2), "no picture at all");
  pictures.folder().write(TestPictures::name(3), "");
  TableBuilder builder;
  for (int64_t i = 0; i < 4; ++i) builder.add(TestPictures::name(i), {});  // of unknown length
  builder.table().source = builder.table().one_file_each_below = pictures.folder().path();
  LoaderOptions o = in_sequence();
  o.train = false;  // the middle: what was cut off is seen
  o.phases[0].shape.batch = 1;
  Loader loader(Dataset(std::move(builder).take()), o);
  const auto errors = errors_of_epoch(loader);
  ASSERT_EQ(errors.size(), 4u);
  EXPECT_TRUE(says(errors[0], pictures.path(0) + ": JPEG"));
  EXPECT_TRUE(says(errors[1], pictures.path(1) + ": JPEG"));
  EXPECT_TRUE(says(errors[2], pictures.path(2) + ": picture"));
  EXPECT_TRUE(says(errors[3], pictures.path(3) + ": picture"));
}

TEST(LoaderErrors, PicturesAboveTheLimitAreNamed) {
  const TestPictures pictures(4);
  const Dataset pack = pictures.as_pack();
  LoaderOptions o = in_sequence();
  o.max_pixels = 10;
  for (const CacheKind cache : {CacheKind::kPage, CacheKind::kUser, CacheKind::kDecoded}) {
    o.cache = cache;
    Loader loader(pack, o);
    const std::string text = error_of<Unsupported>([&] { loader.next(); });
    EXPECT_TRUE(says(text, pictures.shard(0) + ": sample p0.jpg: "));
  }
}

// Whether a damaged picture is an error depends on what is seen of it, and not on the cache.
TEST(LoaderErrors, TheDecodedCacheChangesNoError) {
  const TestPictures pictures(12);
  for (int64_t i = 0; i < 12; ++i) {
    fs::resize_file(pictures.path(i), pictures.file(i).size() * 9 / 10);
  }
  TableBuilder builder;
  for (int64_t i = 0; i < 12; ++i) builder.add(TestPictures::name(i), {});
  builder.table().source = builder.table().one_file_each_below = pictures.folder().path();
  const Dataset dataset(std::move(builder).take());
  LoaderOptions o = small_options();
  o.phases[0].shape.batch = 1;
  o.phases[0].shape.crop.max_area = 0.3;
  std::vector<std::vector<std::string>> errors;
  for (const CacheKind cache : {CacheKind::kPage, CacheKind::kDecoded}) {
    o.cache = cache;
    Loader loader(dataset, o);
    for (int epoch = 0; epoch < 3; ++epoch) errors.push_back(errors_of_epoch(loader));
  }
  std::ptrdiff_t good = 0;
  for (size_t e = 0; e < 3; ++e) {
    EXPECT_EQ(errors[e], errors[3 + e]);
    good += std::count(errors[e].begin(), errors[e].end(), "");
  }
  EXPECT_GT(good, 0);
  EXPECT_LT(good, 36);
}

class ChangedShard : public ::testing::Test {
 protected:
  ChangedShard() : dataset_(pictures_.as_pack()), loader_(dataset_, options()) {
    EXPECT_EQ(rest_of_epoch(loader_).size(), 2u);
  }
  static LoaderOptions options() {
    LoaderOptions o = in_sequence();
    o.ahead = 1;
    return o;
  }
  // Of a batch that nobody has begun.
  std::string error() {
    loader_.set_epoch(7);
    return error_of<FormatError>([&] { loader_.next(); });
  }

  TestPictures pictures_{8};
  Dataset dataset_;
  Loader loader_;
};

TEST_F(ChangedShard, CutShort) {
  const auto bytes = fs::file_size(pictures_.shard(0));
  fs::resize_file(pictures_.shard(0), 10);
  EXPECT_EQ(error(), fmt::format("{}: sample p0.jpg: the file has 10 bytes, and had {} when it was "
                                 "read first",
                                 pictures_.shard(0), bytes));
  Loader another(dataset_, options());
  EXPECT_TRUE(says(error_of<FormatError>([&] { another.next(); }),
                   "shard0: sample p0.jpg: the file ends at byte 10; expected the sample at"));
}

TEST_F(ChangedShard, Rewritten) {
  const auto time = fs::last_write_time(pictures_.shard(1));
  fs::last_write_time(pictures_.shard(1), time + std::chrono::seconds(1));
  EXPECT_EQ(error(), pictures_.shard(1) +
                         ": sample p1.jpg: the file was changed or replaced since it was read "
                         "first");
}

TEST_F(ChangedShard, Removed) {
  // The open file is as it was.
  fs::remove(pictures_.shard(1));
  loader_.set_epoch(3);
  EXPECT_EQ(rest_of_epoch(loader_).size(), 2u);
  Loader another(dataset_, options());
  EXPECT_EQ(error_of<FormatError>([&] { another.next(); }),
            pictures_.shard(1) + ": sample p1.jpg: cannot be opened: No such file or directory");
}

TEST(LoaderErrors, NoFileOfThatNameIsWaitedFor) {
  const TestPictures pictures(4);
  const Dataset dataset = pictures.as_folder();
  fs::remove(pictures.path(0));
  ASSERT_EQ(::mkfifo(pictures.path(0).c_str(), 0600), 0);
  fs::remove(pictures.path(1));
  fs::create_directory(pictures.path(1));
  LoaderOptions o = in_sequence();
  o.phases[0].shape.batch = 1;
  Loader loader(dataset, o);
  EXPECT_TRUE(says(error_of<FormatError>([&] { loader.next(); }), "p0.jpg: expected a file"));
  EXPECT_TRUE(says(error_of<FormatError>([&] { loader.next(); }), "p1.jpg: expected a file"));
}

TEST(LoaderErrors, WrongRestartTablesAreNamed) {
  const TestPictures pictures(4);
  const Dataset dataset = pictures.as_pack();
  const Sample s = dataset.sample(2);
  ASSERT_GT(s.restart_bytes, 0u);
  std::fstream file(pictures.shard(0), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(s.offset) - 1);
  file.put('\x55');
  file.close();
  // The cache of decoded pictures has no need of the table, and says so too.
  for (const CacheKind cache : {CacheKind::kPage, CacheKind::kUser, CacheKind::kDecoded}) {
    LoaderOptions o = in_sequence();
    o.cache = cache;
    Loader loader(dataset, o);
    EXPECT_TRUE(says(error_of<FormatError>([&] { loader.next(); }), "shard0: sample p2.jpg: "));
  }
}

}  // namespace
}  // namespace stretto::data
