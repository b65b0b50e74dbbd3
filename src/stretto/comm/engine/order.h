// Finds ranks that submit different operations. Every message carries a fingerprint of the
// sender's operation; each rank compares it with its own operation of that number.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "stretto/comm/engine/operation.h"
#include "stretto/comm/link/link.h"

namespace stretto::comm {

// What one group remembers to compare.
struct Order {
  // The last operations that began here.
  struct Past {
    uint64_t sequence, fingerprint;
    Operation operation;  // without buffers and parts
  };
  std::deque<Past> past;

  struct Claim {  // what another rank has sent
    int rank;
    uint64_t fingerprint;
  };
  std::map<uint64_t, Claim> early;  // by sequence: operations that have not begun here

  // Fused operations by their first sequence number: what others have sent before this rank fused
  // them, and those fused here last.
  std::map<uint64_t, Claim> early_joined;
  std::map<uint64_t, uint64_t> joined;
};

// Keeps an operation that begins. Returns a rank that has already sent another one as this number.
std::optional<int> note_begun(Order& order, uint64_t sequence, uint64_t fingerprint,
                              const Operation& operation);
// The same for operations that were fused, the first of which has the number `first`.
std::optional<int> note_joined(Order& order, uint64_t first, uint64_t fingerprint);

// Compares a collective's message that arrived before an operation asked for it. True when it
// contradicts an operation of this rank. `next_sequence` is the number of the next operation to
// begin here.
bool contradicts(Order& order, const Events::Arrival& arrival, uint64_t next_sequence);

// The operation of this number, as errors show it.
std::string describe_past(const Order& order, uint64_t sequence);

}  // namespace stretto::comm
