// The addresses of this host, and which of them a rank uses.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/comm/options.h"

namespace stretto::comm {

// A numeric address, without a port: "10.0.0.1", "fe80::1%eth0".
struct Address {
  std::string interface, text;
};

// Checks options.interfaces: each is a name, the beginning of names ("eth"), or a network
// ("10.0.0.0/8", "fd00::/8"); if the first begins with '^', these are the ones not to use
// ("^docker", "lo"). A text that is the name of an interface means that one only. Throws
// InvalidArgument.
void check_interfaces(const std::vector<std::string>& interfaces);

// Whether options.interfaces names the interfaces to use: TCP streams go over them in turn.
bool names_rails(const Options& options);

// The addresses of this rank, best first. With names_rails(): one of each interface, in the order
// of options.interfaces, then of names; throws InvalidArgument for an entry to which no interface
// fits that is up and has an address. Otherwise those of all interfaces that are up and not
// excluded: of the default routes, then IPv4, IPv6, link-local, loopback.
std::vector<Address> local_addresses(const Options& options);

// A link-local address is valid with a zone of the host that uses it, not with that of its owner:
// replaces the zone of `to` by an interface of this host that has link-local addresses too, or that
// of `from`. Other addresses stay as they are.
std::string with_own_zone(const std::string& to, const std::string& from,
                          const std::vector<Address>& own, int tries);

std::string without_zone(const std::string& address);  // "fe80::1"

// Checks options.ports, "LOW-HIGH"; 0, 0 when it is empty. Throws InvalidArgument.
std::pair<int, int> parse_ports(std::string_view text);

// What the socket interface calls an address.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};
bool parse_address(const std::string& text, int port, SocketAddress* out);
std::string with_port(const std::string& address, int port);  // "[fe80::1%eth0]:4242"
std::string address_text(const sockaddr* address, socklen_t length, bool port_too);

}  // namespace stretto::comm
