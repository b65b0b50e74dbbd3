// What CUDA's driver is asked for, by a stand-in: no test has run with a real one.
#include "stretto/data/pinned.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "stretto/base/fork_testing.h"
#include "stretto/base/log.h"
#include "stretto/data/loader_testing.h"
#include "stretto/data/pinned_testing.h"
#include "stretto/data/share.h"

namespace stretto::data {
namespace {

using Faults = std::vector<std::string>;

struct Pages {
  Pages() : data(std::aligned_alloc(4096, bytes)) {}
  ~Pages() { std::free(data); }
  static constexpr int64_t bytes = 8192;
  void* data;
};

int64_t bytes_of(const Batch& b) {
  return 3 * b.count * b.height * b.width * static_cast<int64_t>(dtype_bytes(b.dtype));
}

TEST(Pinned, NoContextIsMade) {
  FakeCuda cuda;
  const Pages pages;
  {
    Pinned pinned;
    pinned.pin(nullptr, pages.data, Pages::bytes);
    pinned.pin(&cuda.driver, pages.data, Pages::bytes);
    EXPECT_EQ(pinned.bytes(), 0);
    EXPECT_EQ(cuda.asked(), 0);
    cuda.use(1);
    for (int i = 0; i < 3; ++i) pinned.pin(&cuda.driver, pages.data, Pages::bytes);
    EXPECT_EQ(pinned.bytes(), Pages::bytes);
    EXPECT_EQ(cuda.asked(), 1);
    EXPECT_TRUE(cuda.covers(pages.data, Pages::bytes));
    EXPECT_EQ(cuda.retained(), 1);
  }
  EXPECT_EQ(cuda.registered_bytes(), 0);
  EXPECT_EQ(cuda.retained(), 0);
  EXPECT_EQ(cuda.faults(), Faults());
}

TEST(Pinned, ARefusalIsSaidOnce) {
  FakeCuda cuda;
  cuda.use(0);
  cuda.refuse();
  std::vector<std::string> said;
  const auto before =
      set_log([&said](LogLevel, std::string_view text) { said.emplace_back(text); });
  const Pages pages;
  Pinned pinned, other;
  for (int i = 0; i < 3; ++i) pinned.pin(&cuda.driver, pages.data, Pages::bytes);
  other.pin(&cuda.driver, pages.data, Pages::bytes);
  set_log(before);
  EXPECT_EQ(cuda.asked(), 2);
  EXPECT_EQ(pinned.bytes(), 0);
  EXPECT_EQ(cuda.retained(), 0);
  EXPECT_EQ(cuda.faults(), Faults());
  ASSERT_LE(said.size(), 1u);  // none if the test is repeated
  for (const auto& text : said) EXPECT_TRUE(says(text, "CUDA_ERROR_NOT_SUPPORTED"));
}

TEST(Pinned, AChildLeavesTheDriverAlone) {
  FakeCuda cuda;
  cuda.use(0);
  const Pages pages;
  auto pinned = std::make_unique<Pinned>();
  pinned->pin(&cuda.driver, pages.data, Pages::bytes);
  EXPECT_EQ(in_a_child([&] {
              pinned.reset();
              return cuda.registered_bytes() == Pages::bytes ? 0 : 1;
            }),
            0);
}

// This test is linked with no CUDA, and nothing loads it.
TEST(Pinned, ALibraryThatNobodyLoadedIsNotLoaded) { EXPECT_EQ(loaded_cuda(), nullptr); }

TEST(Pinned, BatchesOfALoader) {
  const TestPictures pictures(32);
  const Dataset dataset = pictures.as_folder();
  for (const int64_t side : {20, 300}) {  // the larger ones have huge pages
    FakeCuda cuda;
    LoaderOptions o = small_options();
    o.phases[0].shape.height = o.phases[0].shape.width = side;
    Loader plain(dataset, o);
    o.pin = true;
    o.cuda = &cuda.driver;
    std::optional<Batch> held;
    {
      Loader loader(dataset, o);
      const auto first = plain.next();
      EXPECT_EQ(copy_of(*loader.next()), copy_of(*first));
      EXPECT_EQ(cuda.registered_bytes(), 0);
      cuda.use(1);
      rest_of_epoch(loader);  // memory that is taken again
      rest_of_epoch(plain);
      while (const auto want = plain.next()) {
        held = loader.next();
        EXPECT_EQ(copy_of(*held), copy_of(*want));
        EXPECT_TRUE(cuda.covers(held->data, bytes_of(*held)));
      }
      // Two ahead, one that is held.
      EXPECT_LE(cuda.asked(), 5);
      EXPECT_EQ(loader.stats().pinned_bytes, cuda.registered_bytes());
      EXPECT_GE(loader.stats().pinned_bytes, bytes_of(*held));
    }
    EXPECT_TRUE(cuda.covers(held->data, bytes_of(*held)));
    held.reset();
    EXPECT_EQ(cuda.registered_bytes(), 0);
    EXPECT_EQ(cuda.retained(), 0);
    EXPECT_EQ(cuda.faults(), Faults());
  }
}

TEST(Pinned, MemoryOfOtherPhasesIsLetGo) {
  const TestPictures pictures(24);
  FakeCuda cuda;
  cuda.use(0);
  LoaderOptions o = small_options();
  o.pin = true;
  o.cuda = &cuda.driver;
  o.phases.push_back({.epoch = 1, .shape = {.height = 90, .width = 90, .batch = 4}});
  Loader loader(pictures.as_folder(), o);
  rest_of_epoch(loader);
  rest_of_epoch(loader);
  rest_of_epoch(loader);
  EXPECT_EQ(loader.stats().pinned_bytes, cuda.registered_bytes());
  constexpr int64_t kSlot = 4 * 3 * 90 * 90 * 4, kPages = (kSlot + 4095) / 4096 * 4096;
  EXPECT_EQ(cuda.registered_bytes() % kPages, 0);
  EXPECT_EQ(cuda.faults(), Faults());
}

TEST(Pinned, BatchesOfAnotherProcess) {
  const TestPictures pictures(32);
  const Dataset dataset = pictures.as_folder();
  FakeCuda cuda;
  LoaderOptions o = small_options();
  o.memory = BatchMemory::kShared;
  Loader loader(make_team(dataset, o), 0, 2);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::thread server([&] { serve(loader, ends[0], -1); });
  o.pin = true;
  o.cuda = &cuda.driver;
  std::optional<Batch> held;
  {
    SharedLoader shared(dataset, o, ends[1], "process 123");
    held = shared.next();
    EXPECT_EQ(shared.pinned_bytes(), 0);
    cuda.use(0);
    for (int i = 0; i < 20; ++i) {
      if (auto batch = shared.next()) {
        held = std::move(batch);
        EXPECT_TRUE(cuda.covers(held->data, bytes_of(*held)));
      }
    }
    EXPECT_EQ(shared.pinned_bytes(), cuda.registered_bytes());
    EXPECT_EQ(loader.stats().pinned_bytes, 0);
  }
  server.join();
  EXPECT_TRUE(cuda.covers(held->data, bytes_of(*held)));
  held.reset();
  EXPECT_EQ(cuda.registered_bytes(), 0);
  EXPECT_EQ(cuda.retained(), 0);
  EXPECT_EQ(cuda.faults(), Faults());
}

}  // namespace
}  // namespace stretto::data
