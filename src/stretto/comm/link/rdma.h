// A pipe over a reliable-connected queue pair of an RDMA card.
//
// Made from a TCP socket after its handshake. Over it both sides say where their queue pair is,
// with a MAC that belongs to this handshake, and that they are ready; it stays open, to notice the
// end of the other, of whom a queue pair says nothing.
//
//   both ways   endpoint  see Wire in rdma.cc, MAC(secret, role, hello, nonce, endpoint)
//   both ways   ready     one byte
//
// Then bytes travel in messages of up to a slot: a header (magic, bytes that follow, credits,
// number of the message) and the bytes. Each side posts a receive for each of its slots before it
// says where it is; a message uses up one of them, a credit gives it back. The last credit is kept
// for a message that only gives credits, and these are sent when half of the slots are owed, so a
// receive is posted for whatever comes and both sides never wait for one another at once. Header
// and lengths are checked; anything else that comes, and every completion with an error, breaks the
// pipe.
#pragma once

#include <memory>

#include "stretto/comm/link/conversation.h"
#include "stretto/comm/link/pipe.h"
#include "stretto/comm/link/rdma_port.h"

namespace stretto::comm {

// `peer` is for the name: "rdma mlx5_0:1 -> mlx5_1:1 of rank 3". Never null: when the card refuses,
// or what the other side says is refused, the pipe is broken from the beginning, and the streams
// beside it do the work.
std::unique_ptr<Pipe> rdma_pipe(std::shared_ptr<RdmaPort> port, Fd socket, const Proof& proof,
                                Role role, const std::string& peer);

}  // namespace stretto::comm
