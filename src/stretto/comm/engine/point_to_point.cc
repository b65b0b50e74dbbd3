#include "stretto/comm/engine/point_to_point.h"

#include <algorithm>

#include "stretto/comm/engine/state.h"

namespace stretto::comm {
namespace {

uint64_t received(const PointToPoint& state, PointToPoint::From from) {
  const auto found = state.receives.find(from);
  return found == state.receives.end() ? 0 : found->second;
}

// The number of the next message from there, for a receive.
uint64_t take_number(PointToPoint& state, PointToPoint::From from) {
  const uint64_t number = state.receives[from]++;
  const auto begun = state.begun.find(from);
  if (begun != state.begun.end() && begun->second <= number + 1) state.begun.erase(begun);
  return number;
}

}  // namespace

void number_send(PointToPoint& state, OpenOperation& open) {
  open.sequence = state.sends[{open.operation.peer, open.operation.tag}]++;
}

bool match_receive(PointToPoint& state, OpenOperation& open) {
  const uint32_t tag = open.operation.tag;
  int peer = open.operation.peer;
  if (peer == kAnyPeer) {
    for (const auto& [from, begun] : state.begun) {
      if (from.second == tag && begun > received(state, from)) peer = from.first;
    }
    if (peer == kAnyPeer) {
      state.any_receives.push_back(&open);
      return false;
    }
    open.operation.peer = peer;
  }
  open.sequence = take_number(state, {peer, tag});
  return true;
}

void note_arrival(PointToPoint& state, PointToPoint::From from, uint64_t number) {
  if (number < received(state, from)) return;
  uint64_t& begun = state.begun[from];
  begun = std::max(begun, number + 1);
}

OpenOperation* match_any(PointToPoint& state, PointToPoint::From from) {
  if (!state.begun.contains(from)) return nullptr;
  const auto taker =
      std::find_if(state.any_receives.begin(), state.any_receives.end(),
                   [&](const OpenOperation* open) { return open->operation.tag == from.second; });
  if (taker == state.any_receives.end()) return nullptr;
  OpenOperation* open = *taker;
  state.any_receives.erase(taker);
  open->operation.peer = from.first;
  open->sequence = take_number(state, from);
  return open;
}

}  // namespace stretto::comm
