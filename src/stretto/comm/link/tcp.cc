#include "stretto/comm/link/tcp.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/comm/link/handshake.h"
#include "stretto/comm/system/children.h"
#include "stretto/comm/system/descriptors.h"

namespace stretto::comm {
namespace {

// Bytes that may wait in a socket before it takes no more, divided by the remote ranks. They are
// few, so that a slow stream holds no chunks that a faster one could take and pacing works. They
// are enough to keep the network busy until the thread wakes up again.
constexpr int kUnsentBytes = 256 << 10, kLeastUnsentBytes = 16 << 10;
constexpr int kBacklog = 1024;
constexpr int kPortTries = 16;  // a port that is free at one address may be taken at another

std::string system_error(const char* what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

Fd refused(Refusal* refusal, const char* what) {
  const int error = errno;
  *refusal = {error, fmt::format("{}: {}", what, std::strerror(error))};
  return Fd();
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

  int64_t held_bytes() const override {
    int held = 0;
    return ioctl(fd_.get(), SIOCOUTQ, &held) == 0 ? held : -1;
  }

  bool network_took_all() const override {
    int unsent = 0;
    return ioctl(fd_.get(), SIOCOUTQNSD, &unsent) == 0 && unsent == 0;
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

// An invalid Fd, and errno, when it cannot. A port that was chosen by the user can be used again as
// soon as the last job that had it has ended.
Fd listening(SocketAddress at, bool chosen_port) {
  Fd fd(socket(at.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  const int on = 1, off = 0;
  if (chosen_port) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&at.storage);
  if (at.storage.ss_family == AF_INET6) {
    const bool any = IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, any ? &off : &on, sizeof on);
  }
  if (bind(fd.get(), at.get(), at.length) != 0 || listen(fd.get(), kBacklog) != 0) {
    const int error = errno;
    fd = Fd();
    errno = error;
  }
  return fd;
}

int port_of(const Fd& fd) {
  SocketAddress own;
  own.length = sizeof own.storage;
  getsockname(fd.get(), own.get(), &own.length);
  // The port is at the same place in both families' structures.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&own.storage)->sin_port);
}

// Listens on the same port of all addresses; 0: any. Empty, and errno, when it cannot. Addresses
// that nobody named may be unusable, such as a link-local one of an interface that has just come
// up.
std::vector<Fd> listening(const std::vector<std::string>& addresses, int port, bool chosen_port,
                          bool named) {
  std::vector<Fd> fds;
  for (const std::string& text : addresses) {
    SocketAddress at;
    if (!parse_address(text, port, &at)) continue;
    Fd fd = listening(at, chosen_port);
    if (!fd && !named && errno == EADDRNOTAVAIL) continue;
    if (!fd) return {};
    port = port_of(fd);
    fds.push_back(std::move(fd));
  }
  return fds;
}

sockaddr_un local_address(const std::string& name, socklen_t* length) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  // A first byte of zero makes the name abstract: there is no file.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

}  // namespace

std::vector<Fd> listen_tcp(const Options& options, const std::vector<Address>& addresses, int rank,
                           int* port) {
  std::vector<std::vector<std::string>> choices{{"::"}, {"0.0.0.0"}};  // the second without IPv6
  if (!options.interfaces.empty()) {
    choices.resize(1);
    choices[0].clear();
    for (const Address& address : addresses) {
      if (std::find(choices[0].begin(), choices[0].end(), address.text) == choices[0].end())
        choices[0].push_back(address.text);
    }
  }
  const auto [low, high] = parse_ports(options.ports);
  const int count = low == 0 ? kPortTries : high - low + 1;
  int error = EADDRNOTAVAIL;
  for (int i = 0; i < count; ++i) {
    const int wanted = low == 0 ? 0 : low + (rank + i) % count;
    for (const auto& choice : choices) {
      std::vector<Fd> fds = listening(choice, wanted, low != 0, names_rails(options));
      if (fds.empty()) {
        error = errno;
        continue;
      }
      *port = port_of(fds.front());
      return fds;
    }
    if (out_of_descriptors(error)) break;
  }
  std::string reason = std::strerror(error);
  if (out_of_descriptors(error)) {
    reason += "; " + descriptor_advice(static_cast<int64_t>(choices[0].size()));
  } else if (low != 0) {
    reason += "; every rank of a host needs a port of its own";
  }
  throw CommError(
      -1, "tcp",
      fmt::format("tcp: cannot listen on {}: {}",
                  low == 0 ? "any port" : "a port of STRETTO_PORTS=" + options.ports, reason));
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
