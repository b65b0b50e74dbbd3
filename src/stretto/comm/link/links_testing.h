// For tests: links of ranks that are polled by whoever wants to, and what they exchange.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/comm/link/links.h"

namespace stretto::comm::testing {

inline constexpr double kPatience_s = 120;

// 0 streams: shared memory.
inline Options patient(int streams, double redial_s, MacUse mac = MacUse::kAuto) {
  Options options;
  options.mac = mac;
  options.redial_s = redial_s;
  options.transports = streams == 0 ? "shm" : "tcp";
  if (streams > 0) options.streams = streams;
  options.tuning = Tuning::kOff;  // no more streams than that
  options.chunk_bytes = 8 << 10;
  options.connect_timeout_s = kPatience_s;
  options.silent_limit_s = kPatience_s;
  return options;
}

// Links of one rank, polled by whoever wants to.
struct Node {
  Node(Store& store, Membership membership, int streams, double redial_s = 1)
      : Node(store, membership, patient(streams, redial_s)) {}
  Node(Store& store, Membership membership, Options chosen)
      : options(std::move(chosen)), links(store, membership, options) {}

  void poll(double wait_s) {
    std::unique_lock lock(mutex);
    links.poll(lock, wait_s);
  }

  bool form() {
    const double deadline = now_s() + kPatience_s;
    while (!links.formed() && now_s() < deadline) poll(0.1);
    return links.formed();
  }

  Options options;
  std::mutex mutex;
  Links links;
};

// Connects all streams, which otherwise wait for large messages.
inline void open_all_streams(std::vector<std::unique_ptr<Node>>& nodes, int streams) {
  const auto whole = [&] {
    for (const auto& node : nodes) {
      for (const Link* link : node->links.all()) {
        if (link->living_streams() < streams) return false;
      }
    }
    return true;
  };
  for (const auto& node : nodes) {
    for (const Link* link : node->links.all()) node->links.open_streams(link->rank(), streams);
  }
  const double deadline = now_s() + kPatience_s;
  while (!whole() && now_s() < deadline) {
    for (auto& node : nodes) node->poll(0.0002);
  }
  EXPECT_TRUE(whole()) << "streams are missing";
}

// All ranks of a job, formed by as many threads; with the first streams only.
inline std::vector<std::unique_ptr<Node>> form_job(Store& store, int size, uint32_t epoch,
                                                   const Options& options) {
  std::vector<std::unique_ptr<Node>> nodes(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      nodes[rank] = std::make_unique<Node>(
          store, Membership{.rank = rank, .size = size, .epoch = epoch}, options);
      EXPECT_TRUE(nodes[rank]->form()) << "rank " << rank << ": " << nodes[rank]->links.missing();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return nodes;
}

// With all streams.
inline std::vector<std::unique_ptr<Node>> form_job(Store& store, int size, uint32_t epoch,
                                                   int streams, double redial_s = 1,
                                                   MacUse mac = MacUse::kAuto) {
  auto nodes = form_job(store, size, epoch, patient(streams, redial_s, mac));
  open_all_streams(nodes, streams);
  return nodes;
}

inline void fill(std::vector<std::byte>& data, unsigned seed) {
  std::mt19937 random(seed);
  for (size_t i = 0; i < data.size(); i += 4) {
    const auto word = static_cast<uint32_t>(random());
    std::memcpy(&data[i], &word, std::min<size_t>(4, data.size() - i));
  }
}

// What message number i from a rank holds.
inline std::vector<std::byte> content(int from, int i) {
  std::mt19937 random(static_cast<unsigned>(1000 * from + i));
  const int kind = static_cast<int>(random() % 10);
  std::vector<std::byte> data(kind == 0 ? 0 : random() % (kind < 6 ? 200 : 60'000));
  fill(data, static_cast<unsigned>(random()));
  return data;
}

}  // namespace stretto::comm::testing
