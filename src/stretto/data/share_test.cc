// A loader whose batches are taken at the other end of a socket.
#include "stretto/data/share.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "stretto/base/fork_testing.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/share_wire.h"
#include "stretto/data/targets_testing.h"

namespace stretto::data {
namespace {

namespace fs = std::filesystem;

// Both ends, of which one is served by a thread.
class Pair {
 public:
  Pair(const Dataset& dataset, LoaderOptions options) {
    options.memory = BatchMemory::kShared;
    loader_ = std::make_unique<Loader>(make_team(dataset, options), options.rank, options.threads);
    int ends[2];
    STRETTO_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    socket_ = ends[0];
    thread_ = std::thread([this, end = ends[0]] { serve(*loader_, end, -1); });
    shared = std::make_unique<SharedLoader>(dataset, options, ends[1], "process 123");
  }
  ~Pair() {
    shared.reset();
    if (thread_.joinable()) thread_.join();
  }
  // As if the process that serves had ended.
  void end_server() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    loader_.reset();
  }
  Loader& loader() { return *loader_; }

  std::unique_ptr<SharedLoader> shared;

 private:
  std::unique_ptr<Loader> loader_;
  int socket_;
  std::thread thread_;
};

// Descriptors of batches that this process has.
int open_batches() {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // that of the folder is
    count += says(fs::read_symlink(entry, closed).string(), "stretto batch");
  }
  return count;
}

// How many memory maps of batches this process has, of both ends together.
int mapped_batches() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += says(line, "stretto batch");
  return count;
}

TEST(Share, GivesWhatALoaderGives) {
  const TestPictures pictures(29);
  const Dataset dataset = pictures.as_folder();
  for (const DType dtype : {DType::kUInt8, DType::kFloat32}) {
    LoaderOptions o = small_options();
    o.dtype = dtype;
    o.last = Last::kPad;
    o.phases.push_back({.epoch = 1, .shape = {.height = 40, .width = 32, .batch = 6}});
    Loader alone(dataset, o);
    Pair pair(dataset, o);
    for (int epoch = 0; epoch < 4; ++epoch) {
      EXPECT_EQ(pair.shared->batches(epoch), alone.batches(epoch));
      EXPECT_EQ(pair.shared->indices(epoch), alone.indices(epoch));
      EXPECT_EQ(rest_of_epoch(*pair.shared), rest_of_epoch(alone));
      EXPECT_EQ(pair.shared->epoch(), epoch + 1);
    }
  }
}

TEST(Share, GivesBoxesMapsAndSharesOfClasses) {
  const CocoPictures coco(13);
  const LoaderOptions o = target_options("rand_augment(2, 9)", Fit::kLetterbox);
  Loader alone(coco.open(), o);
  Pair pair(coco.open(), o);
  const auto want = targets_epoch(alone);
  EXPECT_EQ(targets_epoch(*pair.shared), want);
  EXPECT_FALSE(want[0].boxes.empty());
  EXPECT_FALSE(want[0].masks.empty());

  const TestPictures pictures(12);
  LoaderOptions mixed = small_options();
  mixed.transforms = media::operators::parse_operators("mixup(0.4)");
  mixed.classes = 7;
  Loader mixes(pictures.as_folder(), mixed);
  Pair pair_mixes(pictures.as_folder(), mixed);
  for (int b = 0; b < 3; ++b) {
    const auto a = mixes.next(), c = pair_mixes.shared->next();
    ASSERT_TRUE(c->targets != nullptr);
    EXPECT_EQ(std::vector(a->targets, a->targets + 4 * 7),
              std::vector(c->targets, c->targets + 4 * 7));
    EXPECT_EQ(copy_of(*a), copy_of(*c));
  }
}

TEST(Share, GoesWhereItIsTold) {
  const TestPictures pictures(24);
  const Dataset dataset = pictures.as_folder();
  Loader alone(dataset, small_options());
  Pair pair(dataset, small_options());
  SharedLoader& shared = *pair.shared;
  EXPECT_EQ(shared.position().order, alone.position().order);
  alone.next(), alone.next();
  const Position position = alone.position();
  shared.load(position);
  EXPECT_EQ(shared.position().place, 8);
  EXPECT_EQ(rest_of_epoch(shared), rest_of_epoch(alone));
  shared.set_epoch(5);
  alone.set_epoch(5);
  EXPECT_EQ(copy_of(*shared.next()), copy_of(*alone.next()));
  Position other = position;
  other.seed = 18;
  EXPECT_EQ(error_of<InvalidArgument>([&] { shared.load(other); }),
            error_of<InvalidArgument>([&] { alone.load(other); }));
  EXPECT_EQ(error_of<InvalidArgument>([&] { shared.set_epoch(-1); }),
            error_of<InvalidArgument>([&] { alone.set_epoch(-1); }));
  EXPECT_EQ(copy_of(*shared.next()), copy_of(*alone.next()));
}

TEST(Share, ErrorsAreThoseOfALoader) {
  const TestPictures pictures(16);
  const Dataset dataset = pictures.as_folder();
  LoaderOptions o = small_options();
  o.order.kind = OrderKind::kSequential;
  fs::resize_file(pictures.path(5), 300);
  fs::remove(pictures.path(9));
  Loader alone(dataset, o);
  Pair pair(dataset, o);
  for (int batch = 0; batch < 4; ++batch) {
    const auto failure = [](auto& loader) -> std::tuple<std::string, std::string, int64_t, int> {
      try {
        loader.next();
        return {};
      } catch (const FormatError& e) {
        return {e.what(), e.file(), e.offset(), e.code()};
      }
    };
    const auto want = failure(alone);
    EXPECT_EQ(failure(*pair.shared), want);
    EXPECT_EQ(std::get<0>(want).empty(), batch == 0 || batch == 3);
    EXPECT_EQ(std::get<3>(want), batch == 2 ? ENOENT : 0);
    EXPECT_EQ(pair.shared->position().place, 4 * (batch + 1));
  }
}

TEST(Share, BatchesThatAreKeptStayAndOthersGoRound) {
  const TestPictures pictures(32);
  const Dataset dataset = pictures.as_folder();
  const int before = mapped_batches();
  std::vector<Batch> held;
  std::vector<Given> copies;
  {
    Pair pair(dataset, small_options());
    std::set<void*> seen;
    for (int epoch = 0; epoch < 10; ++epoch) {
      while (const auto batch = pair.shared->next()) seen.insert(batch->data);
    }
    // Two ahead, one given, one given back with the next request, and as many as threads may still
    // have in hands.
    EXPECT_LE(seen.size(), 4u + 2u + 1u);
    for (int epoch = 0; epoch < 3; ++epoch) {
      while (auto batch = pair.shared->next()) {
        for (const Batch& other : held) EXPECT_NE(other.data, batch->data);
        held.push_back(*batch);
        copies.push_back(copy_of(*batch));
      }
    }
    // Those that too many were made of are forgotten by both ends.
    const size_t most = static_cast<size_t>(mapped_batches());
    EXPECT_GE(most, 2 * held.size());
    held.resize(2);
    copies.resize(2);
    rest_of_epoch(*pair.shared);
    rest_of_epoch(*pair.shared);
    EXPECT_LE(mapped_batches() - before, 2 * (2 + 4 + 2));
  }
  for (size_t i = 0; i < held.size(); ++i) EXPECT_TRUE(copy_of(held[i]) == copies[i]);
  EXPECT_EQ(mapped_batches() - before, 2);
  held.clear();
  EXPECT_EQ(mapped_batches(), before);
}

TEST(Share, BatchesThatAreKeptTakeNoDescriptors) {
  const TestPictures pictures(32);
  Pair pair(pictures.as_folder(), small_options());
  std::vector<Batch> held;
  for (int epoch = 0; epoch < 5; ++epoch) {
    while (auto batch = pair.shared->next()) held.push_back(*batch);
  }
  ASSERT_EQ(held.size(), 40u);
  // Of batches that nobody has asked for. One that is being handed over is open at both ends.
  EXPECT_LE(open_batches(), 2 * (4 + 2 + 1));
}

// The loader makes batches after its caller has gone.
TEST(Share, BatchesStayWhenTheOtherEndGoesOn) {
  const TestPictures pictures(32);
  LoaderOptions o = small_options();
  o.memory = BatchMemory::kShared;
  Loader loader(make_team(pictures.as_folder(), o), 0, 2);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::thread server([&] { serve(loader, ends[0], -1); });
  std::vector<Batch> held;
  std::vector<Given> copies;
  {
    SharedLoader shared(pictures.as_folder(), o, ends[1], "process 123");
    for (int b = 0; b < 5; ++b) {
      held.push_back(*shared.next());
      copies.push_back(copy_of(held.back()));
    }
  }
  server.join();
  for (int epoch = 0; epoch < 3; ++epoch) rest_of_epoch(loader);
  for (size_t i = 0; i < held.size(); ++i) EXPECT_TRUE(copy_of(held[i]) == copies[i]);
}

TEST(Share, AServerThatEndsIsAnErrorThatNamesIt) {
  const TestPictures pictures(32);
  Pair pair(pictures.as_folder(), small_options());
  const auto held = pair.shared->next();
  const Given copy = copy_of(*held);
  pair.end_server();
  for (int i = 0; i < 3; ++i) {
    try {
      for (int b = 0; b < 3; ++b) pair.shared->next();
      FAIL();
    } catch (const CommError& e) {
      EXPECT_TRUE(says(e.what(), "process 123 has ended")) << e.what();
      EXPECT_EQ(e.link(), "process 123");
    }
  }
  EXPECT_THROW(pair.shared->set_epoch(1), CommError);
  EXPECT_EQ(pair.shared->position().place, 4);  // where it can go on
  EXPECT_EQ(copy_of(*held), copy);
}

struct Stop : std::exception {};

TEST(Share, AWaitThatIsInterruptedGoesOn) {
  const TestPictures pictures(8);
  LoaderOptions o = small_options();
  o.threads = 1;
  o.phases[0].shape = {.height = 1200, .width = 1200, .batch = 5};
  o.last = Last::kPad;
  o.ahead = 1;
  Loader alone(pictures.as_folder(), o);
  const Given want = copy_of(*alone.next());
  for (int what = 0; what < 4; ++what) {
    Pair pair(pictures.as_folder(), o);
    {
      const InterruptScope scope([] { throw Stop(); });
      EXPECT_THROW(pair.shared->next(), Stop);
    }
    EXPECT_EQ(pair.shared->position().place, 0);
    if (what == 1) pair.shared->set_epoch(0);
    if (what == 2) continue;  // its end does not wait for the batch
    if (what == 3) {
      EXPECT_THROW(pair.shared->load({.seed = 1}), InvalidArgument);
    }
    EXPECT_EQ(copy_of(*pair.shared->next()), want);
  }
}

// A process that is gone is one whose end of the socket a child of it still has.
TEST(Share, ServingEndsWithTheProcessAtTheOtherEnd) {
  const TestPictures pictures(8);
  LoaderOptions o = small_options();
  o.memory = BatchMemory::kShared;
  Loader loader(make_team(pictures.as_folder(), o), 0, 1);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::usleep(100'000);
    ::_exit(0);
  }
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  ASSERT_GE(process, 0);
  serve(loader, ends[0], process);
  ::waitpid(child, nullptr, 0);
  ::close(ends[1]);
}

TEST(Share, BytesThatAreNoRequestOrReplyAreRefused) {
  const TestPictures pictures(8);
  LoaderOptions o = small_options();
  o.memory = BatchMemory::kShared;
  Loader loader(make_team(pictures.as_folder(), o), 0, 1);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const std::string junk(4096, '\xff');
  ASSERT_EQ(::write(ends[1], junk.data(), junk.size()), 4096);
  serve(loader, ends[0], -1);
  ::close(ends[1]);

  for (const char c : {'\xff', '\x00', '\x01'}) {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    SharedLoader shared(pictures.as_folder(), o, ends[1], "process 123");
    const std::string bytes(1 << 14, c);
    ASSERT_EQ(::write(ends[0], bytes.data(), bytes.size()), 1 << 14);
    if (c == '\x01') ::shutdown(ends[0], SHUT_RDWR);
    EXPECT_THROW(shared.next(), CommError);
    ::close(ends[0]);
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Share, AForkedChildSaysSo) {
  const TestPictures pictures(16);
  Pair pair(pictures.as_folder(), small_options());
  auto batch = pair.shared->next();
  EXPECT_EQ(in_a_child([&] {
              if (!says(error_of<Unsupported>([&] { pair.shared->next(); }), "was forked")) {
                return 1;
              }
              batch.reset();
              pair.shared.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(rest_of_epoch(*pair.shared).size(), 3u);
}
#endif

}  // namespace
}  // namespace stretto::data
