// TCP sockets, and unix sockets for ranks of one host.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stretto/comm/link/addresses.h"
#include "stretto/comm/link/pipe.h"
#include "stretto/comm/options.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm {

// Listens on one free port, *port, of options.ports or any: at these addresses where
// options.interfaces chooses some, otherwise at all that the system has, with IPv6 if it is there.
// `rank` spreads the ranks of a host over options.ports. Throws CommError.
std::vector<Fd> listen_tcp(const Options& options, const std::vector<Address>& addresses, int rank,
                           int* port);

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
