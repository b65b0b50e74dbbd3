// For tests of what happens when links break: a relay between ranks that can fall silent.
#pragma once

#include <arpa/inet.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/comm/store/store.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm::testing {

// Carries connections to ranks of epoch 0 over ports of its own. While its process is stopped, what
// it carries is silent, and neither side is told.
class Relay {
 public:
  Relay(std::string folder, int size) : folder_(std::move(folder)) {
    for (int rank = 0; rank < size; ++rank) {
      Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address = loopback(0);
      socklen_t length = sizeof address;
      STRETTO_CHECK(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                        listen(fd.get(), 64) == 0 &&
                        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0,
                    "no port for the relay");
      ports_.push_back(ntohs(address.sin_port));
      listeners_.push_back(std::move(fd));
    }
  }

  int port(int rank) const { return ports_[rank]; }

  // The relay's process.
  void run() {
    std::vector<std::pair<Fd, Fd>> carried;
    while (true) {
      std::vector<pollfd> polled;
      for (const Fd& fd : listeners_) polled.push_back({fd.get(), POLLIN, 0});
      for (const auto& [a, b] : carried) {
        if (!a) continue;
        polled.push_back({a.get(), POLLIN, 0});
        polled.push_back({b.get(), POLLIN, 0});
      }
      ::poll(polled.data(), polled.size(), -1);
      std::map<int, bool> ready;
      for (const pollfd& p : polled) ready[p.fd] = p.revents != 0;
      for (auto& [a, b] : carried) {
        if (!a) continue;
        const bool alive = (!ready[a.get()] || carry(a.get(), b.get())) &&
                           (!ready[b.get()] || carry(b.get(), a.get()));
        if (!alive) a = Fd(), b = Fd();
      }
      for (size_t rank = 0; rank < listeners_.size(); ++rank) {
        if (!ready[listeners_[rank].get()]) continue;
        Fd guest(accept(listeners_[rank].get(), nullptr, nullptr));
        const auto record = nlohmann::json::parse(
            file_store(folder_)->get(fmt::format("stretto/0/rank/{}", rank), 60));
        Fd target(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const sockaddr_in address = loopback(record.at("port"));
        if (connect(target.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
          carried.emplace_back(std::move(guest), std::move(target));
      }
    }
  }

 private:
  static sockaddr_in loopback(int port) {
    return {.sin_family = AF_INET,
            .sin_port = htons(static_cast<uint16_t>(port)),
            .sin_addr = {htonl(INADDR_LOOPBACK)},
            .sin_zero = {}};
  }

  static bool carry(int from, int to) {
    char data[64 << 10];
    const ssize_t got = recv(from, data, sizeof data, MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t step = send(to, data + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
      if (step <= 0) return false;
      sent += step;
    }
    return true;
  }

  const std::string folder_;
  std::vector<Fd> listeners_;
  std::vector<int> ports_;
};

// What a rank reads there leads it through the relay to the ranks that it shall not reach directly.
class RelayedStore : public Store {
 public:
  RelayedStore(const std::string& folder, const Relay* relay, std::function<bool(int)> relayed)
      : store_(file_store(folder)), relay_(relay), relayed_(std::move(relayed)) {}
  void set(std::string_view key, std::string_view value) override { store_->set(key, value); }
  std::string get(std::string_view key, double timeout_s) override {
    constexpr std::string_view kRecord = "stretto/0/rank/";
    const std::string value = store_->get(key, timeout_s);
    if (!key.starts_with(kRecord)) return value;
    const int rank = std::stoi(std::string(key.substr(kRecord.size())));
    if (!relayed_(rank)) return value;
    auto record = nlohmann::json::parse(value);
    record["port"] = relay_->port(rank);
    return record.dump();
  }

 private:
  const std::shared_ptr<Store> store_;
  const Relay* const relay_;
  const std::function<bool(int)> relayed_;
};

}  // namespace stretto::comm::testing
