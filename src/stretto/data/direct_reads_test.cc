// Reads by io_uring, and what loaders do where there is none.
#include "stretto/data/direct_reads.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "stretto/data/loader_testing.h"
#include "stretto/data/reader.h"
#include "stretto/data/sample_work.h"

#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#endif

namespace stretto::data {
namespace {

#define NEEDS_IO_URING() \
  if (DirectReads::make() == nullptr) GTEST_SKIP() << "this system refuses io_uring"

// A file on a disk, none of whose pages the system has, twice open.
class ColdFile {
 public:
  explicit ColdFile(size_t bytes) : content_(bytes, '\0') {
    std::mt19937 random(16);  // the seed
    for (char& c : content_) c = static_cast<char>(random());
    path_ = folder_.write("file", content_);
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    forget();
    direct_ = open_direct(fd_);
  }
  ~ColdFile() {
    ::close(fd_);
    if (direct_ >= 0) ::close(direct_);
  }
  ColdFile(const ColdFile&) = delete;
  ColdFile& operator=(const ColdFile&) = delete;

  void forget() const {
#if defined(POSIX_FADV_DONTNEED)
    ::fsync(fd_);
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
#endif
  }
  int fd() const { return fd_; }
  int direct() const { return direct_; }
  const std::string& content() const { return content_; }
  const std::string& path() const { return path_; }
  // Whether reads can go past the page cache here. In a file system in memory they cannot.
  bool usable(DirectReads& reads) const {
    const DirectReads::Part part{.key = ~uint64_t{0}, .bytes = 1};
    uint8_t byte = 0;
    return reads.begin(part, direct_, nullptr) && reads.take(part, {&byte, 1});
  }

 private:
  TestFolder folder_;
  std::string content_, path_;
  int fd_ = -1, direct_ = -1;
};

#define NEEDS_DISK(file, reads) \
  if (!(file).usable(reads)) GTEST_SKIP() << "this file system has no reads past the page cache"

std::string take(DirectReads& reads, const DirectReads::Part& part) {
  std::string text(part.bytes, '\0');
  const bool there = reads.take(part, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
  return there ? text : "not there";
}

TEST(DirectReads, GiveWhatIsInTheFile) {
  NEEDS_IO_URING();
  const auto reads = DirectReads::make();
  const ColdFile file(300'001);
  NEEDS_DISK(file, *reads);
  uint64_t key = 0;
  for (const uint64_t offset : {0, 1, 4095, 4096, 100'000, 299'999}) {
    for (const uint64_t bytes : {1, 2, 4096, 4097, 45'000, 200'000}) {
      if (offset + bytes > file.content().size()) continue;
      file.forget();
      const DirectReads::Part part{.key = ++key, .offset = offset, .bytes = bytes};
      ASSERT_TRUE(reads->begin(part, file.direct(), nullptr));
      EXPECT_EQ(take(*reads, part), file.content().substr(offset, bytes));
      EXPECT_EQ(take(*reads, part), "not there");  // it was taken
    }
  }
  EXPECT_GE(reads->taken(), 25);
}

TEST(DirectReads, ArePreadWhereTheyAreOfNoUse) {
  NEEDS_IO_URING();
  const auto reads = DirectReads::make();
  const ColdFile file(600'000);
  NEEDS_DISK(file, *reads);
  EXPECT_FALSE(reads->begin({.key = 1, .bytes = 0}, file.direct(), nullptr));
  EXPECT_FALSE(
      reads->begin({.key = 1, .bytes = DirectReads::kMostBytes + 1}, file.direct(), nullptr));
  EXPECT_FALSE(reads->begin({.key = 1, .bytes = 4}, -1, nullptr));
  // It ends before the part does: whoever reads it then says so.
  ASSERT_TRUE(reads->begin({.key = 1, .offset = 599'999, .bytes = 2}, file.direct(), nullptr));
  EXPECT_EQ(take(*reads, {.key = 1, .offset = 599'999, .bytes = 2}), "not there");
  // Of a file as it was.
  ASSERT_TRUE(reads->begin({.key = 1, .state = 5, .bytes = 4}, file.direct(), nullptr));
  EXPECT_EQ(take(*reads, {.key = 1, .state = 6, .bytes = 4}), "not there");
  EXPECT_EQ(take(*reads, {.key = 2, .bytes = 4}), "not there");
}

TEST(DirectReads, OfAPageThatIsInMemoryAreNotMade) {
  NEEDS_IO_URING();
  const auto reads = DirectReads::make();
  const ColdFile file(50'000);
  NEEDS_DISK(file, *reads);
  std::string all(file.content().size(), '\0');
  ASSERT_EQ(::pread(file.fd(), all.data(), all.size(), 0), std::ssize(all));
  const DirectReads::Part part{.key = 1, .bytes = 40'000};
  if (reads->begin(part, file.direct(), nullptr)) {
    GTEST_SKIP() << "this kernel does not tell what is in memory";
  }
  EXPECT_EQ(take(*reads, part), "not there");
}

// Those of samples that a loader left out after all.
TEST(DirectReads, ThatNobodyTakesAreForgotten) {
  NEEDS_IO_URING();
  const auto reads = DirectReads::make();
  const ColdFile file(4096 * 400);
  NEEDS_DISK(file, *reads);
  const auto part = [](uint64_t i) {
    return DirectReads::Part{.key = i, .offset = 4096 * (i % 400), .bytes = 4096};
  };
  const auto keep = std::make_shared<int>(0);
  for (uint64_t i = 0; i < DirectReads::kPlaces; ++i) {
    ASSERT_TRUE(reads->begin(part(i), file.direct(), keep));
  }
  EXPECT_FALSE(reads->begin(part(399), file.direct(), keep));
  EXPECT_EQ(take(*reads, part(7)), file.content().substr(7 * 4096, 4096));
  EXPECT_TRUE(reads->begin(part(399), file.direct(), keep));
  uint64_t calls = 0;
  while (!reads->begin(part(398), file.direct(), keep)) {
    ASSERT_LE(++calls, 2 * DirectReads::kForgotten);
  }
  EXPECT_GT(calls, DirectReads::kForgotten / 2);
  EXPECT_EQ(take(*reads, part(0)), "not there");
  EXPECT_EQ(take(*reads, part(398)), file.content().substr(398 * 4096, 4096));
}

TEST(DirectReads, MayEndWhileTheyAreUnderWay) {
  NEEDS_IO_URING();
  const ColdFile file(4 << 20);
  for (int i = 0; i < 20; ++i) {
    file.forget();
    const auto keep = std::make_shared<int>(0);
    {
      const auto reads = DirectReads::make();
      NEEDS_DISK(file, *reads);
      for (uint64_t k = 0; k < 16; ++k) {
        reads->begin({.key = k, .offset = k << 18, .bytes = 200'000}, file.direct(), keep);
      }
    }
    EXPECT_EQ(keep.use_count(), 1);
  }
}

TEST(DirectReads, AreTakenByManyThreads) {
  NEEDS_IO_URING();
  const auto reads = DirectReads::make();
  const ColdFile file(4 << 20);
  NEEDS_DISK(file, *reads);
  constexpr uint64_t kParts = 800, kEach = 5000;
  const auto part = [](uint64_t i) {
    return DirectReads::Part{.key = i, .offset = i * kEach, .bytes = kEach};
  };
  std::atomic<uint64_t> next{0};
  std::atomic<int> wrong{0}, taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; (i = next.fetch_add(1)) < kParts;) {
        // As loaders do, mostly not the one that this thread takes.
        if (i + 24 < kParts) reads->begin(part(i + 24), file.direct(), nullptr);
        const std::string text = take(*reads, part(i));
        if (text == "not there") continue;
        ++taken;
        if (text != file.content().substr(i * kEach, kEach)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(taken, 100);  // others were taken before they were begun
}

// What a loader of these pictures gives in two epochs, whose files the system does not have.
struct Epochs {
  std::vector<Given> given;
  Stats stats;
};
Epochs epochs_of(const Dataset& dataset, LoaderOptions o, bool io_uring) {
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const int fd = ::open(dataset.path(i).c_str(), O_RDONLY | O_CLOEXEC);
#if defined(POSIX_FADV_DONTNEED)
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
    ::close(fd);
  }
  o.cache = CacheKind::kUser;
  o.io_uring = io_uring;
  Loader loader(dataset, o);
  Epochs all{.given = rest_of_epoch(loader)};
  for (Given& g : rest_of_epoch(loader)) all.given.push_back(std::move(g));
  all.stats = loader.stats();
  return all;
}

TEST(DirectReads, ChangeNothingOfWhatALoaderGives) {
  NEEDS_IO_URING();
  const auto reads = DirectReads::make();
  const ColdFile file(5000);
  NEEDS_DISK(file, *reads);
  const TestPictures pictures(64);
  for (const Dataset& dataset : {pictures.as_folder(), pictures.as_pack()}) {
    for (const int threads : {1, 4}) {
      LoaderOptions o = small_options();
      o.threads = threads;
      const Epochs by_pread = epochs_of(dataset, o, false), by_ring = epochs_of(dataset, o, true);
      EXPECT_EQ(by_ring.given, by_pread.given);
      EXPECT_FALSE(by_pread.stats.io_uring);
      EXPECT_EQ(by_pread.stats.ring_reads, 0);
      EXPECT_TRUE(by_ring.stats.io_uring);
      EXPECT_GT(by_ring.stats.ring_reads, 32);  // the very first are read at once
      EXPECT_EQ(by_ring.stats.cached_samples, 64);
      EXPECT_EQ(by_ring.stats.read_bytes, by_pread.stats.read_bytes);
    }
  }
}

TEST(DirectReads, AreOfTheUserCacheAlone) {
  const TestPictures pictures(8);
  for (const CacheKind cache : {CacheKind::kPage, CacheKind::kDecoded}) {
    LoaderOptions o = small_options();
    o.cache = cache;
    Loader loader(pictures.as_pack(), o);
    EXPECT_EQ(rest_of_epoch(loader).size(), 2U);
    EXPECT_FALSE(loader.stats().io_uring);
  }
}

// A sample of which there is no room is read anew in each epoch, and the system may keep it.
TEST(DirectReads, EndWhenTheCacheIsFull) {
  NEEDS_IO_URING();
  const TestPictures pictures(64);
  LoaderOptions o = small_options();
  o.cache_bytes = 64 * 8 + 20'000;
  const Dataset dataset = pictures.as_pack();
  Reader::Soon soon;
  {
    Source source(dataset, [&] {
      LoaderOptions user = o;
      user.cache = CacheKind::kUser;
      return user;
    }());
    EXPECT_TRUE(source.lacks(0, false).once);
    media::Buffer buffer;
    for (int64_t i = 0; i < 64; ++i) source.encoded->put(i, source.reader.read(i, buffer));
    EXPECT_TRUE(source.encoded->store().full());
    soon = source.lacks(63, false);
  }
  EXPECT_TRUE(soon.picture);
  EXPECT_FALSE(soon.once);
}

// A file that is cut short is the error that it is without io_uring.
TEST(DirectReads, OfAFileThatIsCutShortAreErrors) {
  const TestPictures pictures(40);
  std::string said[2];
  for (const bool io_uring : {false, true}) {
    LoaderOptions o = small_options();
    o.cache = CacheKind::kUser;
    o.io_uring = io_uring;
    Loader loader(pictures.as_folder(), o);
    const int64_t last = loader.indices(0).back();
    std::filesystem::resize_file(pictures.path(last), 0);
    said[io_uring] = error_of<FormatError>([&] { rest_of_epoch(loader); });
    EXPECT_TRUE(says(said[io_uring], pictures.name(last))) << said[io_uring];
  }
  EXPECT_EQ(said[0], said[1]);
}

#if defined(__linux__)

// In this thread and those that it starts, as a container's runtime does it for all of them.
bool refuse_system_call(long number) {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{.len = static_cast<unsigned short>(std::size(rules)), .filter = rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(DirectReads, ArePreadWhereAFilterRefusesThem) {
  const TestPictures pictures(24);
  const Epochs expected = epochs_of(pictures.as_pack(), small_options(), false);
  for (const long number : {SYS_io_uring_setup, SYS_io_uring_enter}) {
    bool filtered = false, made = true;
    Epochs got;
    std::thread([&] {
      filtered = refuse_system_call(number);
      made = DirectReads::make() != nullptr;
      got = epochs_of(pictures.as_pack(), small_options(), true);
    }).join();
    if (!filtered) GTEST_SKIP() << "this system refuses filters of system calls";
    EXPECT_FALSE(made);
    EXPECT_FALSE(got.stats.io_uring);
    EXPECT_EQ(got.given, expected.given);
    EXPECT_EQ(got.stats.cached_samples, 24);
  }
}

// A process may give up system calls when it has started.
TEST(DirectReads, ArePreadFromWhereOnAFilterRefusesThem) {
  NEEDS_IO_URING();
  const auto reads = DirectReads::make();
  const ColdFile file(100'000);
  NEEDS_DISK(file, *reads);
  file.forget();
  const DirectReads::Part before{.key = 1, .bytes = 50'000};
  const DirectReads::Part after{.key = 2, .offset = 50'000, .bytes = 9};
  ASSERT_TRUE(reads->begin(before, file.direct(), nullptr));
  bool filtered = false, begun = true;
  std::string text;
  std::thread([&] {
    filtered = refuse_system_call(SYS_io_uring_enter);
    begun = reads->begin(after, file.direct(), nullptr);
    text = take(*reads, before);
  }).join();
  if (!filtered) GTEST_SKIP() << "this system refuses filters of system calls";
  EXPECT_FALSE(begun);
  EXPECT_EQ(text, file.content().substr(0, 50'000));
  EXPECT_TRUE(reads->begin(after, file.direct(), nullptr));
  EXPECT_EQ(take(*reads, after), file.content().substr(50'000, 9));
}

#endif

}  // namespace
}  // namespace stretto::data
