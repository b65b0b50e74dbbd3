// Runs the units of operations: starts units as the window allows, runs steps that are ready, and
// gives messages to the links.
//
// Not thread-safe: the caller holds the engine's lock.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "stretto/base/cpu.h"
#include "stretto/comm/engine/state.h"
#include "stretto/comm/engine/trace.h"
#include "stretto/comm/link/links.h"

namespace stretto::comm {

class Units {
  static constexpr size_t kSpareBytes = 32 << 20;

 public:
  // stop_at_non_finite: operations whose data hold NaN or infinity stop instead of being sent.
  Units(Links* links, Trace* trace, bool stop_at_non_finite)
      : links_(*links), trace_(*trace), stop_at_non_finite_(stop_at_non_finite) {}

  // Starts what the window of the group allows, in order of submission.
  void advance(GroupState& group);

  // Starts a send or recv, which is one step. `peer` is a rank of the group.
  void start_point_to_point(OpenOperation* open, int peer);

  // The step's message has been sent or received.
  void on_done(const Ticket& ticket);

  // Operations that ended since the last call.
  std::vector<OpenOperation*> take_finished() { return std::exchange(finished_, {}); }
  // A message that does not fit the operation that expects it.
  struct Mismatch {
    int rank;  // of the job
    MessageKey key;
  };
  std::vector<Mismatch> take_mismatches() { return std::exchange(mismatches_, {}); }

  // An operation that stopped because its data are not finite; null: none.
  OpenOperation* take_stopped() { return std::exchange(stopped_, nullptr); }

  // The ranks of the job whose data `open` waits for.
  std::vector<int> awaited(const OpenOperation* open) const;

  void forget_all();
  double sum_s() const { return sum_s_; }
  void set_groups(const std::unordered_map<Group, std::unique_ptr<GroupState>>* groups) {
    groups_ = groups;
  }

 private:
  void start(OpenOperation* open);
  void launch(std::unique_ptr<Unit> unit);
  void run(Unit& unit, std::vector<int32_t> ready);
  void done(Unit& unit, int32_t step, std::vector<int32_t>* ready);
  bool execute(Unit& unit, int32_t step);  // true when the step is done on return
  void finish(Unit& unit);
  std::byte* at(Unit& unit, const Place& place);
  MessageKey key(const Unit& unit, const Step& step) const;
  int64_t bytes(const Unit& unit, const Step& step) const;
  void run_here(Unit& unit, const Step& step);

  Links& links_;
  Trace& trace_;
  const bool stop_at_non_finite_;
  const std::unordered_map<Group, std::unique_ptr<GroupState>>* groups_ = nullptr;
  const Isa isa_ = usable_isa();
  BufferPool memory_{kSpareBytes};
  std::unordered_map<Unit*, std::unique_ptr<Unit>> units_;
  std::vector<OpenOperation*> finished_;
  std::vector<Mismatch> mismatches_;
  OpenOperation* stopped_ = nullptr;
  double sum_s_ = 0;
};

}  // namespace stretto::comm
