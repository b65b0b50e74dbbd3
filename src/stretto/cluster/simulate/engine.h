// The simulation of one policy: events in virtual time. What happens at an event costs the same
// however many jobs the trace has or wait: only the number of shapes of jobs, and of nodes where a
// placement looks at all of them, counts.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <queue>
#include <set>
#include <unordered_map>
#include <vector>

#include "stretto/cluster/policy/fragmentation.h"
#include "stretto/cluster/policy/policy.h"
#include "stretto/cluster/simulate/meter.h"
#include "stretto/cluster/simulate/plan.h"
#include "stretto/cluster/simulate/shapes.h"
#include "stretto/cluster/simulate/user_shares.h"
#include "stretto/cluster/simulate/waiting.h"
#include "stretto/cluster/simulate/workload.h"

namespace stretto::cluster {

// The first node or nodes for a job of the shape, as the policy places it; false: it does not fit.
// `context` says what the job may take, `parts` gets the spots with their needs.
struct Part {
  Spot spot;
  Need need;
};
bool find_spots(PlaceContext& context, const Shape& shape,
                Spot (*place)(PlaceContext&, const Need&, std::span<const int>),
                std::vector<Part>& parts);

class Engine {
 public:
  Engine(const Site& site, const Trace& trace, const SimulateOptions& options);

  Simulation run();

 private:
  struct Running {
    int job = -1;
    uint32_t generation = 0;  // of the slot: ends of earlier jobs are void
    int64_t start_ms = 0, predicted_end_ms = 0;
    double slowness = 1;  // against the chip on which the trace was recorded
    std::vector<Taken> parts;
  };
  struct End {
    int64_t time_ms;
    int job, slot;
    uint32_t generation;
    bool operator>(const End& other) const {
      return time_ms != other.time_ms ? time_ms > other.time_ms : job > other.job;
    }
  };
  // A job that may start next, in the order of the policy.
  struct Candidate {
    int priority;
    double used;  // by the user, against the share
    int64_t key;
    int job, shape;
    // For a heap whose top comes first.
    bool operator<(const Candidate& other) const {
      if (priority != other.priority) return priority < other.priority;
      if (used != other.used) return used > other.used;
      return key != other.key ? key > other.key : job > other.job;
    }
  };

  const Job& job(int j) const { return workload_.jobs[static_cast<size_t>(j)]; }
  Shape& shape_of(int j) { return shapes_[shape_of_[static_cast<size_t>(j)]]; }
  Waiting& waiting_of(int j) { return waiting_[shape_of_[static_cast<size_t>(j)]]; }

  // engine.cc: events
  void make_shapes();
  void run_events();
  void drop_void_ends();
  void run_arrivals_only();
  void arrive(int j);
  void end(int slot);
  void add_waiting(int j);
  void advance(int64_t to_ms);
  size_t wait_class_of(int j);
  void weigh_waits();
  bool goes_on(int64_t arrived);
  PlaceContext context(const Shape& shape, const Plans* plans, int64_t end_ms);
  void start(int j, const std::vector<Part>& parts);
  void release(int slot);  // its chips, and what counts it
  int64_t remaining_ms(int j, int64_t of) const;
  double slowness_on(const Shape& shape, int node) const;

  // pass.cc: who starts now
  void pass();
  bool preempt_once(const Candidate& candidate);
  bool pass_once();  // false: a job was preempted, and everything has to be looked at again
  void push_first(int shape);
  bool start_if_fits(int j);
  bool backfill(const Candidate& candidate, Candidate& other);
  void plan(int j);
  void release_until_fits(int j, Plan& plan);
  bool enough_for(const Shape& shape, const Nodes& nodes, int released) const;

  // preempt.cc: who makes room
  bool may_preempt(const Shape& shape) const;
  bool preempt_for(int j);
  bool is_victim(const Shape& shape, const Running& running, int region) const;
  int64_t loss_of(int slot) const;
  struct Sacrifice {
    int64_t loss = -1;  // thousandths of chips times milliseconds; -1: no way
    std::vector<int> slots;
  };
  Sacrifice sacrifice_on(const Shape& shape, const Need& need, int node) const;
  Sacrifice best_sacrifice(const Shape& shape) const;
  void stop(int slot);

  const Site& site_;
  const Trace& trace_;
  const SimulateOptions& options_;
  Policy policy_;
  SiteMap map_;
  Nodes nodes_, scratch_;
  Random random_;
  Workload workload_;
  UserShares shares_;
  std::unique_ptr<Fragmentation> fragmentation_;
  std::function<double(int kind, int model, int chips)> rate_;
  bool only_chips_ = true;
  std::vector<bool> urgent_;  // by queue: it preempts, or has the reserve

  std::vector<Shape> shapes_;
  std::deque<Waiting> waiting_;                // by shape
  std::vector<uint32_t> shape_of_, position_;  // by job
  std::vector<int> active_;                    // shapes with jobs that wait, and some without
  std::vector<bool> is_active_;
  int64_t waiting_count_ = 0;

  std::vector<Running> running_;  // slots
  std::vector<int> free_slots_;
  std::vector<std::vector<int>> on_node_;  // slots
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  std::set<std::pair<std::pair<int64_t, int>, int>> predicted_;  // (end, job), slot
  std::vector<int> running_of_queue_, guests_in_;                // counts
  std::unordered_map<int, int64_t> saved_ms_;                    // of preempted jobs

  int64_t now_ms_ = 0;
  uint64_t blocked_ = 0, passes_ = 0;
  std::vector<uint64_t> tried_in_pass_;  // by shape: the last pass in which a job tried to preempt
  Plans plans_, kept_;
  bool plans_hold_ = false;  // nothing happened that they did not foresee
  std::vector<Candidate> heap_;
  std::vector<Part> parts_;

  std::vector<JobTimes> times_;
  // For go_on: jobs that have not started yet, by class of waits, and what a second of one adds.
  std::array<int64_t, kWaitClasses> unstarted_{};
  std::array<double, kWaitClasses> weights_{};
  SoFar so_far_{};
  int64_t next_told_ = 0;  // events
  Meter meter_;
  Simulation result_;
};

}  // namespace stretto::cluster
