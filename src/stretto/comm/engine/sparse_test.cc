// Jobs in which ranks are connected to their neighbours only, until they need more.
#include <chrono>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/engine/engine_testing.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::patient;
using testing::run_ranks;

constexpr int kSize = 12;

Options sparse(int) {
  Options options = patient();
  options.mesh_ranks = 2;
  return options;
}

TEST(Sparse, EveryAlgorithmSumsRight) {
  for (const Algorithm& algorithm : algorithms(Collective::kAllReduce)) {
    SCOPED_TRACE(algorithm.name);
    const auto options_of = [&](int rank) {
      Options options = sparse(rank);
      options.transports = rank % 2 ? "tcp" : "shm,tcp";  // of two kinds of links
      options.host = rank % 3 == 0 ? "a" : "b";
      options.algorithm = algorithm.name;
      return options;
    };
    const auto errors = run_ranks(kSize, options_of, [&](Engine& engine) {
      std::vector<int32_t> x(50'000);
      std::iota(x.begin(), x.end(), engine.membership().rank);
      engine.wait(engine.submit(kWorld, {.dtype = DType::kInt32,
                                         .reduction = ReduceOp::kSum,
                                         .count = static_cast<int64_t>(x.size()),
                                         .input = x.data(),
                                         .output = x.data()}));
      for (int i = 0; i < static_cast<int>(x.size()); ++i)
        ASSERT_EQ(x[i], kSize * i + kSize * (kSize - 1) / 2) << i;
    });
    for (const std::string& error : errors) {
      if (error.find(" cannot do it: ") != error.npos) continue;
      EXPECT_EQ(error, "");
    }
  }
}

TEST(Sparse, AnAllToAllConnectsAllPairs) {
  expect_no_errors(run_ranks(kSize, sparse, [](Engine& engine) {
    const int rank = engine.membership().rank;
    std::vector<int32_t> in(kSize), out(kSize, -1);
    for (int i = 0; i < kSize; ++i) in[i] = 100 * rank + i;
    engine.wait(engine.submit(kWorld, {.kind = Kind::kAllToAll,
                                       .dtype = DType::kInt32,
                                       .count = 1,
                                       .input = in.data(),
                                       .output = out.data()}));
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(out[i], 100 * i + rank);
    EXPECT_EQ(engine.statistics().links.size(), kSize - 1u);
    engine.wait(engine.submit(kWorld, {.kind = Kind::kBarrier}));
  }));
}

// Its sender does not wait until the link stands.
TEST(Sparse, AMessageArrivesAlthoughItsSenderLeavesAtOnce) {
  for (const auto& [from, to] : {std::pair{0, 6}, {6, 0}}) {
    expect_no_errors(run_ranks(kSize, sparse, [&, from = from, to = to](Engine& engine) {
      int32_t x = engine.membership().rank + 100;
      const Operation message{.kind = engine.membership().rank == from ? Kind::kSend : Kind::kRecv,
                              .dtype = DType::kInt32,
                              .peer = engine.membership().rank == from ? to : from,
                              .count = 1,
                              .input = &x,
                              .output = &x};
      if (engine.membership().rank == from) engine.wait(engine.submit(kWorld, message));
      if (engine.membership().rank != to) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      engine.wait(engine.submit(kWorld, message));
      EXPECT_EQ(x, from + 100);
    }));
  }
}

TEST(Sparse, ARankThatHasLeftIsMissedByOneWithoutALinkToIt) {
  for (const auto& [waits, leaves] : {std::pair{0, 6}, {6, 0}}) {
    const auto options_of = [](int rank) {
      Options options = sparse(rank);
      options.silent_limit_s = 3;
      return options;
    };
    const auto errors =
        run_ranks(kSize, options_of, [&, waits = waits, leaves = leaves](Engine& engine) {
          if (engine.membership().rank != waits) return;
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          float x = 0;
          engine.wait(engine.submit(
              kWorld, {.kind = Kind::kRecv, .peer = leaves, .count = 1, .output = &x}));
        });
    for (int rank = 0; rank < kSize; ++rank)
      EXPECT_EQ(errors[rank], rank == waits ? fmt::format("rank {} has left the job while rank {} "
                                                          "waits for it",
                                                          leaves, waits)
                                            : "")
          << rank;
  }
}

TEST(Sparse, AnAbortEndsEveryRankWithTheSameReason) {
  for (int round = 0; round < 3; ++round) {
    const auto errors = run_ranks(kSize, sparse, [&](Engine& engine) {
      const int rank = engine.membership().rank;
      // Two ranks at opposite places of the ring; the lower reason must win everywhere.
      if (rank == 3 || rank == 9) engine.abort(fmt::format("rank {} has had enough", rank));
      float x = 1;
      while (true)
        engine.wait(engine.submit(
            kWorld, {.reduction = ReduceOp::kSum, .count = 1, .input = &x, .output = &x}));
    });
    for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
    EXPECT_NE(errors[0].find("has had enough"), std::string::npos) << errors[0];
  }
}

}  // namespace
}  // namespace stretto::comm
