// TCP sockets and the addresses that ranks publish.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "stretto/comm/link/pipe.h"
#include "stretto/comm/options.h"

namespace stretto::comm {

// A numeric address, without a port: "10.0.0.1", "fe80::1%eth0".
struct Address {
  std::string interface, text;
};

// The addresses of this rank, best first. With options.interfaces: one address of each, in their
// order; throws InvalidArgument for an interface that does not exist, is down or has no address.
// Without: the address of the default route, then those of all interfaces that are up, loopback
// last.
std::vector<Address> local_addresses(const Options& options);

// Listens on a free port, *port, of all addresses, with IPv6 if the system has it. Throws
// CommError.
Fd listen_tcp(int* port);

// Throws InvalidArgument, with the names that the kernel knows, when options.congestion cannot be
// set on the TCP socket `fd`.
void check_congestion(const Options& options, int fd);

// Why a connection failed at once.
struct Refusal {
  int error = 0;  // errno; 0: it was not the system
  std::string text;
};

// Starts to connect; the socket becomes writable when it is connected or has failed. `from` is the
// local address, empty for any; `ranks` as in configure_tcp. An invalid Fd and a refusal when it
// failed at once.
Fd connect_tcp(const std::string& from, const std::string& to, int port, const Options& options,
               int ranks, Refusal* refusal);

// Sets up a socket to one of `ranks` remote ranks: no delay, congestion control, how long data may
// stay unacknowledged, and how many bytes may wait in it.
void configure_tcp(int fd, const Options& options, int ranks);

std::unique_ptr<Pipe> tcp_pipe(Fd connected);

// A unix socket in the abstract namespace, over which ranks of a host hand over shared memory.
// *name receives its random name. Throws CommError.
Fd listen_local(std::string* name);
Fd connect_local(const std::string& name, Refusal* refusal);

}  // namespace stretto::comm
