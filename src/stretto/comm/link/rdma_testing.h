// For tests: both ends of an RDMA rail between mock cards (verbs_testing.h).
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "stretto/comm/link/rdma.h"
#include "stretto/comm/link/rdma_queues.h"
#include "stretto/comm/link/verbs_testing.h"

namespace stretto::comm::testing {

inline constexpr int64_t kMessageBytes =
    kSlotBytes - 16;  // payload of a message, beside its header

inline std::shared_ptr<RdmaPort> open_one(Fabric& fabric, const MockCard& card) {
  Options options;
  options.rdma = "auto";
  options.rdma_provider = fabric.machine({card});
  std::string reason;
  const auto ports = open_rdma_ports(options, &reason);
  EXPECT_EQ(ports.size(), 1u) << reason;
  return ports.at(0);
}

inline Proof some_proof() {
  return {.secret = "secret", .hello = encode_hello({.from = 1}), .nonce = random_nonce()};
}

// Both ends of a rail between two cards.
struct Ends {
  explicit Ends(Fabric& fabric, const MockCard& first = {.name = "mock0"},
                const MockCard& second = {.name = "mock1"}, const Proof* other_proof = nullptr) {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
    const Proof proof = some_proof();
    pipes[0] = rdma_pipe(open_one(fabric, first), Fd(sockets[0]), proof, Role::kConnector, "b");
    pipes[1] = rdma_pipe(open_one(fabric, second), Fd(sockets[1]),
                         other_proof ? *other_proof : proof, Role::kAcceptor, "a");
    for (int i = 0; i < 3; ++i) {
      for (auto& pipe : pipes) outcome = std::min(outcome, pipe->read({}));
    }
  }
  Pipe& a() { return *pipes[0]; }
  Pipe& b() { return *pipes[1]; }
  std::unique_ptr<Pipe> pipes[2];
  int64_t outcome = kWouldBlock;  // kBroken when an end broke while they connected
};

inline std::vector<char> random_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<char> bytes(count);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

inline int64_t write_all(Pipe& pipe, const std::vector<char>& bytes) {
  const iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  return pipe.write({&part, 1});
}

inline int64_t read_some(Pipe& pipe, std::vector<char>* into) {
  char bytes[70'000];
  const iovec part{bytes, sizeof bytes};
  const int64_t got = pipe.read({&part, 1});
  if (got > 0) into->insert(into->end(), bytes, bytes + got);
  return got;
}

inline bool readable(const Pipe& pipe) {
  pollfd polled{.fd = pipe.descriptors()[0], .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) == 1;
}

}  // namespace stretto::comm::testing
