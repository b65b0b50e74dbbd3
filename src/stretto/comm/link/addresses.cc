#include "stretto/comm/link/addresses.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>

#include "stretto/base/error.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm {
namespace {

constexpr std::string_view kMapped = "::ffff:";

// Bytes of an address, 4 or 16.
std::span<const uint8_t> bytes_of(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return {
        reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr),
        4};
  return {reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr.s6_addr, 16};
}

struct Net {
  std::array<uint8_t, 16> bytes{};
  size_t length = 0;  // 4 or 16
  int bits = 0;

  bool holds(const sockaddr* address) const {
    const auto other = bytes_of(address);
    if (other.size() != length) return false;
    for (int bit = 0; bit < bits; ++bit) {
      const int mask = 0x80 >> bit % 8;
      if ((bytes[bit / 8] & mask) != (other[bit / 8] & mask)) return false;
    }
    return true;
  }
};

std::optional<Net> parse_net(const std::string& text) {
  const size_t slash = text.find('/');
  Net net;
  const std::string address = text.substr(0, slash), bits = text.substr(slash + 1);
  if (inet_pton(AF_INET, address.c_str(), net.bytes.data()) == 1) {
    net.length = 4;
  } else if (inet_pton(AF_INET6, address.c_str(), net.bytes.data()) == 1) {
    net.length = 16;
  } else {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), net.bits);
  if (error != std::errc() || end != bits.data() + bits.size() || net.bits < 0 ||
      net.bits > static_cast<int>(net.length) * 8)
    return std::nullopt;
  return net;
}

struct Found {  // an address of this host
  Address address;
  SocketAddress socket;
  bool loopback = false;
  int rank = 0;  // 0 is the best
};

// The address from which packets to `world` leave. Nothing is sent to find it.
std::string route_address(const char* world) {
  SocketAddress target;
  if (!parse_address(world, 9, &target)) return "";
  const Fd fd(socket(target.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd || connect(fd.get(), target.get(), target.length) != 0) return "";
  SocketAddress own;
  own.length = sizeof own.storage;
  if (getsockname(fd.get(), own.get(), &own.length) != 0) return "";
  return address_text(own.get(), own.length, false);
}

bool is_link_local(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

int rank_of(const Found& found, const std::string& route4, const std::string& route6) {
  const auto* address = reinterpret_cast<const sockaddr*>(&found.socket.storage);
  if (found.address.text == route4) return 0;
  if (found.address.text == route6) return 1;
  if (found.loopback) return address->sa_family == AF_INET ? 5 : 6;
  if (address->sa_family == AF_INET) return 2;
  return is_link_local(address) ? 4 : 3;
}

std::vector<Found> all_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    throw CommError(
        -1, "tcp",
        fmt::format("tcp: cannot list the network interfaces: {}", std::strerror(errno)));
  // Addresses for documentation (RFC 5737 and 3849), to which no more specific route leads.
  const std::string route4 = route_address("192.0.2.1"), route6 = route_address("2001:db8::1");
  std::vector<Found> all;
  for (const ifaddrs* i = list; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP)) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    Found found;
    found.socket.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&found.socket.storage, i->ifa_addr, found.socket.length);
    found.address = {i->ifa_name, address_text(i->ifa_addr, found.socket.length, false)};
    found.loopback = i->ifa_flags & IFF_LOOPBACK;
    found.rank = rank_of(found, route4, route6);
    all.push_back(std::move(found));
  }
  freeifaddrs(list);
  std::stable_sort(all.begin(), all.end(),
                   [](const Found& a, const Found& b) { return a.rank < b.rank; });
  return all;
}

bool excludes(const std::vector<std::string>& interfaces) {
  return !interfaces.empty() && interfaces.front().starts_with('^');
}

// Whether an entry of options.interfaces means this address.
bool fits(const std::string& entry, const Found& found, const std::vector<Found>& all) {
  if (entry.find('/') != entry.npos) {
    const auto net = parse_net(entry);
    return net && net->holds(reinterpret_cast<const sockaddr*>(&found.socket.storage));
  }
  const bool is_name = std::any_of(
      all.begin(), all.end(), [&](const Found& other) { return other.address.interface == entry; });
  return is_name ? found.address.interface == entry : found.address.interface.starts_with(entry);
}

std::vector<std::string> names_of(const std::vector<Found>& all) {
  std::vector<std::string> names;
  for (const Found& found : all) {
    if (std::find(names.begin(), names.end(), found.address.interface) == names.end())
      names.push_back(found.address.interface);
  }
  return names;
}

// One address of each interface to which the entry fits.
std::vector<Address> rails_of(const std::string& entry, const std::vector<Found>& all) {
  std::vector<Address> rails;
  for (const Found& found : all) {
    const bool known = std::any_of(rails.begin(), rails.end(), [&](const Address& a) {
      return a.interface == found.address.interface;
    });
    if (!known && fits(entry, found, all)) rails.push_back(found.address);
  }
  std::sort(rails.begin(), rails.end(), [](const Address& a, const Address& b) {
    return std::pair(a.interface.size(), a.interface) < std::pair(b.interface.size(), b.interface);
  });
  return rails;
}

std::string zone_of(const std::string& address) {
  const size_t percent = address.find('%');
  return percent == address.npos ? "" : address.substr(percent + 1);
}

}  // namespace

bool parse_address(const std::string& text, int port, SocketAddress* out) {
  const addrinfo hints{.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (getaddrinfo(text.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  std::memcpy(&out->storage, found->ai_addr, found->ai_addrlen);
  out->length = found->ai_addrlen;
  freeaddrinfo(found);
  return true;
}

std::string address_text(const sockaddr* address, socklen_t length, bool port_too) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(address, length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  // A listener for both families sees IPv4 addresses in this form.
  std::string text = host;
  if (text.starts_with(kMapped) && text.find('.') != text.npos) text.erase(0, kMapped.size());
  return port_too ? with_port(text, std::atoi(port)) : text;
}

std::string with_port(const std::string& address, int port) {
  if (address.find(':') == address.npos) return fmt::format("{}:{}", address, port);
  return fmt::format("[{}]:{}", address, port);
}

void check_interfaces(const std::vector<std::string>& interfaces) {
  for (size_t i = 0; i < interfaces.size(); ++i) {
    std::string entry = interfaces[i];
    if (entry.starts_with('^')) {
      if (!excludes(interfaces))
        throw_invalid("STRETTO_INTERFACES: '^' excludes all that follow, so it must come first");
      entry.erase(0, 1);
    }
    if (entry.find('/') != entry.npos && !parse_net(entry))
      throw_invalid("STRETTO_INTERFACES: '{}' is not a network such as 10.0.0.0/8", entry);
    if (entry.empty()) throw_invalid("STRETTO_INTERFACES: '^' without a name");
  }
}

bool names_rails(const Options& options) {
  return !options.interfaces.empty() && !excludes(options.interfaces);
}

std::vector<Address> local_addresses(const Options& options) {
  const std::vector<Found> all = all_addresses();
  std::vector<Address> addresses;
  if (names_rails(options)) {
    for (const std::string& entry : options.interfaces) {
      const std::vector<Address> rails = rails_of(entry, all);
      if (rails.empty())
        throw_invalid(
            "STRETTO_INTERFACES: expected interfaces that are up and have an address, of {}, got "
            "'{}'",
            fmt::join(names_of(all), ", "), entry);
      addresses.insert(addresses.end(), rails.begin(), rails.end());
    }
    return addresses;
  }
  for (const Found& found : all) {
    const bool excluded = std::any_of(
        options.interfaces.begin(), options.interfaces.end(), [&](const std::string& entry) {
          return fits(entry.starts_with('^') ? entry.substr(1) : entry, found, all);
        });
    if (!excluded) addresses.push_back(found.address);
  }
  if (addresses.empty() && !all.empty())
    throw_invalid("STRETTO_INTERFACES: '{}' leaves no interface of {}",
                  fmt::join(options.interfaces, ","), fmt::join(names_of(all), ", "));
  return addresses;
}

std::string without_zone(const std::string& address) {
  return address.substr(0, address.find('%'));
}

std::string with_own_zone(const std::string& to, const std::string& from,
                          const std::vector<Address>& own, int tries) {
  if (zone_of(to).empty()) return to;
  std::vector<std::string> zones;
  if (!zone_of(from).empty()) {
    zones.push_back(zone_of(from));
  } else {
    for (const Address& address : own) {
      if (!zone_of(address.text).empty()) zones.push_back(zone_of(address.text));
    }
  }
  if (zones.empty()) return to;
  return without_zone(to) + "%" + zones[static_cast<size_t>(tries) % zones.size()];
}

std::pair<int, int> parse_ports(std::string_view text) {
  if (text.empty()) return {0, 0};
  int low = 0, high = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, low);
  if (first.ec == std::errc() && first.ptr != end && *first.ptr == '-') {
    const auto second = std::from_chars(first.ptr + 1, end, high);
    if (second.ec == std::errc() && second.ptr == end && 1 <= low && low <= high && high <= 65535)
      return {low, high};
  }
  throw_invalid("STRETTO_PORTS: expected LOW-HIGH, two ports from 1 to 65535, got '{}'", text);
}

}  // namespace stretto::comm
