// Runs the units of operations: starts units as the window allows, gives messages to the links, and
// runs sums, copies and codecs.
//
// The caller holds the engine's lock. Local steps of more than kInlineBytes wait until some thread
// calls run_local(), which does not hold the lock meanwhile: whoever submits never waits behind a
// large sum.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stretto/base/cpu.h"
#include "stretto/comm/engine/group_table.h"
#include "stretto/comm/engine/state.h"
#include "stretto/comm/engine/trace.h"
#include "stretto/comm/link/buffer_pool.h"
#include "stretto/comm/link/links.h"

namespace stretto::comm {

// One unit of an operation under way.
struct Unit {
  Unit(OpenOperation* operation, int64_t number, std::shared_ptr<const UnitPlan> how)
      : open(operation), index(number), plan(std::move(how)), schedule(plan->schedule) {
    if (!operation->searches) return;
    for (const Part part : plan->searched) unsearched.push_back(part.count());
  }
  OpenOperation* const open;
  const int64_t index;
  const std::shared_ptr<const UnitPlan> plan;
  const Schedule& schedule;         // of the plan
  std::vector<int32_t> waits_left;  // per step
  std::vector<bool> step_done;
  std::vector<int64_t> unsearched;  // elements that each step has to search; empty: none does
  BufferPool::Buffer scratch;
  std::vector<BufferPool::Buffer> coded;  // per slot
  std::vector<std::byte*> slots;          // the addresses of `coded`
  int32_t steps_left = 0;
  double started_s = 0;  // when traced
  int32_t ahead = 0;

  bool searches() const { return !unsearched.empty(); }
};

class Units {
  static constexpr size_t kSpareBytes = 32 << 20;

 public:
  // stop_at_non_finite: operations whose data hold NaN or infinity stop instead of being sent.
  Units(Links* links, Trace* trace, const GroupTable* groups, bool stop_at_non_finite)
      : links_(*links), trace_(*trace), groups_(*groups), stop_at_non_finite_(stop_at_non_finite) {}

  // Starts what the window of the group allows, in order of submission.
  void advance(GroupState& group);
  // The same for all groups in which units have ended since the last call.
  void advance_freed();

  // Starts a send or recv, which is one step. `peer` is a rank of the group.
  void start_point_to_point(OpenOperation* open, int peer);

  // Bytes of a step's message have been written.
  void on_written(const Events::Written& written);
  // The step's message has been sent or received.
  void on_done(const Ticket& ticket);

  // Local steps that wait for a thread, and those that threads run now.
  size_t local_waiting() const { return local_.size(); }
  int local_running() const { return running_; }
  // Runs one of those that wait. Releases the lock meanwhile.
  void run_local(std::unique_lock<std::mutex>& lock);

  // Operations that ended since the last call.
  std::vector<OpenOperation*> take_finished() { return std::exchange(finished_, {}); }
  // A message that does not fit the operation that expects it.
  struct Mismatch {
    int rank;  // of the job
    MessageKey key;
    Lengths lengths;
  };
  std::vector<Mismatch> take_mismatches() { return std::exchange(mismatches_, {}); }

  // An operation that stopped because its data are not finite; null: none.
  OpenOperation* take_stopped() { return std::exchange(stopped_, nullptr); }

  // The ranks of the job whose data `open` waits for.
  std::vector<int> awaited(const OpenOperation* open) const;

  // Drops all units. Local steps that run now still use the callers' memory: operations must not
  // end before local_running() is 0.
  void forget_all();
  double sum_s() const { return sum_s_; }

 private:
  struct Local {
    std::shared_ptr<Unit> unit;
    int32_t step;  // kPrepare: the input is searched for NaN, and residuals are added
  };
  static constexpr int32_t kPrepare = -1;

  void start(OpenOperation* open);
  void launch(std::shared_ptr<Unit> unit, bool prepare);
  void run(Unit& unit, std::vector<int32_t> ready);
  void done(Unit& unit, int32_t step, std::vector<int32_t>* ready);
  // True when the step is done on return; `ready` receives what waits for its search.
  bool execute(Unit& unit, int32_t step, std::vector<int32_t>* ready);
  void prepared(Unit& unit, const NonFinite& found);
  void finish(Unit& unit);
  std::byte* at(Unit& unit, const Place& place);
  MessageKey key(const Unit& unit, const Step& step) const;
  int64_t bytes(const Unit& unit, const Step& step) const;
  NonFinite prepare(const Unit& unit) const;
  void search(Unit& unit, int32_t step, Part part, std::vector<int32_t>* ready);
  void note_searched(Unit& unit, int32_t step, int64_t count, const NonFinite& found,
                     std::vector<int32_t>* ready);
  NonFinite run_step(const Unit& unit, int32_t step) const;
  void note_time(const Unit& unit, const Step& step, double start);

  Links& links_;
  Trace& trace_;
  const GroupTable& groups_;
  const bool stop_at_non_finite_;
  const Isa isa_ = usable_isa();
  BufferPool memory_{kSpareBytes};
  std::unordered_map<Unit*, std::shared_ptr<Unit>> units_;
  std::deque<Local> local_;
  int running_ = 0;
  std::vector<Group> freed_;  // groups that may start units, because some have ended
  std::vector<OpenOperation*> finished_;
  std::vector<Mismatch> mismatches_;
  OpenOperation* stopped_ = nullptr;
  double sum_s_ = 0;
};

}  // namespace stretto::comm
