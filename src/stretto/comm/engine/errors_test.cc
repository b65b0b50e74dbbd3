// Errors of the engine name the thing and the fix.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "stretto/base/error.h"
#include "stretto/comm/engine/engine_testing.h"

namespace stretto::comm {
namespace {

using testing::run_ranks;
using testing::tcp;

template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

void expect_contains(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), text.npos) << text << "\n  lacks: " << part;
}

TEST(EngineErrors, NamesTheOptionThatDiffersBetweenRanks) {
  const auto errors = run_ranks(
      2,
      [](int rank) {
        Options options = tcp(rank);
        if (rank == 1) options.fuse_bytes = 1000;
        return options;
      },
      [](Engine&) {});
  EXPECT_EQ(
      errors[0],
      "ranks must have the same options, but STRETTO_FUSE_BYTES is 4194304 on rank 0 and 1000 "
      "on rank 1");
  EXPECT_EQ(
      errors[1],
      "ranks must have the same options, but STRETTO_FUSE_BYTES is 1000 on rank 1 and 4194304 "
      "on rank 0");
}

TEST(EngineErrors, SaysThatSecretsDiffer) {
  const auto errors = run_ranks(
      2,
      [](int rank) {
        Options options = tcp(rank);
        options.secret = rank == 0 ? "one" : "another";
        options.connect_timeout_s = 2;
        return options;
      },
      [](Engine&) {});
  expect_contains(errors[0], "rank 0 is not connected to rank 1 (");
  expect_contains(errors[0], "STRETTO_SECRET");
  expect_contains(errors[1], "rank 1 is not connected to rank 0 (tcp 127.0.0.1:");
  expect_contains(errors[1],
                  "the remote rank has another secret; set the same STRETTO_SECRET on all ranks");
}

TEST(EngineErrors, RefusesWrongOptionsBeforeItConnects) {
  const auto create = [](auto change) {
    Options options = tcp(0);
    change(options);
    return error_of([&] { Engine::create(memory_store(), {.rank = 0, .size = 1}, options); });
  };
  EXPECT_EQ(
      create([](Options& o) { o.codec = "zip"; }),
      "codec: expected one of none, fp16, bf16, int8, topk, powersgd, mixed, got 'zip' (set it "
      "with codec= or STRETTO_CODEC)");
  EXPECT_EQ(create([](Options& o) { o.transports = "udp"; }),
            "STRETTO_TRANSPORTS: expected shm, tcp or both, got 'udp'");
  expect_contains(create([](Options& o) { o.congestion = "carrier-pigeon"; }),
                  "STRETTO_CONGESTION: 'carrier-pigeon' cannot be used; the kernel has: ");
  const std::string interface = create([](Options& o) { o.interfaces = {"none0"}; });
  expect_contains(interface, "STRETTO_INTERFACES: expected interfaces that are up");
  expect_contains(interface, "lo");
  EXPECT_EQ(error_of([] { Engine::create(memory_store(), {.rank = 2, .size = 2}, tcp(0)); }),
            "engine: rank 2 is not below the size 2 of the job");
}

TEST(EngineErrors, NamesGroupsAndHandles) {
  const auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, tcp(0));
  EXPECT_EQ(error_of([&] {
              engine->add_group("g", {0, 7});
            }),
            "group 'g': rank 7 does not exist in a job of 1 ranks");
  EXPECT_EQ(error_of([&] { engine->add_group("g", {0, 0}); }), "group 'g': rank 0 is listed twice");
  EXPECT_EQ(error_of([&] { engine->add_group("g", {}); }),
            "group 'g': this rank, 0, is not a member; only members make a group");
  engine->add_group("g", {0});
  EXPECT_EQ(error_of([&] { engine->add_group("g", {0}); }),
            "group 'g': these ranks have a group of this name already");
  EXPECT_EQ(error_of([&] { engine->remove_group(kWorld); }),
            "remove_group: the group of all ranks cannot be removed");
  EXPECT_EQ(error_of([&] { engine->remove_group(5); }), "group 5 does not exist or was removed");
  EXPECT_EQ(error_of([&] { engine->wait(99); }),
            "wait: handle 99 is unknown, or was waited for before");
  EXPECT_EQ(error_of([&] { engine->poll(99); }),
            "poll: handle 99 is unknown, or was waited for before");
  EXPECT_EQ(error_of([&] { engine->source(99); }),
            "source: handle 99 is unknown, or was waited for before");
  EXPECT_EQ(error_of([&] { engine->deliver(99); }),
            "deliver: handle 99 is unknown, or was waited for before");
}

// The message comes before its recv or after it, with its data or as a request to send.
TEST(EngineErrors, NamesTheLengthsOfAMessageThatDoesNotFit) {
  for (const bool sends_first : {true, false}) {
    for (const int64_t sent : {3, 100'000}) {
      SCOPED_TRACE(fmt::format("{} values, {} first", sent, sends_first ? "send" : "recv"));
      const auto errors = run_ranks(
          2,
          [](int rank) {
            Options options = tcp(rank);
            options.streams = 1;  // so that messages arrive in the order in which they were sent
            return options;
          },
          [&](Engine& engine) {
            const bool sender = engine.membership().rank == 0;
            std::vector<float> data(static_cast<size_t>(sent) + 2);
            float one = 1;
            const Operation barrier{.count = 1, .input = &one, .output = &one};
            const Operation message{.kind = sender ? Kind::kSend : Kind::kRecv,
                                    .peer = sender ? 1 : 0,
                                    .tag = 9,
                                    .count = sender ? sent : sent + 2,
                                    .input = data.data(),
                                    .output = data.data()};
            if (sender != sends_first) engine.wait(engine.submit(kWorld, barrier));
            const Handle handle = engine.submit(kWorld, message);
            if (sender == sends_first) engine.wait(engine.submit(kWorld, barrier));
            engine.wait(handle);
            if (sender) engine.wait(engine.submit(kWorld, barrier));  // its data had left before
          });
      for (const std::string& error : errors) {
        expect_contains(error, fmt::format("rank 0 sent rank 1 {} bytes with tag 9, but rank 1 "
                                           "receives {} bytes",
                                           4 * sent, 4 * sent + 8));
      }
    }
  }
}

TEST(EngineErrors, AnAlgorithmThatDoesNotFitSaysWhy) {
  Options options = tcp(0);
  options.algorithm = "ring";
  const auto errors = run_ranks(
      2, [&](int) { return options; },
      [](Engine& engine) {
        float x = 1;
        engine.wait(engine.submit(kWorld, {.count = 1, .input = &x, .output = &x}));
      });
  for (const std::string& error : errors)
    expect_contains(error, "all_reduce: algorithm ring cannot do it: ");
}

TEST(StoreErrors, NameTheAddressAndTheFix) {
  EXPECT_EQ(error_of([] { open_store("nowhere", false); }),
            "store: 'nowhere' is neither HOST:PORT nor a folder, which has a '/'");
  expect_contains(error_of([] { open_store("/proc/none/store", false); }),
                  "store: the folder cannot be made: ");
  expect_contains(error_of([] { open_store("192.0.2.1:1", true); }),
                  "store: rank 0 cannot listen at 192.0.2.1:1: ");
  expect_contains(
      error_of([] { open_store("127.0.0.1:1", false)->get("k", 0.1); }),
      "store at 127.0.0.1:1: rank 0 cannot be reached: Connection refused within 0.1 s");
  expect_contains(error_of([] { open_store("127.0.0.1:port", false)->get("k", 0.1); }),
                  "the address cannot be used: ");
  EXPECT_EQ(error_of([] { memory_store()->get("k", 0.01); }),
            "store: no rank set 'k' within 0.01 s");
}

}  // namespace
}  // namespace stretto::comm
