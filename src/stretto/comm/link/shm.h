// A pipe between two processes of one machine: two rings in shared memory, one per direction. A
// side that finds nothing to do sets a flag in the ring before it sleeps, and only then does the
// other side ring its doorbell. The doorbell is an eventfd, so that one epoll waits for sockets and
// rings. The unix socket over which memory and doorbells were passed stays open, to notice when the
// other process ends.
#pragma once

#include <memory>

#include "stretto/comm/link/pipe.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm {

// `socket` is a unix stream socket after its handshake. The creator makes the memory; the pipe of
// the other side returns kWouldBlock until it has arrived. Null with a reason when the system
// refuses.
std::unique_ptr<Pipe> shm_pipe(Fd socket, bool creator, std::string* reason);

}  // namespace stretto::comm
