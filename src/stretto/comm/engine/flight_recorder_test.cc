#include "stretto/comm/engine/flight_recorder.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "stretto/base/clock.h"
#include "stretto/base/file.h"
#include "stretto/comm/engine/engine_testing.h"

namespace stretto::comm {
namespace {

using nlohmann::json;
using testing::patient;
using testing::run_ranks;

OpenOperation operation(Handle handle, std::string name) {
  OpenOperation open;
  open.handle = handle;
  open.sequence = handle - 1;
  open.submitted_s = now_s();
  open.algorithm = &algorithms(Collective::kAllReduce)[0];
  open.operation = {.count = 8, .name = std::move(name)};
  return open;
}

TEST(FlightRecorder, KeepsTheLastThousand) {
  auto recorder = std::make_unique<FlightRecorder>();
  for (Handle handle = 1; handle <= 2500; ++handle) {
    OpenOperation open = operation(handle, "w" + std::to_string(handle));
    recorder->submitted(open);
    open.started_s = now_s();
    recorder->finished(open, now_s());
  }
  const json record = json::parse(recorder->json({}));
  EXPECT_EQ(record["submitted"], 2500);
  EXPECT_EQ(record["finished"], 2500);
  ASSERT_EQ(record["operations"].size(), FlightRecorder::kOperations);
  EXPECT_EQ(record["operations"][0]["name"], "w1501");
  EXPECT_EQ(record["operations"].back()["name"], "w2500");
  EXPECT_EQ(record["operations"].back()["sequence"], 2499);
  EXPECT_EQ(record["operations"].back()["bytes"], 32);
}

TEST(FlightRecorder, SaysHowEachOperationStands) {
  auto recorder = std::make_unique<FlightRecorder>();
  OpenOperation done = operation(1, "done"), failed = operation(2, "failed"),
                runs = operation(3, "runs"), waits = operation(4, "waits"),
                refused = operation(5, "refused");
  waits.algorithm = nullptr;
  failed.error = std::make_exception_ptr(1);
  runs.started_s = runs.submitted_s;
  for (const OpenOperation* open : {&done, &failed, &runs, &waits, &refused})
    recorder->submitted(*open);
  recorder->finished(done, now_s());
  recorder->finished(failed, now_s());
  const json record = json::parse(recorder->json({.membership = {.rank = 2, .size = 4},
                                                  .host = "h",
                                                  .reason = "a \"test\"",
                                                  .groups = {{0, "world", {0, 1, 2, 3}, 4}},
                                                  .pending = {{&runs, {1, 3}}, {&waits, {}}},
                                                  .peers = {{1, true, false, 0.25}}}));
  std::vector<std::string> states;
  for (const json& row : record["operations"]) states.push_back(row["state"]);
  EXPECT_EQ(states, (std::vector<std::string>{"done", "failed", "under way", "waiting"}));
  EXPECT_EQ(record["operations"][2]["awaited"], (json{1, 3}));
  EXPECT_EQ(record["operations"][2]["sequence"], 2);
  EXPECT_TRUE(record["operations"][3]["sequence"].is_null()) << "it has not begun";
  EXPECT_GE(record["operations"][3]["age_s"].get<double>(), 0);
  EXPECT_EQ(record["reason"], "a \"test\"");
  EXPECT_EQ(record["failed"], 1);
  EXPECT_EQ(record["groups"][0]["next_sequence"], 4);
  EXPECT_EQ(record["peers"][0]["silent_s"], 0.25);
  EXPECT_LT(std::abs(record["time"].get<double>() - static_cast<double>(time(nullptr))), 100);
}

TEST(FlightRecorder, LongNamesAreCutAndStayText) {
  auto recorder = std::make_unique<FlightRecorder>();
  std::string name(FlightRecorder::kNameBytes - 2, 'x');
  recorder->submitted(operation(1, name + "\u00e9\u00e9"));  // cut within a letter
  OpenOperation open = operation(1, "");
  recorder->finished(open, now_s());
  const json record = json::parse(recorder->json({}));
  EXPECT_TRUE(record["operations"][0]["name"].get<std::string>().starts_with(name));
}

std::string fresh_folder(const char* name) {
  const std::string folder = ::testing::TempDir() + "/flight-" + name;
  std::filesystem::remove_all(folder);
  return folder;
}

json record_of(const std::string& folder, int rank) {
  return json::parse(read_file(fmt::format("{}/rank-{:05}.json", folder, rank)));
}

// A job that timed out left nothing behind that said what it had waited for.
TEST(Flight, AHangIsExplainedByEveryRank) {
  const std::string folder = fresh_folder("hang");
  const auto options = [&](int) {
    Options o = patient();
    o.dump = folder;
    return o;
  };
  const auto errors = run_ranks(3, options, [](Engine& engine) {
    std::vector<float> x(100, 1);
    const Operation op{.count = 100, .input = x.data(), .output = x.data(), .name = "first"};
    engine.wait(engine.submit(kWorld, op));
    Operation last = op;
    last.name = "last";
    last.timeout_s = 2;
    if (engine.membership().rank != 1) {
      engine.wait(engine.submit(kWorld, last));
    } else {  // until the others have given up
      const Group own = engine.add_group("own", {1});
      while (true) engine.wait(engine.submit(own, {.kind = Kind::kBarrier}));
    }
  });
  for (int rank : {0, 2}) {
    EXPECT_NE(errors[rank], "");
    const json record = record_of(folder, rank);
    EXPECT_EQ(record["rank"], rank);
    const json& last = record["operations"].back();
    EXPECT_EQ(last["name"], "last");
    EXPECT_EQ(last["state"], "under way");
    EXPECT_GT(last["age_s"].get<double>(), 0);
    const auto awaited = last["awaited"].get<std::vector<int>>();
    EXPECT_NE(std::count(awaited.begin(), awaited.end(), 1), 0) << last.dump();
    EXPECT_EQ(record["operations"][0]["state"], "done");
    EXPECT_NE(record["reason"].get<std::string>().find("is not done after 2 s"), std::string::npos);
  }
  const json lazy = record_of(folder, 1);
  for (const json& row : lazy["operations"]) EXPECT_NE(row["name"], "last");
}

TEST(Flight, NoneMeansNoFile) {
  const std::string before = std::filesystem::current_path();
  const std::string folder = fresh_folder("none");
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  run_ranks(
      2, [](int) { return patient(); }, [](Engine& engine) { engine.abort("enough"); });
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(Flight, AFolderOfSomebodyElseIsNotUsed) {
  const std::string folder = fresh_folder("shared");
  std::filesystem::create_directories(fmt::format("{}/stretto-dump-{}", folder, geteuid()));
  setenv("TMPDIR", folder.c_str(), 1);
  const auto options = [](int) {
    Options o = patient();
    o.dump = "";
    return o;
  };
  const auto fail = [](Engine& engine) { engine.abort("enough"); };
  run_ranks(1, options, fail);  // the folder can be read by all
  const std::string chosen = fmt::format("{}/stretto-dump-{}", folder, geteuid());
  EXPECT_TRUE(std::filesystem::is_empty(chosen));
  std::filesystem::permissions(chosen, std::filesystem::perms::owner_all);
  run_ranks(1, options, fail);
  unsetenv("TMPDIR");
  EXPECT_EQ(record_of(chosen, 0)["reason"], "enough");
}

TEST(Flight, ASignalWritesTheRecordAndTheJobGoesOn) {
  const std::string folder = fresh_folder("signal");
  const auto options = [&](int) {
    Options o = patient();
    o.dump = folder;
    return o;
  };
  testing::expect_no_errors(run_ranks(2, options, [&](Engine& engine) {
    std::vector<float> x(100, 1);
    const Operation op{.count = 100, .input = x.data(), .output = x.data(), .name = "w"};
    engine.wait(engine.submit(kWorld, op));
    if (engine.membership().rank == 0) kill(getpid(), SIGUSR2);
    const double stop = now_s() + 120;
    const std::string file = fmt::format("{}/rank-{:05}.json", folder, engine.membership().rank);
    while (!std::filesystem::exists(file) && now_s() < stop)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    engine.wait(engine.submit(kWorld, op));
  }));
  for (int rank : {0, 1}) {
    EXPECT_EQ(record_of(folder, rank)["reason"], "SIGUSR2");
    EXPECT_EQ(record_of(folder, rank)["operations"][0]["name"], "w");
  }
}

}  // namespace
}  // namespace stretto::comm
