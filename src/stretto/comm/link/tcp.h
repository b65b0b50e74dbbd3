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

// Where this rank can be reached, best first: with options.interfaces one address for each, in that
// order (throws InvalidArgument for an interface that is absent, down or without address); else the
// address of the default route, then those of every interface that is up, loopback last.
std::vector<Address> local_addresses(const Options& options);

// Listens on any free port of all addresses, IPv6 where the system has it. Throws CommError.
Fd listen_tcp(int* port);

// Begins to connect; the socket becomes writable when it is done or has failed. `from` (may be
// empty) is the local address to use. Invalid Fd and a reason when it failed at once.
Fd connect_tcp(const std::string& from, const std::string& to, int port, const Options& options,
               int ranks, std::string* reason);

// For an accepted or connected socket, to one of so many other ranks: no delay, congestion control,
// how long unacknowledged data may linger, how many bytes wait in it.
void configure_tcp(int fd, const Options& options, int ranks);

std::unique_ptr<Pipe> tcp_pipe(Fd connected);

// A unix socket in the abstract namespace, whose name is chosen and returned; for handing over
// shared memory inside a host.
Fd listen_local(std::string* name);
Fd connect_local(const std::string& name, std::string* reason);

}  // namespace stretto::comm
