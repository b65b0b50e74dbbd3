#include "stretto/comm/link/tcp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <unistd.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/comm/link/fork.h"
#include "stretto/comm/link/handshake.h"

namespace stretto::comm {
namespace {

// Bytes that may wait in a socket before it takes no more, divided by the remote ranks. They are
// few, so that a slow stream holds no chunks that a faster one could take and pacing works. They
// are enough to keep the network busy until the thread wakes up again.
constexpr int kUnsentBytes = 256 << 10, kLeastUnsentBytes = 16 << 10;
constexpr int kBacklog = 1024;

std::string system_error(const char* what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

Fd refused(Refusal* refusal, const char* what) {
  const int error = errno;
  *refusal = {error, fmt::format("{}: {}", what, std::strerror(error))};
  return Fd();
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

bool parse_address(const std::string& text, int port, SocketAddress* out) {
  const addrinfo hints{.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(text.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  std::memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
  out->length = found->ai_addrlen;
  freeaddrinfo(found);
  return true;
}

std::string address_text(const sockaddr* address, socklen_t length, bool with_port) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(address, length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  return with_port ? fmt::format("{}:{}", host, port) : host;
}

// The address that packets to the default route leave from. Nothing is sent to find it.
std::string default_route_address() {
  Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SocketAddress world;
  if (!fd || !parse_address("192.0.2.1", 9, &world)) return "";  // RFC 5737: documentation only
  if (connect(fd.get(), world.get(), world.length) != 0) return "";
  SocketAddress own;
  own.length = sizeof own.storage;
  if (getsockname(fd.get(), own.get(), &own.length) != 0) return "";
  return address_text(own.get(), own.length, false);
}

// 0 is the best: the default route's, then IPv4, then IPv6, loopback last.
int address_rank(const Address& address, bool loopback, bool v6, const std::string& preferred) {
  return address.text == preferred ? 0 : 1 + 2 * loopback + v6;
}

std::vector<std::string> names_of(const std::vector<std::pair<int, Address>>& ranked) {
  std::vector<std::string> names;
  for (const auto& [rank, address] : ranked) {
    if (std::find(names.begin(), names.end(), address.interface) == names.end())
      names.push_back(address.interface);
  }
  return names;
}

class TcpPipe : public Pipe {
 public:
  explicit TcpPipe(Fd fd) : fd_(std::move(fd)) {
    SocketAddress own, other;
    own.length = other.length = sizeof own.storage;
    getsockname(fd_.get(), own.get(), &own.length);
    getpeername(fd_.get(), other.get(), &other.length);
    name_ = fmt::format("tcp {} -> {}", address_text(own.get(), own.length, true),
                        address_text(other.get(), other.length, true));
  }

  int64_t write(std::span<const iovec> parts) override {
    const msghdr message{.msg_iov = const_cast<iovec*>(parts.data()), .msg_iovlen = parts.size()};
    return outcome(sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
  }

  int64_t read(std::span<const iovec> parts) override {
    msghdr message{.msg_iov = const_cast<iovec*>(parts.data()), .msg_iovlen = parts.size()};
    const ssize_t got = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (got == 0) {
      reason_ = "closed by the remote rank";
      return kBroken;
    }
    return outcome(got);
  }

  std::vector<int> descriptors() const override { return {fd_.get()}; }
  bool prepare_to_sleep() override { return false; }
  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return reason_; }

 private:
  int64_t outcome(ssize_t moved) {
    if (moved >= 0) return moved;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return kWouldBlock;
    reason_ = std::strerror(errno);
    return kBroken;
  }

  Fd fd_;
  std::string name_, reason_;
};

Fd listening(int family) {
  Fd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  SocketAddress any;
  const int off = 0;
  if (family == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const sockaddr_in6 address{.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    std::memcpy(&any.storage, &address, any.length = sizeof address);
  } else {
    const sockaddr_in address{.sin_family = AF_INET, .sin_addr = {INADDR_ANY}};
    std::memcpy(&any.storage, &address, any.length = sizeof address);
  }
  if (bind(fd.get(), any.get(), any.length) != 0 || listen(fd.get(), kBacklog) != 0) return Fd();
  return fd;
}

sockaddr_un local_address(const std::string& name, socklen_t* length) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  // A first byte of zero makes the name abstract: there is no file.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

}  // namespace

Fd::~Fd() {
  if (fd_ < 0) return;
  keep_in_children(fd_);
  close(fd_);
}

std::vector<Address> local_addresses(const Options& options) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    throw CommError(-1, "tcp", system_error("tcp: cannot list the network interfaces"));
  const std::string preferred = options.interfaces.empty() ? default_route_address() : "";
  std::vector<std::pair<int, Address>> ranked;
  for (const ifaddrs* i = list; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const Address address{
        i->ifa_name,
        address_text(i->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6),
                     false)};
    ranked.emplace_back(
        address_rank(address, i->ifa_flags & IFF_LOOPBACK, family == AF_INET6, preferred), address);
  }
  freeifaddrs(list);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Address> addresses;
  if (options.interfaces.empty()) {
    for (auto& [rank, address] : ranked) addresses.push_back(std::move(address));
    return addresses;
  }
  for (const std::string& wanted : options.interfaces) {
    const auto found = std::find_if(ranked.begin(), ranked.end(), [&](const auto& entry) {
      return entry.second.interface == wanted;
    });
    if (found == ranked.end())
      throw_invalid(
          "STRETTO_INTERFACES: expected interfaces that are up and have an address, of {}, got "
          "'{}'",
          fmt::join(names_of(ranked), ", "), wanted);
    addresses.push_back(found->second);
  }
  return addresses;
}

Fd listen_tcp(int* port) {
  Fd fd = listening(AF_INET6);
  if (!fd) fd = listening(AF_INET);
  if (!fd) throw CommError(-1, "tcp", system_error("tcp: cannot listen on any port"));
  SocketAddress own;
  own.length = sizeof own.storage;
  getsockname(fd.get(), own.get(), &own.length);
  // The port is at the same place in both families' structures.
  *port = ntohs(reinterpret_cast<const sockaddr_in*>(&own.storage)->sin_port);
  return fd;
}

void check_congestion(const Options& options, int fd) {
  if (options.congestion.empty() ||
      setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options.congestion.data(),
                 static_cast<socklen_t>(options.congestion.size())) == 0)
    return;
  std::string known = std::strerror(errno);
  try {
    known = read_file("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if (known.ends_with('\n')) known.pop_back();
    known = "the kernel has: " + known;
  } catch (const FormatError&) {  // the reason says enough
  }
  throw_invalid("STRETTO_CONGESTION: '{}' cannot be used; {}", options.congestion, known);
}

Fd connect_tcp(const std::string& from, const std::string& to, int port, const Options& options,
               int ranks, Refusal* refusal) {
  SocketAddress target, source;
  if (!parse_address(to, port, &target)) {
    refusal->text = fmt::format("'{}' is not an address", to);
    return Fd();
  }
  Fd fd(socket(target.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return refused(refusal, "socket");
  configure_tcp(fd.get(), options, ranks);
  if (!from.empty() && parse_address(from, 0, &source) &&
      source.storage.ss_family == target.storage.ss_family &&
      bind(fd.get(), source.get(), source.length) != 0)
    return refused(refusal, "bind");
  if (connect(fd.get(), target.get(), target.length) != 0 && errno != EINPROGRESS)
    return refused(refusal, "connect");
  return fd;
}

void configure_tcp(int fd, const Options& options, int ranks) {
  const int on = 1;
  const int unsent = std::max(kUnsentBytes / std::max(ranks, 1), kLeastUnsentBytes);
  const auto linger_ms = static_cast<unsigned>(options.silent_limit_s * 1000);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &linger_ms, sizeof linger_ms);
  if (!options.congestion.empty()) {
    // check_congestion() has tried it before.
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options.congestion.data(),
               static_cast<socklen_t>(options.congestion.size()));
  }
}

std::unique_ptr<Pipe> tcp_pipe(Fd connected) {
  return std::make_unique<TcpPipe>(std::move(connected));
}

Fd listen_local(std::string* name) {
  const Nonce nonce = random_nonce();
  *name = "stretto-";
  for (int i = 0; i < 16; ++i) *name += fmt::format("{:02x}", static_cast<unsigned>(nonce[i]));
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  socklen_t length;
  const sockaddr_un address = local_address(*name, &length);
  if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(fd.get(), kBacklog) != 0)
    throw CommError(-1, "shm", system_error("shm: cannot listen on a unix socket"));
  return fd;
}

Fd connect_local(const std::string& name, Refusal* refusal) {
  if (name.size() >= sizeof(sockaddr_un::sun_path)) {
    refusal->text = "the name of the unix socket is too long";
    return Fd();
  }
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return refused(refusal, "socket");
  socklen_t length;
  const sockaddr_un address = local_address(name, &length);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0)
    return refused(refusal, "connect");
  return fd;
}

}  // namespace stretto::comm
