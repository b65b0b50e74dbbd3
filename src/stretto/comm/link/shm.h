// A pipe between two processes of one machine: two rings in shared memory, one per direction. A
// side that finds nothing to do says so in the ring before it sleeps, and only then does the other
// ring its doorbell (an eventfd, so that one epoll waits for sockets and rings alike). The unix
// socket over which memory and doorbells were handed stays open, to notice the end of the other.
#pragma once

#include <memory>

#include "stretto/comm/link/pipe.h"

namespace stretto::comm {

// `socket` is a unix stream socket after its handshake. The creator makes the memory; the other
// side has kWouldBlock until it has come. Null with a reason when the system refuses.
std::unique_ptr<Pipe> shm_pipe(Fd socket, bool creator, std::string* reason);

}  // namespace stretto::comm
