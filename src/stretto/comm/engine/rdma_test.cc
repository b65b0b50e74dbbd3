// RDMA rails beside TCP, over mock cards: every sum right, whatever becomes of the rail.
#include <atomic>
#include <chrono>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/link/verbs_testing.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::Fabric;
using testing::patient;
using testing::run_ranks;

constexpr int64_t kCount = 1 << 19;

// Ranks on different hosts as far as shared memory goes.
struct Job {
  explicit Job(Fabric::Pace pace, unsigned seed = 1) : fabric(pace, seed) {}

  Options options_of(int rank) {
    Options options = patient();
    options.transports = "tcp";
    options.chunk_bytes = 64 << 10;
    options.rdma = "auto";
    options.rdma_provider = fabric.machine({{.name = "mock" + std::to_string(rank)}});
    return options;
  }

  // Nobody leaves while others still look at their links.
  void await_all(int size) {
    ++here;
    for (const double until = now_s() + 60; here < size && now_s() < until;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  Fabric fabric;
  std::atomic<int> here = 0;
};

// Streams beyond the first are connected while large messages are under way.
LinkStatistics link_with_streams(Engine& engine, size_t index, size_t streams) {
  const double until = now_s() + 60;
  while (engine.statistics().links.at(index).streams.size() < streams && now_s() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return engine.statistics().links.at(index);
}

// All-reduces one after the other; the first wrong element is reported.
void reduce(Engine& engine, int operations, int64_t count = kCount) {
  const auto size = static_cast<float>(engine.membership().size);
  const float all = size * (size - 1) / 2;
  std::vector<float> x(static_cast<size_t>(count));
  for (int i = 0; i < operations; ++i) {
    for (int64_t j = 0; j < count; ++j)
      x[j] = static_cast<float>((j + i) % 100 + engine.membership().rank);
    engine.wait(engine.submit(
        kWorld,
        {.reduction = ReduceOp::kSum, .count = count, .input = x.data(), .output = x.data()}));
    for (int64_t j = 0; j < count; ++j) {
      const float expected = size * static_cast<float>((j + i) % 100) + all;
      if (x[j] == expected) continue;
      ADD_FAILURE() << "operation " << i << ", element " << j << ": " << x[j] << " instead of "
                    << expected;
      return;
    }
  }
}

TEST(EngineRdma, ARailCarriesItsShareOfRightSums) {
  for (int size : {2, 3}) {
    Job job(Fabric::Pace::kThread, static_cast<unsigned>(size));
    const auto errors = run_ranks(
        size, [&](int rank) { return job.options_of(rank); },
        [&](Engine& engine) {
          reduce(engine, 20);
          for (size_t i = 0; i + 1 < static_cast<size_t>(size); ++i) {
            const LinkStatistics link = link_with_streams(engine, i, 3);
            EXPECT_EQ(link.no_rdma, "");
            ASSERT_EQ(link.streams.size(), 3u) << "and two over TCP";
            const int rank = engine.membership().rank;
            EXPECT_EQ(link.streams[0].name, fmt::format("rdma mock{}:1 -> mock{}:1 of rank {}",
                                                        rank, link.rank, link.rank));
            EXPECT_TRUE(link.streams[0].alive) << link.streams[0].reason;
            EXPECT_GT(link.streams[0].sent_bytes, 100'000);
            EXPECT_TRUE(link.streams[1].name.starts_with("tcp "));
          }
          job.await_all(size);
        });
    expect_no_errors(errors);
    EXPECT_EQ(job.fabric.rnr(), 0);
    EXPECT_EQ(job.fabric.faults(), std::vector<std::string>{});
    EXPECT_EQ(job.fabric.objects(), 0);
  }
}

TEST(EngineRdma, OneStreamMeansTheRail) {
  Job job(Fabric::Pace::kAtOnce);
  const auto errors = run_ranks(
      2,
      [&](int rank) {
        Options options = job.options_of(rank);
        options.streams = 1;
        return options;
      },
      [&](Engine& engine) {
        reduce(engine, 5);
        const LinkStatistics link = engine.statistics().links.at(0);
        ASSERT_EQ(link.streams.size(), 2u);
        EXPECT_GT(link.streams[0].sent_bytes, 5 * kCount);
        EXPECT_LT(link.streams[1].sent_bytes, 10'000) << "heartbeats and the handshake";
      });
  expect_no_errors(errors);
}

enum class End : uint8_t { kCardDies, kSendFails, kGarbage };

// The rail breaks when some messages of an operation have crossed it and others have not.
void break_amid(End end, int size, unsigned seed) {
  SCOPED_TRACE(fmt::format("end {}, {} ranks, seed {}", static_cast<int>(end), size, seed));
  Job job(Fabric::Pace::kThread, seed);
  std::atomic<int> under_way = 0;
  std::atomic<bool> over = false;
  std::thread breaker([&] {
    while (under_way < size && !over) std::this_thread::yield();
    const int64_t from = job.fabric.messages();
    const auto some = static_cast<int64_t>(5 + 7 * seed);
    while (job.fabric.messages() < from + some && !over) std::this_thread::yield();
    if (end == End::kCardDies) job.fabric.kill("mock1");
    if (end == End::kSendFails) job.fabric.fail_next("mock0", verbs::kGeneralError);
    if (end == End::kGarbage)
      job.fabric.set_alter([](std::vector<std::byte>& message) { message[0] ^= std::byte{1}; });
  });
  std::atomic<int> lost = 0;
  const auto errors = run_ranks(
      size, [&](int rank) { return job.options_of(rank); },
      [&](Engine& engine) {
        ++under_way;
        reduce(engine, 40);
        for (const LinkStatistics& link : engine.statistics().links) {
          for (const StreamStatistics& stream : link.streams) {
            if (stream.alive) continue;
            EXPECT_TRUE(stream.name.starts_with("rdma ")) << stream.name << ": " << stream.reason;
            // The other side may see first that what came over the rail comes again over TCP.
            const bool named = stream.reason.starts_with("mock") &&
                               stream.reason.find(" port 1: ") != std::string::npos;
            EXPECT_TRUE(named || stream.reason == "closed by the remote rank") << stream.reason;
            lost += named;
          }
        }
        job.await_all(size);
      });
  over = true;
  breaker.join();
  expect_no_errors(errors);
  EXPECT_GE(lost, 1) << "the rail was to break";
  EXPECT_EQ(job.fabric.faults(), std::vector<std::string>{});
  EXPECT_EQ(job.fabric.objects(), 0);
}

TEST(EngineRdma, ARailThatBreaksInMidStepCostsNoSum) {
  for (End end : {End::kCardDies, End::kSendFails, End::kGarbage}) {
    for (int size : {2, 3}) {
      for (unsigned seed = 1; seed <= 3; ++seed) {
        break_amid(end, size, seed);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(EngineRdma, WithoutARailTheReasonIsSaid) {
  Job job(Fabric::Pace::kAtOnce);
  const auto errors = run_ranks(
      3,
      [&](int rank) {
        Options options = job.options_of(rank);
        if (rank == 1) options.rdma_provider = job.fabric.machine({});
        if (rank == 2) options.rdma = "off";
        return options;
      },
      [&](Engine& engine) {
        reduce(engine, 2, 1000);
        const char* const kReasons[] = {"", "this machine has no RDMA card", "STRETTO_RDMA is off"};
        const int rank = engine.membership().rank;
        for (const LinkStatistics& link : engine.statistics().links) {
          EXPECT_EQ(link.streams.size(), 1u) << "small messages need no more";
          EXPECT_EQ(link.no_rdma, rank == 0
                                      ? fmt::format("rank {}: {}", link.rank, kReasons[link.rank])
                                      : kReasons[rank]);
        }
      });
  expect_no_errors(errors);
}

// A card that is there and does not work: the link forms, and the statistics say why it is slow.
TEST(EngineRdma, ACardThatRefusesLeavesTheWorkToTcp) {
  Job job(Fabric::Pace::kAtOnce);
  const auto errors = run_ranks(
      2,
      [&](int rank) {
        Options options = job.options_of(rank);
        if (rank == 0)
          options.rdma_provider = job.fabric.machine({{.name = "mock0", .registers = false}});
        return options;
      },
      [&](Engine& engine) {
        reduce(engine, 5);
        const LinkStatistics link = link_with_streams(engine, 0, 3);
        ASSERT_EQ(link.streams.size(), 3u);
        EXPECT_FALSE(link.streams[0].alive);
        const char* expected = engine.membership().rank == 0 ? "ulimit -l" : "before it was";
        EXPECT_NE(link.streams[0].reason.find(expected), std::string::npos)
            << link.streams[0].reason;
        job.await_all(2);
      });
  expect_no_errors(errors);
  EXPECT_EQ(job.fabric.objects(), 0);
}

TEST(EngineRdma, ANamedCardThatIsAbsentIsAnError) {
  Job job(Fabric::Pace::kAtOnce);
  Options options = job.options_of(0);
  options.rdma = "mlx5_0";
  try {
    Engine::create(memory_store(), {}, options);
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgument& e) {
    EXPECT_STREQ(e.what(), "STRETTO_RDMA=mlx5_0: this machine has no RDMA card mlx5_0");
  }
}

}  // namespace
}  // namespace stretto::comm
