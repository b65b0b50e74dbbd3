// What must happen when a rank or a link breaks: within the time that is promised, every other rank
// raises the same error, which names the rank and the link, and a new job of those that are left
// works. Ranks are processes here; bench/comm/soak.py does the same for longer.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/comm/engine/engine.h"
#include "stretto/comm/engine/faults_testing.h"
#include "stretto/comm/system/namespaces_testing.h"
#include "stretto/comm/system/processes_testing.h"

namespace stretto::comm {
namespace {

using testing::Child;
using testing::Folder;
using testing::Namespaces;
using testing::Processes;
using testing::Relay;
using testing::RelayedStore;

constexpr double kSilentLimit_s = 2;  // of these tests; 10 by default
constexpr double kBroken_s = 5;       // promised for what breaks instead of falling silent
constexpr double kSlack_s = 1;        // for a machine that has other things to do
constexpr double kHang_s = 60;        // a test that has to wait so long has failed
constexpr int64_t kLarge = 1 << 20;   // elements

enum class Fault : uint8_t {
  kKill,    // SIGKILL
  kStop,    // SIGSTOP
  kSilent,  // a relay carries nothing any more
  kUnplug,  // a network namespace's cable is pulled at the other end
};

struct Trial {
  Fault fault;
  const char* transports;
  int size;
  int victim;
  bool busy;  // the fault comes amid large operations; else while nobody asks for anything
  int mesh_ranks = Options{}.mesh_ranks;
};

Options options_of(const Trial& trial) {
  Options options;
  options.transports = trial.transports;
  // A killed rank is noticed at once. The limit leaves time to agree on the reason, which takes the
  // other ranks longer on a busy machine.
  options.silent_limit_s = trial.fault == Fault::kKill ? 5 * kSilentLimit_s : kSilentLimit_s;
  options.connect_timeout_s = kHang_s / 2;
  options.operation_timeout_s = kHang_s / 2;
  options.mesh_ranks = trial.mesh_ranks;
  return options;
}

// Says "ready", "error <time> <rank>|<link>|<text>", and "again" when the survivors' next job
// works.
void be_rank(const Trial& trial, int rank, const std::string& folder, const Relay* relay,
             const Child& child) {
  const bool relayed = trial.fault == Fault::kSilent;
  const auto store = std::make_shared<RelayedStore>(folder, relay, [&](int other) {
    return relayed && (rank == trial.victim || other == trial.victim);
  });
  const Options options = options_of(trial);
  auto engine = Engine::create(store, {.rank = rank, .size = trial.size}, options);
  child.say("ready");
  std::vector<std::vector<float>> x(3, std::vector<float>(trial.busy ? kLarge : 1));
  if (!trial.busy) child.await_nudge();
  try {
    while (true) {
      std::vector<Handle> handles;
      for (auto& v : x)
        handles.push_back(engine->submit(kWorld, {.reduction = ReduceOp::kSum,
                                                  .count = static_cast<int64_t>(v.size()),
                                                  .input = v.data(),
                                                  .output = v.data()}));
      for (Handle handle : handles) engine->wait(handle);
    }
  } catch (const CommError& e) {
    child.say(fmt::format("error {} {}|{}|{}", now_s(), e.rank(), e.link(), e.what()));
  }
  engine.reset();
  if (rank == trial.victim) return;
  const int place = rank - (rank > trial.victim);
  engine = Engine::create(store, {.rank = place, .size = trial.size - 1, .epoch = 1}, options);
  float one = 1;
  engine->wait(engine->submit(
      kWorld, {.reduction = ReduceOp::kSum, .count = 1, .input = &one, .output = &one}));
  child.say(one == static_cast<float>(trial.size - 1) ? "again" : "a wrong sum");
}

void try_fault(const Trial& trial, unsigned seed, Namespaces* namespaces = nullptr) {
  SCOPED_TRACE(fmt::format("fault {}, {}, rank {} of {}, {}, seed {}",
                           static_cast<int>(trial.fault), trial.transports, trial.victim,
                           trial.size, trial.busy ? "busy" : "idle", seed));
  const Folder folder;
  Relay relay(folder.path, trial.size);
  Processes processes;
  const int relay_number = trial.size;
  if (trial.fault == Fault::kSilent)
    processes.start(relay_number, [&](const Child&) { relay.run(); });
  for (int rank = 0; rank < trial.size; ++rank) {
    processes.start(rank, [&](const Child& child) {
      if (namespaces) namespaces->enter(rank);
      be_rank(trial, rank, folder.path, &relay, child);
    });
  }
  for (int rank = 0; rank < trial.size; ++rank)
    ASSERT_EQ(processes.line(rank, kHang_s), "ready") << "rank " << rank;
  std::mt19937 random(seed);
  std::this_thread::sleep_for(std::chrono::milliseconds(50 + random() % 200));

  double fault_s = now_s();
  if (trial.fault == Fault::kKill) processes.signal(trial.victim, SIGKILL);
  if (trial.fault == Fault::kStop) processes.signal(trial.victim, SIGSTOP);
  if (trial.fault == Fault::kSilent) processes.signal(relay_number, SIGSTOP);
  if (trial.fault == Fault::kUnplug) namespaces->isolate(trial.victim);
  const double limit_s = trial.fault == Fault::kKill ? kBroken_s : kSilentLimit_s;
  if (!trial.busy) {
    // Who asks after the limit has to be told at once.
    std::this_thread::sleep_for(
        std::chrono::duration<double>(trial.fault == Fault::kKill ? 0.5 : kSilentLimit_s));
    fault_s = now_s() - limit_s;
    for (int rank = 0; rank < trial.size; ++rank) processes.nudge(rank);
  }
  std::string first;
  for (int rank = 0; rank < trial.size; ++rank) {
    if (rank == trial.victim) continue;
    const std::string line = processes.line(rank, kHang_s);
    double at_s = 0;
    int begin = 0;
    ASSERT_EQ(sscanf(line.c_str(), "error %lf %n", &at_s, &begin), 1) << line;
    EXPECT_LT(at_s - fault_s, limit_s + kSlack_s) << "rank " << rank;
    const std::string error = line.substr(begin);
    if (first.empty()) first = error;
    EXPECT_EQ(error, first) << "rank " << rank;
  }
  EXPECT_TRUE(first.starts_with(
      fmt::format("{}|{}", trial.victim, std::string_view(trial.transports).substr(0, 3))))
      << first;
  EXPECT_NE(first.find(fmt::format("|rank {} is lost (", trial.victim)), first.npos) << first;
  for (int rank = 0; rank < trial.size; ++rank) {
    if (rank == trial.victim) continue;
    EXPECT_EQ(processes.line(rank, kHang_s), "again") << "rank " << rank;
  }
  if (trial.fault == Fault::kKill) return;
  // The one that was given up is told so when it comes back, or finds out by itself.
  if (trial.fault == Fault::kStop) processes.signal(trial.victim, SIGCONT);
  const std::string line = processes.line(trial.victim, kHang_s);
  EXPECT_TRUE(line.starts_with("error")) << line;
  EXPECT_EQ(processes.line(trial.victim, kHang_s), "(ended)");
}

TEST(Faults, AKilledRankIsNamedByAll) {
  unsigned seed = 1;
  for (const char* transports : {"shm", "tcp"}) {
    try_fault({Fault::kKill, transports, 3, 2, false}, seed++);
    for (int size : {2, 5}) try_fault({Fault::kKill, transports, size, size / 3, true}, seed++);
  }
}

TEST(Faults, AStoppedRankIsNamedByAll) {
  try_fault({Fault::kStop, "shm", 3, 2, true}, 1);
  try_fault({Fault::kStop, "tcp", 4, 1, false}, 2);
  try_fault({Fault::kStop, "tcp", 3, 0, true}, 3);
}

// Nobody is connected to everybody, and few to the victim: verdicts have to be handed on.
TEST(Faults, ALostRankIsNamedByThoseWithoutALinkToIt) {
  try_fault({Fault::kKill, "shm", 9, 4, false, 2}, 1);
  try_fault({Fault::kKill, "tcp", 9, 0, true, 2}, 2);
  try_fault({Fault::kStop, "tcp", 9, 8, false, 2}, 3);
}

TEST(Faults, ASilentLinkIsNamedByAll) { try_fault({Fault::kSilent, "tcp", 3, 1, true}, 1); }

TEST(Faults, AnUnpluggedHostIsNamedByAll) {
  const std::string missing = Namespaces::unavailable();
  if (!missing.empty()) GTEST_SKIP() << missing;
  Namespaces namespaces(3, 1);
  try_fault({Fault::kUnplug, "tcp", 3, 2, true}, 1, &namespaces);
}

// Two rails between two hosts; one is cut amid the operation. It has to be completed over the
// other.
TEST(Faults, ACutRailCostsTimeOnly) {
  const std::string missing = Namespaces::unavailable();
  if (!missing.empty()) GTEST_SKIP() << missing;
  Namespaces namespaces(2, 2);
  const Folder folder;
  Processes processes;
  constexpr int kOperations = 40;
  for (int rank = 0; rank < 2; ++rank) {
    processes.start(rank, [&](const Child& child) {
      namespaces.enter(rank);
      Options options = options_of({Fault::kUnplug, "tcp", 2, 0, true});
      options.interfaces = {"eth0", "eth1"};
      options.streams = 2;
      options.tuning = Tuning::kOff;  // no more than those
      auto engine = Engine::create(file_store(folder.path), {.rank = rank, .size = 2}, options);
      child.say("ready");
      child.await_nudge();
      std::vector<float> x(kLarge);
      for (int i = 0; i < kOperations; ++i) {
        for (int64_t j = 0; j < kLarge; ++j) x[j] = static_cast<float>((j + i) % 100 + rank);
        engine->wait(engine->submit(
            kWorld,
            {.reduction = ReduceOp::kSum, .count = kLarge, .input = x.data(), .output = x.data()}));
        for (int64_t j = 0; j < kLarge; ++j) {
          if (x[j] != static_cast<float>(2 * ((j + i) % 100) + 1)) {
            child.say(fmt::format("a wrong sum: operation {}, element {}", i, j));
            return;
          }
        }
        if (i == 2) child.say("under way");
      }
      // Where the first rail could carry everything that was left, only heartbeats miss the second.
      int alive = 2;
      for (const double until = now_s() + kHang_s / 2; alive > 1 && now_s() < until;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        alive = 0;
        const Statistics statistics = engine->statistics();
        for (const StreamStatistics& stream : statistics.links[0].streams) alive += stream.alive;
      }
      child.say(fmt::format("done over {} of 2 streams", alive));
      child.await_nudge();  // nobody leaves while the other still looks
    });
  }
  for (int rank = 0; rank < 2; ++rank) ASSERT_EQ(processes.line(rank, kHang_s), "ready");
  for (int rank = 0; rank < 2; ++rank) processes.nudge(rank);
  for (int rank = 0; rank < 2; ++rank) ASSERT_EQ(processes.line(rank, kHang_s), "under way");
  namespaces.isolate(0, 1);
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(processes.line(rank, kHang_s), "done over 1 of 2 streams") << "rank " << rank;
}

// What a data loader's worker is: forked while the engine works, and alive when its parent is not.
// The limit for silence is far away, so the survivors can only go by the ends of sockets.
void try_orphan(const char* transports) {
  SCOPED_TRACE(transports);
  const Folder folder;
  Processes processes;
  constexpr int kSize = 3, kVictim = 1;
  const Options options = [&] {
    Options o = options_of({Fault::kKill, transports, kSize, kVictim, true});
    o.silent_limit_s = 2 * kHang_s;
    return o;
  }();
  for (int rank = 0; rank < kSize; ++rank) {
    processes.start(rank, [&](const Child& child) {
      auto engine = Engine::create(file_store(folder.path), {.rank = rank, .size = kSize}, options);
      std::vector<float> x(kLarge);
      const auto submit = [&] {
        return engine->submit(
            kWorld,
            {.reduction = ReduceOp::kSum, .count = kLarge, .input = x.data(), .output = x.data()});
      };
      engine->wait(submit());
      const Handle under_way = submit();
      if (rank == kVictim) {
        if (fork() == 0) {
          try {
            submit();
            child.say("took part");
          } catch (const InvalidArgument& e) {
            child.say(e.what());
          }
          engine.reset();
          child.say(fmt::format("orphan {}", getpid()));
          while (true) pause();
        }
      } else {
        child.say("ready");
      }
      try {
        engine->wait(under_way);
        while (true) engine->wait(submit());
      } catch (const CommError& e) {
        child.say(fmt::format("error {}", e.rank()));
      }
    });
  }
  EXPECT_EQ(processes.line(kVictim, kHang_s),
            "engine: it was made before fork(), and works only in the process that made it");
  const std::string orphan = processes.line(kVictim, kHang_s);
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == kVictim) continue;
    EXPECT_EQ(processes.line(rank, kHang_s), "ready");
  }
  processes.signal(kVictim, SIGKILL);
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == kVictim) continue;
    EXPECT_EQ(processes.line(rank, kBroken_s + kSlack_s), fmt::format("error {}", kVictim));
  }
  ASSERT_TRUE(orphan.starts_with("orphan ")) << orphan;
  const pid_t pid = std::stoi(orphan.substr(7));
  EXPECT_EQ(kill(pid, 0), 0) << "it has to outlive the test to mean anything";
  kill(pid, SIGKILL);
}

TEST(Faults, AForkedChildDoesNotKeepADeadRankAlive) {
  for (const char* transports : {"tcp", "shm"}) try_orphan(transports);
}

}  // namespace
}  // namespace stretto::comm
