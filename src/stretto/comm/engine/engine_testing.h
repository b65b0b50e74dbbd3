// For tests: a job whose ranks are threads of this process.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "stretto/comm/engine/engine.h"

namespace stretto::comm::testing {

// Options that do not depend on the environment, patient enough for a busy machine.
inline Options patient() {
  Options options;
  options.connect_timeout_s = 120;
  options.silent_limit_s = 120;
  options.operation_timeout_s = 240;
  options.tuning = Tuning::kOff;
  options.streams = 2;
  options.dump = "none";
  return options;
}

// The same over TCP.
inline Options tcp(int) {
  Options options = patient();
  options.transports = "tcp";
  return options;
}

// Ranks of one machine that count as two hosts, interleaved, over TCP.
inline Options two_hosts(int rank) {
  Options options = tcp(rank);
  options.host = rank % 2 ? "odd" : "even";
  return options;
}

// A rank's own values, in [-1, 1): they tell orders of summation apart.
inline std::vector<float> values_of(int rank, int64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank));
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) v = std::uniform_real_distribution<float>(-1, 1)(random);
  return x;
}

// Runs body(engine) on `size` threads with an engine each; options_of(rank) gives its options.
// Returns what each rank threw ("" for nothing).
inline std::vector<std::string> run_ranks(int size, const std::function<Options(int)>& options_of,
                                          const std::function<void(Engine&)>& body,
                                          std::shared_ptr<Store> store = memory_store(),
                                          uint32_t epoch = 0) {
  std::vector<std::string> errors(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        auto engine =
            Engine::create(store, {.rank = rank, .size = size, .epoch = epoch}, options_of(rank));
        body(*engine);
      } catch (const std::exception& e) {
        errors[rank] = e.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline void expect_no_errors(const std::vector<std::string>& errors) {
  for (size_t rank = 0; rank < errors.size(); ++rank)
    EXPECT_EQ(errors[rank], "") << "rank " << rank;
}

}  // namespace stretto::comm::testing
