// Every rank finds the NaN and infinity of its own input, and no other's: results overwrite the
// input while it is searched.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <mutex>
#include <thread>

#include "stretto/comm/engine/engine.h"
#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/engine/plan.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::patient;
using testing::run_ranks;
using testing::tcp;

TEST(NonFinite, InputsAreReportedAndSentOn) {
  expect_no_errors(run_ranks(2, tcp, [](Engine& engine) {
    const int rank = engine.membership().rank;
    std::vector<float> x(1000, 1.0f);
    if (rank == 1) x[17] = x[400] = std::numeric_limits<float>::infinity();
    engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                       .count = 1000,
                                       .input = x.data(),
                                       .output = x.data(),
                                       .name = "conv1.weight"}));
    EXPECT_EQ(x[17], std::numeric_limits<float>::infinity());
    const auto reports = engine.take_non_finite();
    ASSERT_EQ(reports.size(), rank == 1 ? 1u : 0u);
    if (rank == 0) return;
    EXPECT_EQ(reports[0].name, "conv1.weight");
    EXPECT_EQ(reports[0].rank, 1);
    EXPECT_EQ(reports[0].first_offset, 17);
    EXPECT_EQ(reports[0].count, 2);
  }));
}

// A job with a loss scaler goes on, perhaps for ever.
TEST(NonFinite, ReportsThatNobodyTakesAreCounted) {
  const auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, patient());
  const auto fill = [&](int64_t reports) {
    for (int64_t i = 0; i < reports; ++i) engine->report({.name = fmt::format("w{}", i)});
  };
  float bad = std::numeric_limits<float>::infinity();
  const auto most = static_cast<int64_t>(Engine::kMostReports);
  fill(most + 4);
  engine->wait(engine->submit(
      kWorld, {.reduction = ReduceOp::kSum, .count = 1, .input = &bad, .output = &bad}));
  auto reports = engine->take_non_finite();
  ASSERT_EQ(std::ssize(reports), most);
  EXPECT_EQ(reports.back().name, fmt::format("w{}", most - 1));
  EXPECT_EQ(reports.back().more, 5);
  EXPECT_EQ(reports.front().more, 0);
  fill(2);
  reports = engine->take_non_finite();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports.back().more, 0);
}

// Large operations are looked at a unit at a time, while earlier units are overwritten with
// results.
TEST(NonFinite, InputsOfManyUnitsAreCountedOnce) {
  constexpr int64_t kCount = 3'000'000;
  expect_no_errors(run_ranks(2, tcp, [](Engine& engine) {
    const int rank = engine.membership().rank;
    std::vector<float> x(kCount, 1.0f);
    const float bad = std::numeric_limits<float>::quiet_NaN();
    if (rank == 1) x[1'200'003] = x[1'200'004] = x[kCount - 1] = bad;
    if (rank == 0) x[5] = bad;
    engine.wait(engine.submit(
        kWorld,
        {.reduction = ReduceOp::kSum, .count = kCount, .input = x.data(), .output = x.data()}));
    const auto reports = engine.take_non_finite();
    ASSERT_EQ(reports.size(), 1u);
    EXPECT_EQ(reports[0].first_offset, rank == 1 ? 1'200'003 : 5);
    EXPECT_EQ(reports[0].count, rank == 1 ? 3 : 1);
  }));
}

TEST(NonFinite, InputsStopTheJobWhenAskedTo) {
  for (const int64_t count : {10, 3'000'000}) {
    const auto errors = run_ranks(
        2,
        [](int rank) {
          Options options = tcp(rank);
          options.nan_check = NanCheck::kStop;
          return options;
        },
        [&](Engine& engine) {
          std::vector<float> x(count, 1.0f);
          if (engine.membership().rank == 1)
            x[count / 2] = x[count - 1] = std::numeric_limits<float>::quiet_NaN();
          engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                             .count = count,
                                             .input = x.data(),
                                             .output = x.data(),
                                             .name = "w"}));
        });
    for (const std::string& error : errors)
      EXPECT_EQ(error, fmt::format("rank 1: all_reduce of {} float32 (sum), 'w' has 2 values that "
                                   "are not finite, the first at {}",
                                   count, count / 2));
  }
}

// Memory whose last page cannot be read before somebody allows it.
class Guarded {
 public:
  explicit Guarded(int64_t floats)
      : bytes_(static_cast<size_t>(floats) * sizeof(float)),
        data_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    static std::once_flag once;
    std::call_once(once, [] {
      struct sigaction action {};
      action.sa_sigaction = on_fault;
      action.sa_flags = SA_SIGINFO;
      sigaction(SIGSEGV, &action, nullptr);
    });
    page_bytes_ = static_cast<size_t>(getpagesize());
    page_ = static_cast<std::byte*>(data_) + bytes_ - page_bytes_;
  }
  ~Guarded() { munmap(data_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  float* data() const { return static_cast<float*>(data_); }
  void guard() {
    touched_ = allowed_ = false;
    mprotect(page_, page_bytes_, PROT_NONE);
  }
  // Whether a thread has come to the page, and waits there.
  bool touched() const { return touched_; }
  void allow() { allowed_ = true; }

 private:
  static void on_fault(int number, siginfo_t* info, void*) {
    const auto* at = static_cast<const std::byte*>(info->si_addr);
    if (at < page_ || at >= page_ + page_bytes_) {
      signal(number, SIG_DFL);
      return;
    }
    touched_ = true;
    const timespec nap{0, 1'000'000};
    while (!allowed_) nanosleep(&nap, nullptr);
    mprotect(page_, page_bytes_, PROT_READ | PROT_WRITE);
  }

  static inline std::byte* page_ = nullptr;
  static inline size_t page_bytes_ = 0;
  static inline std::atomic<bool> touched_{false}, allowed_{false};
  const size_t bytes_;
  void* const data_;
};

// A reduce-scatter of FSDP may have a gigabyte; meanwhile other threads submit and wait.
TEST(NonFinite, AreFoundInOtherKindsWithoutTheEnginesLock) {
  const auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, patient());
  constexpr int64_t kCount = 1 << 20;
  Guarded input(kCount);
  std::vector<float> output(kCount);
  for (const Kind kind : {Kind::kReduceScatter, Kind::kReduce}) {
    for (const bool together : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, together: {}", kind_name(kind), together));
      input.data()[kCount - 3] = std::numeric_limits<float>::infinity();
      input.guard();
      auto submitted = std::async(std::launch::async, [&] {
        std::vector<Handle> handles;
        const Operation op{.kind = kind,
                           .reduction = ReduceOp::kSum,
                           .count = kCount,
                           .input = input.data(),
                           .output = output.data()};
        if (!together) return engine->submit(kWorld, op);
        engine->submit_together(kWorld, {op}, &handles);
        return handles[0];
      });
      while (!input.touched()) std::this_thread::yield();
      auto other = std::async(std::launch::async, [&] { return engine->take_non_finite().size(); });
      EXPECT_EQ(other.wait_for(std::chrono::seconds(20)), std::future_status::ready);
      input.allow();
      EXPECT_EQ(other.get(), 0u);
      engine->wait(submitted.get());
      const auto reports = engine->take_non_finite();
      ASSERT_EQ(reports.size(), 1u);
      EXPECT_EQ(reports[0].first_offset, kCount - 3);
      EXPECT_EQ(reports[0].count, 1);
    }
  }
}

// With a codec the whole input of a unit is searched before its first part is encoded.
TEST(NonFinite, AreFoundInOneUnitWithACodecWithoutTheEnginesLock) {
  const auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, patient());
  constexpr int64_t kCount = 1 << 15;
  Guarded input(kCount);
  std::vector<float> output(kCount);
  for (const bool together : {false, true}) {
    SCOPED_TRACE(together);
    input.data()[kCount - 3] = std::numeric_limits<float>::infinity();
    input.guard();
    auto submitted = std::async(std::launch::async, [&] {
      std::vector<Handle> handles;
      const Operation op{.reduction = ReduceOp::kSum,
                         .count = kCount,
                         .input = input.data(),
                         .output = output.data(),
                         .codec = "fp16"};
      if (!together) return engine->submit(kWorld, op);
      engine->submit_together(kWorld, {op}, &handles);
      return handles[0];
    });
    while (!input.touched()) std::this_thread::yield();
    auto other = std::async(std::launch::async, [&] { return engine->take_non_finite().size(); });
    EXPECT_EQ(other.wait_for(std::chrono::seconds(20)), std::future_status::ready);
    input.allow();
    EXPECT_EQ(other.get(), 0u);
    engine->wait(submitted.get());
    const auto reports = engine->take_non_finite();
    ASSERT_EQ(reports.size(), 1u);
    EXPECT_EQ(reports[0].first_offset, kCount - 3);
    EXPECT_EQ(reports[0].count, 1);
  }
}

TEST(NonFinite, OfPartsWithDisplacementsAreCountedInTheirOrder) {
  expect_no_errors(run_ranks(2, tcp, [](Engine& engine) {
    constexpr int64_t kParts[] = {20'000, 30'000};
    for (const int64_t scale : {1, 1000}) {  // searched with and without the engine's lock
      const std::vector<int64_t> counts = {kParts[0] * scale / 1000, kParts[1] * scale / 1000};
      const std::vector<int64_t> displacements = {counts[1] + 7, 0};
      std::vector<float> x(static_cast<size_t>(counts[0] + counts[1] + 7), 1.0f);
      x[static_cast<size_t>(counts[1]) + 3] = std::numeric_limits<float>::quiet_NaN();  // no part's
      x[5] = x[static_cast<size_t>(counts[1]) + 7 + 4] = std::numeric_limits<float>::infinity();
      const int64_t own = counts[static_cast<size_t>(engine.membership().rank)];
      std::vector<float> output(static_cast<size_t>(own));
      engine.wait(engine.submit(kWorld, {.kind = Kind::kReduceScatter,
                                         .reduction = ReduceOp::kSum,
                                         .count = own,
                                         .input = x.data(),
                                         .output = output.data(),
                                         .input_counts = counts,
                                         .input_displacements = displacements}));
      const auto reports = engine.take_non_finite();
      ASSERT_EQ(reports.size(), 1u);
      EXPECT_EQ(reports[0].first_offset, 4);
      EXPECT_EQ(reports[0].count, 2);
    }
  }));
}

struct Job {
  int ranks;
  std::string algorithm;
  std::string transports;
  int streams;
};

// Ranks 0 and 1 have bad values at places of their own, twice as many in the second step. In every
// unit some are in parts that are sent, and some in the part that the rank adds up itself.
TEST(NonFinite, AreFoundInTheRanksOwnInputWhateverTheAlgorithm) {
  const std::vector<Job> jobs = {{2, "direct", "shm,tcp", 1},   {2, "direct", "tcp", 1},
                                 {2, "direct", "tcp", 4},       {3, "direct", "tcp", 2},
                                 {2, "gather_sum", "tcp", 2},   {3, "recursive_doubling", "tcp", 2},
                                 {4, "hierarchical", "tcp", 2}, {4, "tree_halving", "tcp", 2}};
  for (const Job& job : jobs) {
    SCOPED_TRACE(fmt::format("{} ranks, {}, {}, {} streams", job.ranks, job.algorithm,
                             job.transports, job.streams));
    expect_no_errors(run_ranks(
        job.ranks,
        [&](int rank) {
          Options options = patient();
          options.transports = job.transports;
          options.streams = job.streams;
          options.algorithm = job.algorithm;
          options.host = fmt::format("{}", job.ranks == 4 ? rank / 2 : rank);
          if (job.algorithm.starts_with("tree")) options.rack = options.host;
          return options;
        },
        [&](Engine& engine) {
          const int rank = engine.membership().rank;
          for (const int64_t count : {20'000, 300'001, 2'500'000}) {
            for (int64_t bad = 1; bad <= 2; ++bad) {
              std::vector<float> x(static_cast<size_t>(count), 1.0f);
              std::vector<int64_t> places;
              for (int64_t i = 0; rank < 2 && i < 40 * bad; ++i)
                places.push_back((count - 1) * i / (40 * bad) + rank);
              for (const int64_t at : places)
                x[static_cast<size_t>(at)] = std::numeric_limits<float>::infinity();
              engine.wait(engine.submit(kWorld, {.reduction = ReduceOp::kSum,
                                                 .count = count,
                                                 .input = x.data(),
                                                 .output = x.data()}));
              const auto reports = engine.take_non_finite();
              ASSERT_EQ(reports.size(), places.empty() ? 0u : 1u) << count;
              if (places.empty()) continue;
              EXPECT_EQ(reports[0].rank, rank);
              EXPECT_EQ(reports[0].first_offset, rank) << count;
              EXPECT_EQ(reports[0].count, std::ssize(places)) << count;
            }
          }
        }));
  }
}

// A schedule's steps together search the whole unit once, and nothing is received into what has
// not been searched.
TEST(NonFinite, StepsSearchEveryElementOnce) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const int per_host : {1, 2}) {
      std::vector<int> host;
      for (int r = 0; r < ranks; ++r) host.push_back(r / per_host);
      for (const SumOrder order : {SumOrder::kLine, SumOrder::kTree}) {
        for (int rank = 0; rank < ranks; ++rank) {
          const Problem problem{.rank = rank, .host = host, .count = 1000, .order = order};
          for (const Algorithm& algorithm : algorithms(Collective::kAllReduce)) {
            if (!algorithm.unfit(problem).empty()) continue;
            SCOPED_TRACE(fmt::format("{}, rank {} of {}", algorithm.name, rank, ranks));
            const UnitPlan plan(algorithm.schedule(problem, 0), true);
            ASSERT_EQ(plan.searched.size(), plan.schedule.steps.size());
            std::vector<int> step_of(1000, -1);
            for (size_t s = 0; s < plan.searched.size(); ++s) {
              for (int64_t i = plan.searched[s].begin; i < plan.searched[s].end; ++i) {
                ASSERT_EQ(step_of[static_cast<size_t>(i)], -1) << i;
                step_of[static_cast<size_t>(i)] = static_cast<int>(s);
              }
            }
            EXPECT_EQ(std::count(step_of.begin(), step_of.end(), -1), 0);
            for (size_t r = 0; r < plan.schedule.steps.size(); ++r) {
              const Step& step = plan.schedule.steps[r];
              if (step.action != Action::kReceive || step.place.buffer != Buffer::kOutput) continue;
              for (int64_t i = step.place.offset; i < step.place.offset + step.count; ++i) {
                const int searches = step_of[static_cast<size_t>(i)];
                const auto& waiting = plan.searched_before[static_cast<size_t>(searches)];
                ASSERT_EQ(std::ranges::count(waiting, static_cast<int32_t>(r)), 1) << i;
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto::comm
