// A store in the memory of one rank, which other ranks reach over TCP.
//
//   request  'S' or 'G', 4 bytes length of the key, 4 bytes length of the value, key, value
//   reply    to 'G', when there is a value: 4 bytes length, value; to 'S': 4 bytes zero
//
// Little-endian. A connection carries any number of requests, one after the other.
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/thread.h"
#include "stretto/comm/store/store.h"
#include "stretto/comm/store/store_map.h"
#include "stretto/comm/system/children.h"
#include "stretto/comm/system/descriptors.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm {
namespace {

constexpr size_t kRequestBytes = 9;
constexpr uint32_t kMaxKey = 4 << 10;
constexpr uint32_t kMaxValue = 1 << 20;
constexpr size_t kMaxGuests = 16384;
constexpr size_t kMaxHeard = kRequestBytes + kMaxKey + kMaxValue;  // of a guest, not yet answered
constexpr size_t kMaxUnsent = 2 << 20;    // of answers that a guest has not taken
constexpr size_t kMaxStored = 256 << 20;  // what guests may store: everybody who knows the port
constexpr int kBacklog = 1024;
constexpr double kRetry_s = 0.05;

struct HostPort {
  std::string host, port;
};

HostPort split(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == address.npos || colon == 0 || colon + 1 == address.size())
    throw_invalid("store: '{}' is neither HOST:PORT nor a folder, which has a '/'", address);
  std::string host(address.substr(0, colon));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return {host, std::string(address.substr(colon + 1))};
}

// The addresses of a name; `error` says why there are none.
struct Addresses {
  explicit Addresses(const HostPort& at, int flags) {
    const addrinfo hints{.ai_flags = flags | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    error = getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &first);
  }
  ~Addresses() {
    if (first) freeaddrinfo(first);
  }
  addrinfo* first = nullptr;
  int error = 0;
};

std::string request(char what, std::string_view key, std::string_view value) {
  const uint32_t lengths[2] = {static_cast<uint32_t>(key.size()),
                               static_cast<uint32_t>(value.size())};
  std::string text(1, what);
  text.append(reinterpret_cast<const char*>(lengths), sizeof lengths);
  return text.append(key).append(value);
}

std::string reply(std::string_view value) {
  const auto length = static_cast<uint32_t>(value.size());
  return std::string(reinterpret_cast<const char*>(&length), sizeof length).append(value);
}

void check_sizes(std::string_view key, std::string_view value) {
  if (key.size() > kMaxKey || value.size() > kMaxValue)
    throw_invalid(
        "store: a key of {} bytes and a value of {} bytes are too large; the limits are {} "
        "and {}",
        key.size(), value.size(), kMaxKey, kMaxValue);
}

// The serving rank's store: its own calls use the map, a thread answers the other ranks.
class Server : public Store {
 public:
  explicit Server(const std::string& address)
      : doorbell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), listener_(listen_at(address)) {
    thread_ = start_thread("store", [this] { serve(); });
  }

  ~Server() override {
    stopping_ = true;
    ring();
    thread_.join();
  }

  void set(std::string_view key, std::string_view value) override {
    check_sizes(key, value);
    values_.set(key, value);
    ring();
  }

  std::string get(std::string_view key, double timeout_s) override {
    return values_.get(key, timeout_s);
  }

 private:
  struct Guest {
    Fd socket;
    std::string heard, to_say;
    bool gone = false;
  };

  static Fd listen_at(const std::string& address) {
    const HostPort at = split(address);
    const Addresses addresses(at, AI_PASSIVE);
    std::string reason = addresses.error ? gai_strerror(addresses.error) : "";
    for (const addrinfo* a = addresses.first; a; a = a->ai_next) {
      Fd fd(socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      const int on = 1;
      // The port of a job that ended a moment ago can be used at once.
      if (fd) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      close_in_children(fd.get());
      if (fd && bind(fd.get(), a->ai_addr, a->ai_addrlen) == 0 && listen(fd.get(), kBacklog) == 0)
        return fd;
      reason = std::strerror(errno);
    }
    throw CommError(-1, "store",
                    fmt::format("store: rank 0 cannot listen at {}: {}; use an address of its "
                                "host and a free port",
                                address, reason));
  }

  void ring() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t wrote = write(doorbell_.get(), &one, sizeof one);
  }

  void serve() {
    std::list<Guest> guests;
    std::vector<pollfd> polled;
    bool rests = false;  // no descriptor is left, and the listener would be ready all the time
    while (true) {
      const short listens = rests || guests.size() >= kMaxGuests ? 0 : POLLIN;
      polled.assign({{doorbell_.get(), POLLIN, 0}, {listener_.get(), listens, 0}});
      for (const Guest& guest : guests) {
        const bool hears = guest.heard.size() < kMaxHeard && guest.to_say.size() < kMaxUnsent;
        const int events = (hears ? POLLIN : 0) | (guest.to_say.empty() ? 0 : POLLOUT);
        polled.push_back({guest.socket.get(), static_cast<short>(events), 0});
      }
      ::poll(polled.data(), polled.size(), rests ? kRest_ms : -1);
      uint64_t rings;
      [[maybe_unused]] const ssize_t rang = read(doorbell_.get(), &rings, sizeof rings);
      if (stopping_) return;
      size_t i = 2;
      for (Guest& guest : guests) {
        const pollfd& state = polled[i++];
        if ((state.events & POLLIN) && (state.revents & ~POLLOUT)) hear(guest);
        // It may have hung up while nothing is read from it.
        if (!(state.events & POLLIN) && (state.revents & (POLLHUP | POLLERR))) guest.gone = true;
        answer(guest);
        speak(guest);
      }
      guests.remove_if([](const Guest& guest) { return guest.gone; });
      rests = false;
      while (guests.size() < kMaxGuests) {
        Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) {
          rests = out_of_descriptors(errno);
          break;
        }
        close_in_children(socket.get());
        guests.push_back({.socket = std::move(socket), .heard{}, .to_say{}});
      }
    }
  }

  static void hear(Guest& guest) {
    char text[16 << 10];
    while (guest.heard.size() < kMaxHeard) {
      const ssize_t got = recv(guest.socket.get(), text, sizeof text, MSG_DONTWAIT);
      if (got < 0) {
        guest.gone = errno != EAGAIN && errno != EINTR;
        return;
      }
      if (got == 0) {
        guest.gone = true;
        return;
      }
      guest.heard.append(text, static_cast<size_t>(got));
    }
  }

  // Answers complete requests. A 'G' for a key that is not set yet stays in the buffer.
  void answer(Guest& guest) {
    while (guest.heard.size() >= kRequestBytes && guest.to_say.size() < kMaxUnsent) {
      uint32_t lengths[2];
      std::memcpy(lengths, guest.heard.data() + 1, sizeof lengths);
      const char what = guest.heard[0];
      if ((what != 'S' && what != 'G') || lengths[0] > kMaxKey || lengths[1] > kMaxValue) {
        guest.gone = true;
        return;
      }
      const size_t whole = kRequestBytes + lengths[0] + lengths[1];
      if (guest.heard.size() < whole) return;
      const std::string key = guest.heard.substr(kRequestBytes, lengths[0]);
      if (what == 'S') {
        stored_ += key.size() + lengths[1];
        if (stored_ > kMaxStored) {
          guest.gone = true;
          return;
        }
        set(key, guest.heard.substr(kRequestBytes + lengths[0], lengths[1]));
        guest.to_say += reply("");
      } else {
        const std::optional<std::string> value = values_.find(key);
        if (!value) return;
        guest.to_say += reply(*value);
      }
      guest.heard.erase(0, whole);
    }
  }

  static void speak(Guest& guest) {
    while (!guest.to_say.empty()) {
      const ssize_t sent = send(guest.socket.get(), guest.to_say.data(), guest.to_say.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) {
        guest.gone |= errno != EAGAIN && errno != EINTR;
        return;
      }
      guest.to_say.erase(0, static_cast<size_t>(sent));
    }
  }

  static constexpr int kRest_ms = 100;

  StoreMap values_;
  size_t stored_ = 0;  // bytes that guests have set
  std::atomic<bool> stopping_{false};
  Fd doorbell_, listener_;
  std::thread thread_;
};

// The store of all other ranks. The server may start after them.
class Client : public Store {
 public:
  explicit Client(std::string address) : address_(std::move(address)), at_(split(address_)) {}

  void set(std::string_view key, std::string_view value) override {
    check_sizes(key, value);
    ask(request('S', key, value), kSetTimeout_s, "rank 0 did not answer");
  }

  std::string get(std::string_view key, double timeout_s) override {
    check_sizes(key, "");
    return ask(request('G', key, ""), timeout_s, fmt::format("no rank set '{}'", key));
  }

 private:
  static constexpr double kSetTimeout_s = 60;

  std::string ask(const std::string& question, double timeout_s, const std::string& missing) {
    std::lock_guard lock(mutex_);
    const double deadline = now_s() + timeout_s;
    std::string reason = missing;
    while (true) {
      if (!socket_) connect(deadline, &reason);
      if (socket_) reason = missing;
      if (socket_ && send_all(question, deadline)) {
        uint32_t length = 0;
        std::string value;
        if (receive(&length, sizeof length, deadline) && length <= kMaxValue) {
          value.resize(length);
          if (receive(value.data(), length, deadline)) return value;
        }
      }
      // After half a request or half a reply the connection cannot be used any more.
      socket_ = Fd();
      const double left = deadline - now_s();
      if (left <= 0) break;
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kRetry_s)));
    }
    throw CommError(-1, "store",
                    fmt::format("store at {}: {} within {:g} s", address_, reason, timeout_s));
  }

  void connect(double deadline, std::string* reason) {
    const Addresses addresses(at_, 0);
    if (addresses.error)
      *reason = fmt::format("the address cannot be used: {}", gai_strerror(addresses.error));
    for (const addrinfo* a = addresses.first; a; a = a->ai_next) {
      Fd fd(socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      if (!fd) continue;
      close_in_children(fd.get());
      const int on = 1;
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      int error = ::connect(fd.get(), a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
      if (error == EINPROGRESS && ready(fd.get(), POLLOUT, deadline)) {
        socklen_t size = sizeof error;
        getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
      }
      if (error == 0) {
        socket_ = std::move(fd);
        return;
      }
      // When the time is up during an attempt, the reason of the attempt before says more.
      if (error != EINPROGRESS)
        *reason = fmt::format("rank 0 cannot be reached: {}", std::strerror(error));
    }
  }

  static bool ready(int fd, short what, double deadline) {
    const double left = deadline - now_s();
    pollfd polled{fd, what, 0};
    return left > 0 && ::poll(&polled, 1, static_cast<int>(left * 1000) + 1) > 0;
  }

  bool send_all(std::string_view text, double deadline) {
    while (!text.empty()) {
      const ssize_t sent =
          send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        text.remove_prefix(static_cast<size_t>(sent));
      } else if ((errno != EAGAIN && errno != EINTR) || !ready(socket_.get(), POLLOUT, deadline)) {
        return false;
      }
    }
    return true;
  }

  bool receive(void* to, size_t bytes, double deadline) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got = recv(socket_.get(), at, bytes, MSG_DONTWAIT);
      if (got > 0) {
        at += got;
        bytes -= static_cast<size_t>(got);
      } else if (got == 0 || (errno != EAGAIN && errno != EINTR) ||
                 !ready(socket_.get(), POLLIN, deadline)) {
        return false;
      }
    }
    return true;
  }

  const std::string address_;
  const HostPort at_;
  std::mutex mutex_;
  Fd socket_;
};

}  // namespace

std::shared_ptr<Store> tcp_store(const std::string& address, bool serves) {
  if (serves) return std::make_shared<Server>(address);
  return std::make_shared<Client>(address);
}

std::shared_ptr<Store> open_store(const std::string& where, bool serves) {
  if (where.find('/') != where.npos) return file_store(where);
  return tcp_store(where, serves);
}

}  // namespace stretto::comm
