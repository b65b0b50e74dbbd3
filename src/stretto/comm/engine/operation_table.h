// The operations of a rank by handle: those under way, and those that are over and that nobody has
// asked for yet. Handles are given in the order of submission. How many there were is counted.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "stretto/comm/engine/state.h"

namespace stretto::comm {

class OperationTable {
 public:
  using Shared = std::shared_ptr<OpenOperation>;
  using Map = std::unordered_map<Handle, Shared>;

  const Map& all() const { return operations_; }
  Shared find(Handle handle) const;  // null: it is unknown, or was released
  // Those that are not over, in the order of submission.
  std::vector<Shared> under_way() const;

  // One that has taken longer than it may (time_limit_s); null: there is none before *next_s, which
  // is lowered to the time when there may be one.
  const OpenOperation* overdue(double now, double otherwise_s, double* next_s) const;

  // Gives it a handle. `internal`: it is the engine's own, for which no caller waits.
  void add(const Shared& open, bool internal);
  // As if it had never been added.
  void withdraw(const OpenOperation& open, bool internal);
  void end(OpenOperation* open, bool internal);
  void release(Handle handle) { operations_.erase(handle); }

  int64_t unfinished() const { return unfinished_; }
  int64_t unfinished_internal() const { return unfinished_internal_; }
  bool callers_wait() const { return unfinished_ > unfinished_internal_; }

  // For Statistics: those of callers that are over, pieces one by one, and how many of them were
  // carried by another operation: pieces, and what count_fused() is told.
  int64_t completed() const { return completed_; }
  int64_t joined() const { return joined_; }
  void count_fused(const OpenOperation& member) { joined_ += member.pieces.empty(); }

 private:
  Map operations_;
  Handle next_ = 1;
  int64_t unfinished_ = 0, unfinished_internal_ = 0;
  int64_t completed_ = 0, joined_ = 0;
};

}  // namespace stretto::comm
