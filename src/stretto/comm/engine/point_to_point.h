// Numbers the messages of send and recv, and matches them: by (rank, tag), in order of submission.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

namespace stretto::comm {

struct OpenOperation;

// The sends and receives of one group.
struct PointToPoint {
  using From = std::pair<int, uint32_t>;     // rank of the group, tag
  std::map<From, uint64_t> sends, receives;  // how many; as long as the group lives
  std::map<From, uint64_t> begun;  // messages that have begun to arrive, if more than receives
  std::deque<OpenOperation*> any_receives;  // from any rank, not matched yet
};

// Gives a send its number.
void number_send(PointToPoint& state, OpenOperation& open);

// Gives a receive its sender and number. False for a receive from any rank for which no message
// has begun to arrive: it waits in any_receives.
bool match_receive(PointToPoint& state, OpenOperation& open);

// Notes that message `number` from `from` has begun to arrive, unless a receive had asked for it.
void note_arrival(PointToPoint& state, PointToPoint::From from, uint64_t number);

// A waiting receive from any rank that takes the next message from `from`; null: there is none, or
// no message.
OpenOperation* match_any(PointToPoint& state, PointToPoint::From from);

}  // namespace stretto::comm
