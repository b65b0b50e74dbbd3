// One stream that this rank connects to a lower rank, or a call to a higher one.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "stretto/comm/link/conversation.h"
#include "stretto/comm/link/tcp.h"

namespace stretto::comm {

struct Attempt {
  int rank = 0, stream = 0;
  Transport transport = Transport::kTcp;  // kCall: asks the rank to connect
  int place = 0;                          // its number among the streams of its transport
  int tries = 0;
  double retry_at_s = 0;  // without a conversation: when to try again (now_s())
  double deadline_s = 0;  // with a conversation: when to give it up
  std::optional<Conversation> conversation;
  std::string target;  // "tcp 10.0.0.1:4242"
  double first_pause_s = 0.01, most_pause_s = 0.64;
  double connected_s = 0;      // when it was connected last
  double refused_since_s = 0;  // nobody listens there since then; 0: not known

  double pause_s() const {
    return std::min(first_pause_s * (1 << std::min(tries, 20)), most_pause_s);
  }
};

struct Route {
  std::string from, to;  // numeric addresses; empty `from`: any
};

// Chooses the addresses of a stream. With `rails`, stream i goes from interface i of one rank to
// interface i of the other, modulo their numbers. Otherwise ranks of one machine use the loopback
// device if they listen there, and others try the published addresses one after the other.
inline Route choose_route(const std::vector<Address>& own, const std::vector<Address>& theirs,
                          bool rails, bool loopback, int stream, int tries) {
  if (rails) {
    const std::string& from = own[stream % own.size()].text;
    return {from, with_own_zone(theirs[stream % theirs.size()].text, from, own, tries)};
  }
  if (loopback) return {"", "127.0.0.1"};
  const auto round = static_cast<int>(tries / theirs.size());
  return {"", with_own_zone(theirs[tries % theirs.size()].text, "", own, round)};
}

}  // namespace stretto::comm
