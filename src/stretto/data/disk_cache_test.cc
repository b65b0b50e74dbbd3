#include "stretto/data/disk_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stretto/data/data_testing.h"

namespace stretto::data {
namespace {

const auto kNoUses = [] { return NextUses(); };
const std::function<void()> kNoCheck;

CacheKey key_of(const std::string& url) { return cache_key(url, 0, 1); }

DiskCache::Wish waited(const std::string& url, uint64_t bytes) {
  return {.url = url, .bytes = bytes, .use = -1, .waited = true};
}

// Puts a file of so many bytes into the cache.
std::shared_ptr<const CachedFile> put_file(DiskCache& cache, const std::string& url, size_t bytes) {
  auto begun = cache.begin(key_of(url), waited(url, bytes), kNoUses, kNoCheck);
  STRETTO_CHECK(begun.part != nullptr, "{} is there, or has no room", url);
  const int fd = ::open(begun.part->path().c_str(), O_WRONLY);
  const std::string content(bytes, 'x');
  STRETTO_CHECK(::pwrite(fd, content.data(), bytes, 0) == static_cast<ssize_t>(bytes), "{}", url);
  ::close(fd);
  return begun.part->publish();
}

size_t files_in(const std::string& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST(DiskCache, WhatWasPublishedIsFound) {
  const TestFolder folder;
  DiskCache cache({.folder = folder.path(), .dataset = "d", .bytes = 1000});
  EXPECT_EQ(cache.find(key_of("a"), 100), nullptr);
  put_file(cache, "a", 100);
  const auto file = cache.find(key_of("a"), 100);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(read_file(file->path()), std::string(100, 'x'));
  EXPECT_TRUE(cache.has(key_of("a")));
  EXPECT_FALSE(cache.has(cache_key("a", 0, 2))) << "another version is another file";
  // Another process finds it too, and fetches it no more.
  DiskCache other({.folder = folder.path(), .dataset = "d", .bytes = 1000});
  const auto begun = other.begin(key_of("a"), waited("a", 100), kNoUses, kNoCheck);
  EXPECT_EQ(begun.part, nullptr);
  EXPECT_NE(begun.file, nullptr);
}

TEST(DiskCache, AFileOfAnotherSizeIsNotBelieved) {
  const TestFolder folder;
  DiskCache cache({.folder = folder.path(), .dataset = "d", .bytes = 1000});
  const std::string path = put_file(cache, "a", 100)->path();
  ASSERT_EQ(::truncate(path.c_str(), 99), 0);
  EXPECT_EQ(cache.find(key_of("a"), 100), nullptr);
  EXPECT_FALSE(cache.has(key_of("a")));
}

TEST(DiskCache, APartThatIsGivenUpLeavesNothing) {
  const TestFolder folder;
  DiskCache cache({.folder = folder.path(), .dataset = "d", .bytes = 100});
  for (int i = 0; i < 3; ++i) {
    // There would be no room for the second one if the first one still counted.
    const auto begun = cache.begin(key_of("a"), waited("a", 100), kNoUses, kNoCheck);
    EXPECT_NE(begun.part, nullptr);
  }
  EXPECT_EQ(files_in(folder.path("parts")), 0u);
  EXPECT_EQ(files_in(folder.path("locks")), 0u);
  EXPECT_EQ(cache.find(key_of("a"), 100), nullptr);
}

TEST(DiskCache, APartOfTheWrongSizeIsNotPublished) {
  const TestFolder folder;
  DiskCache cache({.folder = folder.path(), .dataset = "d", .bytes = 1000});
  const auto begun = cache.begin(key_of("a"), waited("a", 100), kNoUses, kNoCheck);
  ASSERT_EQ(::truncate(begun.part->path().c_str(), 50), 0);
  EXPECT_TRUE(says(error_of<FormatError>([&] { begun.part->publish(); }), "expected 100 bytes"));
  EXPECT_FALSE(cache.has(key_of("a")));
}

TEST(DiskCache, WhatAKilledProcessLeavesIsRemoved) {
  const TestFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    DiskCache cache({.folder = folder.path(), .dataset = "d", .bytes = 100});
    const auto begun = cache.begin(key_of("a"), waited("a", 100), kNoUses, kNoCheck);
    char c = begun.part != nullptr ? 'y' : 'n';
    if (::write(ready[1], &c, 1) == 1) ::pause();
    ::_exit(0);
  }
  char answer = 'n';
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  EXPECT_EQ(files_in(folder.path("parts")), 1u);
  // While it lives, what it fetches is neither taken nor removed, and others wait for it.
  DiskCache cache({.folder = folder.path(), .dataset = "d", .bytes = 100, .patience_s = 0.3});
  EXPECT_EQ(files_in(folder.path("parts")), 1u);
  const std::string late = error_of<FormatError>(
      [&] { cache.begin(key_of("a"), waited("u://a", 100), kNoUses, kNoCheck); });
  EXPECT_TRUE(says(late, "u://a"));
  EXPECT_TRUE(says(late, "another process of this host"));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(cache.find(key_of("a"), 100), nullptr);
  const auto begun = cache.begin(key_of("a"), waited("a", 100), kNoUses, kNoCheck);
  EXPECT_NE(begun.part, nullptr);
  EXPECT_EQ(files_in(folder.path("parts")), 1u) << "its own";
  ::close(ready[0]);
  ::close(ready[1]);
}

// Four files of 100 bytes fill the cache; a, b and c are needed, c last.
class FullCache : public ::testing::Test {
 protected:
  FullCache() : cache_({.folder = folder_.path(), .dataset = "d", .bytes = 400, .patience_s = 1}) {
    for (const char* url : {"a", "b", "c", "d"}) put_file(cache_, url, 100);
  }
  std::string left() const {
    std::string urls;
    for (const char* url : {"a", "b", "c", "d"}) {
      if (cache_.has(key_of(url))) urls += url;
    }
    return urls;
  }
  const std::function<NextUses()> uses_ = [] {
    return NextUses{{key_of("a"), 5}, {key_of("b"), 1}, {key_of("c"), 9}};
  };
  const TestFolder folder_;
  DiskCache cache_;
};

TEST_F(FullCache, WhatIsNeededFarthestInTheFutureGoesFirst) {
  auto begun = cache_.begin(key_of("e"), waited("e", 80), uses_, kNoCheck);
  EXPECT_NE(begun.part, nullptr);
  EXPECT_EQ(left(), "abc") << "nobody needs d";
  auto more = cache_.begin(key_of("f"), waited("f", 80), uses_, kNoCheck);
  EXPECT_NE(more.part, nullptr);
  EXPECT_EQ(left(), "ab");
  EXPECT_EQ(cache_.evicted(), 2);
}

TEST_F(FullCache, WhatIsOpenStays) {
  const auto open = cache_.find(key_of("d"), 100);
  const auto begun = cache_.begin(key_of("e"), waited("e", 80), uses_, kNoCheck);
  EXPECT_NE(begun.part, nullptr);
  EXPECT_EQ(left(), "abd");
}

TEST_F(FullCache, WhatIsNeededSoonerStays) {
  const DiskCache::Wish ahead{.url = "e", .bytes = 190, .use = 6, .waited = false};
  const auto begun = cache_.begin(key_of("e"), ahead, uses_, kNoCheck);
  EXPECT_NE(begun.part, nullptr);
  EXPECT_EQ(left(), "ab") << "c and d are needed after e";
  const DiskCache::Wish later{.url = "f", .bytes = 100, .use = 6, .waited = false};
  const auto none = cache_.begin(key_of("f"), later, uses_, kNoCheck);
  EXPECT_EQ(none.part, nullptr);
  EXPECT_EQ(none.file, nullptr);
  EXPECT_EQ(left(), "ab");
}

TEST_F(FullCache, AFileLargerThanTheCacheIsAnError) {
  const std::string error = error_of<FormatError>(
      [&] { cache_.begin(key_of("e"), waited("u://e", 401), uses_, kNoCheck); });
  EXPECT_TRUE(says(error, "u://e: it has 401 bytes"));
  EXPECT_TRUE(says(error, "may take 400"));
  EXPECT_EQ(left(), "abcd");
}

TEST(DiskCache, FilesOfOtherDatasetsGoLastIfTheyWereUsedLately) {
  const TestFolder folder;
  DiskCache other({.folder = folder.path(), .dataset = "other", .bytes = 300});
  put_file(other, "o", 100);
  DiskCache cache({.folder = folder.path(), .dataset = "d", .bytes = 300});
  put_file(cache, "a", 100);
  put_file(cache, "b", 100);
  const auto uses = [] { return NextUses{{key_of("a"), 1}}; };
  const DiskCache::Wish ahead{.url = "c", .bytes = 150, .use = 3, .waited = false};
  EXPECT_EQ(cache.begin(key_of("c"), ahead, uses, kNoCheck).part, nullptr);
  EXPECT_TRUE(other.has(key_of("o")));
  EXPECT_TRUE(cache.has(key_of("a")));
  const auto begun = cache.begin(key_of("c"), waited("c", 250), uses, kNoCheck);
  EXPECT_NE(begun.part, nullptr);
  EXPECT_FALSE(other.has(key_of("o")));
  EXPECT_FALSE(cache.has(key_of("a")));
}

TEST(DiskCache, AFolderThatCannotBeMadeIsNamed) {
  const TestFolder folder;
  folder.write("file", "");
  EXPECT_TRUE(says(error_of<FormatError>([&] {
                     DiskCache({.folder = folder.path("file/x"), .dataset = "d", .bytes = 1});
                   }),
                   "file/x"));
}

}  // namespace
}  // namespace stretto::data
