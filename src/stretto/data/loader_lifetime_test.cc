// Who outlives whom, what grows, and what ends early.
#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <thread>

#include "stretto/base/fork_testing.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/thread_testing.h"
#include "stretto/data/loader_testing.h"
#include "stretto/data/reader.h"

namespace stretto::data {
namespace {

TEST(LoaderLifetime, BatchesOutliveTheLoader) {
  const TestPictures pictures(16);
  const LoaderOptions o = small_options();
  std::vector<Batch> held;
  std::vector<Given> copies;
  {
    Loader loader(pictures.as_folder(), o);
    while (auto batch = loader.next()) {
      held.push_back(*batch);
      copies.push_back(copy_of(*batch));
    }
  }
  ASSERT_EQ(held.size(), 4u);
  for (size_t i = 0; i < held.size(); ++i) EXPECT_EQ(copy_of(held[i]), copies[i]);
  // Given back by another thread.
  std::thread([taken = std::move(held)] {}).join();
}

TEST(LoaderLifetime, WhoKeepsAllBatchesGetsMore) {
  const TestPictures pictures(16);
  Loader loader(pictures.as_folder(), small_options());
  std::vector<Batch> held;
  std::vector<Given> copies;
  for (int epoch = 0; epoch < 5; ++epoch) {
    while (auto batch = loader.next()) {
      for (const Batch& other : held) EXPECT_NE(other.data, batch->data);
      held.push_back(*batch);
      copies.push_back(copy_of(*batch));
    }
  }
  for (size_t i = 0; i < held.size(); ++i) EXPECT_EQ(copy_of(held[i]), copies[i]);
  // And those given back are used again.
  held.clear();
  std::set<void*> seen;
  for (int epoch = 0; epoch < 5; ++epoch) {
    while (auto batch = loader.next()) seen.insert(batch->data);
  }
  EXPECT_LE(seen.size(), 4u + 2u);  // ahead, given, kept; two may be in hands as they change over
}

// Memory for a batch takes longer to come than the batch before takes to come back: a loop, which
// drops it right behind next(), never waits for a new one.
TEST(LoaderLifetime, ALoopGetsNoMoreMemoryHoweverFastTheLoaderIs) {
  const TestPictures pictures(16);
  for (const int64_t ahead : {1, 2, 3}) {
    LoaderOptions o = small_options();
    o.ahead = ahead;
    Loader loader(pictures.as_folder(), o);
    std::set<void*> seen;
    std::optional<Batch> held;
    for (int i = 0; i < 40; ++i) {
      auto next = loader.next();
      if (!next) continue;
      seen.insert(next->data);
      ::usleep(1000);  // the threads would take another one meanwhile
      held = std::move(next);
      ::usleep(4000);
    }
    EXPECT_LE(std::ssize(seen), ahead + 1);
    // Whoever keeps one more has it from the next call on, and waits for nobody.
    std::vector<Batch> kept;
    for (int i = 0; i < 12; ++i) {
      if (auto next = loader.next()) kept.push_back(*std::move(next));
      ::usleep(4000);
    }
#if !defined(__SANITIZE_THREAD__)  // whose threads take longer for a batch than the pauses
    EXPECT_GE(loader.stats().ready, 20);
#endif
  }
}

TEST(LoaderLifetime, EndsAtAnyTime) {
  const TestPictures pictures(16);
  const Dataset dataset = pictures.as_folder();
  for (int i = 0; i < 40; ++i) {
    LoaderOptions o = small_options();
    o.threads = 1 + i % 4;
    Loader loader(dataset, o);
    std::optional<Batch> held;
    for (int b = 0; b < i % 7; ++b) held = loader.next();
    if (i % 3 == 0) loader.set_epoch(i);
    if (i % 5 == 0) held = loader.next();
  }
}

int open_files() {
  int count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

// Sanitizers keep memory that was given back, and take their time.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
int64_t resident_bytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(LoaderLifetime, FiftyEpochsTakeNoMoreMemoryOrFilesThanTen) {
  const TestPictures pictures(32);
  for (const Dataset& dataset : {pictures.as_folder(), pictures.as_pack()}) {
    LoaderOptions o = small_options();
    o.phases[0].shape = {.height = 64, .width = 64, .batch = 8};
    Loader loader(dataset, o);
    const auto epochs = [&](int count) {
      for (int i = 0; i < count; ++i) {
        while (loader.next()) {
        }
      }
    };
    epochs(10);
    const int64_t bytes = resident_bytes();
    const int files = open_files();
    epochs(50);
    // A leaked batch of each epoch would be 19 MB, a leaked file of each 1.6 MB or more.
    EXPECT_LE(resident_bytes(), bytes + (1 << 20));
    EXPECT_LE(open_files(), files + o.threads);
  }
}
#endif

// More shards than may be open.
TEST(LoaderLifetime, OpenShardsAreBounded) {
  const TestPictures pictures(300);
  TableBuilder builder;
  for (int64_t i = 0; i < 300; ++i) {
    builder.table().containers.push_back(pictures.path(i));
    builder.add(TestPictures::name(i),
                {.length = pictures.file(i).size(), .container = static_cast<uint32_t>(i)});
  }
  builder.table().source = pictures.folder().path();
  LoaderOptions o = small_options();
  o.phases[0].shape.batch = 10;
  const int before = open_files();
  Loader shards(Dataset(std::move(builder).take()), o);
  Loader folder(pictures.as_folder(), o);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto a = rest_of_epoch(shards), b = rest_of_epoch(folder);
    ASSERT_EQ(a.size(), 30u);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].pixels, b[i].pixels);
    EXPECT_LE(open_files(), before + Reader::kOpenFiles + 2 * o.threads);
    EXPECT_GE(open_files(), before + Reader::kOpenFiles);
  }
}

// Their allocators may be locked in the child, and it may start no threads.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(LoaderLifetime, AForkedChildSaysSo) {
  const TestPictures pictures(16);
  auto loader = std::make_unique<Loader>(pictures.as_folder(), small_options());
  auto batch = loader->next();
  const Given before = copy_of(*batch);
  EXPECT_EQ(in_a_child([&] {
              const std::string text = error_of<Unsupported>([&] { loader->next(); });
              if (!says(text, "this process was forked")) return 1;
              if (copy_of(*batch) != before) return 2;
              batch.reset();
              loader.reset();
              LoaderOptions o = small_options();
              Loader mine(pictures.as_folder(), o);
              return copy_of(*mine.next()) == before ? 0 : 3;
            }),
            0);
  EXPECT_EQ(rest_of_epoch(*loader).size(), 3u);
}

#endif

TEST(LoaderLifetime, ThreadsThatCannotBeStartedAreAnError) {
  const TestPictures pictures(4);
  const Dataset dataset = pictures.as_folder();
  EXPECT_EQ(in_a_child([&] {
              forbid_threads();
              return says(error_of<Unsupported>([&] { Loader loader(dataset, small_options()); }),
                          "no more threads")
                         ? 0
                         : 1;
            }),
            0);
}

struct Stop : std::exception {};

TEST(LoaderLifetime, WaitingCanBeInterrupted) {
  const TestPictures pictures(8);
  LoaderOptions o = small_options();
  o.threads = 1;
  // Half a second and more for a batch, little for a sample.
  o.phases[0].shape = {.height = 1200, .width = 1200, .batch = 64};
  o.last = Last::kPad;
  o.ahead = 1;
  Loader loader(pictures.as_folder(), o);
  {
    const InterruptScope scope([] { throw Stop(); });
    EXPECT_THROW(loader.next(), Stop);
  }
  EXPECT_EQ(loader.position().place, 0);
}

TEST(LoaderLifetime, StatsAddUp) {
  const TestPictures pictures(16);
  LoaderOptions o = small_options();
  Loader loader(pictures.as_folder(), o);
  EXPECT_EQ(verdict(loader.stats()), "");
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (loader.next()) ::usleep(20'000);
  }
  const Stats s = loader.stats();
  EXPECT_EQ(s.batches, 12);
  EXPECT_GE(s.samples, 48);
  EXPECT_LE(s.samples, 48 + 2 * 4);
  EXPECT_GE(s.asked_seconds, 12 * 0.02);
  EXPECT_GE(s.waited_seconds, s.first_wait_seconds);
  EXPECT_GT(s.decode_seconds, 0);
  EXPECT_GT(s.read_seconds, 0);
  EXPECT_GT(s.transform_seconds, 0);
  EXPECT_GT(s.idle_seconds, 0);
  EXPECT_GT(s.ready, 0);
  EXPECT_LE(s.ready, 12);
  EXPECT_EQ(s.threads, 2);
}

TEST(LoaderLifetime, TheVerdictNamesWhatIsWaitedFor) {
  Stats s{.batches = 10, .waited_seconds = 1, .first_wait_seconds = 1, .asked_seconds = 5};
  s.decode_seconds = 3;
  s.transform_seconds = 2;
  EXPECT_EQ(verdict(s), "device");
  s.waited_seconds = 2;
  EXPECT_EQ(verdict(s), "decoding");
  s.transform_seconds = 4;
  EXPECT_EQ(verdict(s), "transforms");
  s.read_seconds = 5;
  EXPECT_EQ(verdict(s), "reading");
}

}  // namespace
}  // namespace stretto::data
