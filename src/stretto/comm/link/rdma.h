// A pipe over a reliable-connected queue pair of an RDMA card.
//
// It is made from a TCP socket after its handshake. Over the socket both sides send the address of
// their queue pair, with a MAC of this handshake, and say that they are ready. The socket stays
// open to notice when the other process ends, which a queue pair does not show.
//
//   both ways   endpoint  see Wire in rdma.cc, MAC(secret, role, hello, nonce, endpoint)
//   both ways   ready     one byte
//
// Then bytes travel in messages of at most one slot: a header (magic number, length, credits,
// message number) and the bytes. Each side posts a receive for each of its slots before it sends
// its address. A message uses up one receive, and a credit returns it. The last credit is kept for
// a message that only returns credits; such a message is sent when half of the slots are owed. So a
// receive is always posted, and the two sides never wait for each other. Headers and lengths are
// checked; anything unexpected, and every completion with an error, breaks the pipe.
#pragma once

#include <memory>

#include "stretto/comm/link/conversation.h"
#include "stretto/comm/link/pipe.h"
#include "stretto/comm/link/rdma_port.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm {

// `remote` is part of the name: "rdma mlx5_0:1 -> mlx5_1:1 of rank 3". Never null: if the card or
// this side refuses, the pipe is broken from the beginning, and the link uses its other streams.
std::unique_ptr<Pipe> rdma_pipe(std::shared_ptr<RdmaPort> port, Fd socket, const Proof& proof,
                                Role role, const std::string& remote);

}  // namespace stretto::comm
