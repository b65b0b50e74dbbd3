#include "stretto/comm/engine/order.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto::comm {
namespace {

constexpr size_t kPastOperations = 256;  // remembered per group
constexpr size_t kRememberedJoins = 64;

const Order::Past* find(const Order& order, uint64_t sequence) {
  const auto found = std::find_if(order.past.begin(), order.past.end(),
                                  [&](const auto& entry) { return entry.sequence == sequence; });
  return found == order.past.end() ? nullptr : &*found;
}

// Takes the claim of this number out of the map. Returns its rank if it says something else.
std::optional<int> take_contrary(std::map<uint64_t, Order::Claim>& claims, uint64_t number,
                                 uint64_t fingerprint) {
  const auto found = claims.find(number);
  if (found == claims.end()) return std::nullopt;
  const Order::Claim claim = found->second;
  claims.erase(found);
  return claim.fingerprint == fingerprint ? std::nullopt : std::optional(claim.rank);
}

}  // namespace

std::optional<int> note_begun(Order& order, uint64_t sequence, uint64_t fingerprint,
                              const Operation& op) {
  order.past.push_back({sequence, fingerprint,
                        Operation{.kind = op.kind,
                                  .dtype = op.dtype,
                                  .reduction = op.reduction,
                                  .root = op.root,
                                  .count = op.count,
                                  .codec = op.codec,
                                  .name = op.name}});
  if (order.past.size() > kPastOperations) order.past.pop_front();
  return take_contrary(order.early, sequence, fingerprint);
}

std::optional<int> note_joined(Order& order, uint64_t first, uint64_t fingerprint) {
  order.joined[first] = fingerprint;
  if (order.joined.size() > kRememberedJoins) order.joined.erase(order.joined.begin());
  return take_contrary(order.early_joined, first, fingerprint);
}

bool contradicts(Order& order, const Events::Arrival& arrival, uint64_t next_sequence) {
  const uint64_t number = arrival.key.sequence;
  const Order::Claim claim{arrival.rank, arrival.fingerprint};
  if (arrival.key.unit & kJoined) {
    // This rank fuses the same operations, now or later.
    const auto known = order.joined.find(number);
    if (known != order.joined.end()) return known->second != arrival.fingerprint;
    if (order.joined.empty() || number > order.joined.rbegin()->first)
      order.early_joined.try_emplace(number, claim);
    return false;
  }
  if (number >= next_sequence) {
    order.early.try_emplace(number, claim);
    return false;
  }
  const Order::Past* past = find(order, number);
  return past && past->fingerprint != arrival.fingerprint;
}

std::string describe_past(const Order& order, uint64_t sequence) {
  const Order::Past* past = find(order, sequence);
  if (!past) return "another operation";
  // Parts are not kept, and are all in which such operations differ.
  if (past->operation.kind == Kind::kAllToAll)
    return fmt::format("all_to_all of {}, whose input splits must be the output splits of others",
                       dtype_name(past->operation.dtype));
  return describe(past->operation);
}

}  // namespace stretto::comm
