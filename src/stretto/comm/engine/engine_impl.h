// The engine's implementation: it submits operations, handles events of the links, and decides
// which thread polls them.
//
// A thread that waits for an operation polls the links itself, so that a small operation costs one
// wake-up instead of three. The progress thread polls when no thread waits.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>

#include "stretto/base/error.h"
#include "stretto/comm/engine/trace.h"
#include "stretto/comm/engine/units.h"
#include "stretto/comm/link/fork.h"
#include "stretto/comm/link/verdict.h"

namespace stretto::comm {

class EngineImpl : public Engine {
 public:
  EngineImpl(Store& store, Membership membership, Options options);
  ~EngineImpl() override;

  const Membership& membership() const override { return membership_; }
  const Options& options() const override { return options_; }
  const std::vector<std::vector<int>>& hosts() const override { return hosts_; }
  Group add_group(std::string_view name, std::vector<int> ranks) override;
  void remove_group(Group group) override;
  Handle submit(Group group, const Operation& operation, Delivery delivery,
                std::function<void()> notify) override;
  void step(Group group) override;
  bool poll(Handle handle) override;
  int source(Handle handle) override;
  bool wait(Handle handle, double timeout_s, int* source) override;
  void deliver(Handle handle) override;
  size_t next_completions(std::span<Completion> out, double timeout_s) override;
  void interrupt() override;
  void abort(std::string_view reason) override;
  void report(NonFiniteReport found) override;
  std::vector<NonFiniteReport> take_non_finite() override;
  Statistics statistics() override;
  std::string trace_json() override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  // engine.cc: time and threads.
  void form();
  void progress();
  void drive(Lock& lock, double max_wait_s);
  bool glance();
  bool await(Lock& lock, const OpenOperation* open, double timeout_s);
  void leave();
  void check_process() const;
  void abandon();

  // submit.cc
  void insert_group(Group id, std::string name, std::vector<int> ranks);
  GroupState& group(Group id);
  OpenOperation* begin(Group id, const Operation& operation, Delivery delivery,
                       std::function<void()> notify = nullptr);
  void submit_collective(GroupState& group, OpenOperation* open);
  void submit_send(GroupState& group, OpenOperation* open);
  void submit_receive(GroupState& group, OpenOperation* open);
  std::shared_ptr<const OperationPlan> plan_of(GroupState& group, const Operation& operation,
                                               const Codec* codec);
  void scan_input(OpenOperation* open, size_t ranks);
  void stop_for_non_finite(const OpenOperation& open);
  void check_order(GroupState& group, const OpenOperation& open);

  // fusion.cc
  bool is_small(const GroupState& group, const OpenOperation& open) const;
  void start_small(GroupState& group);
  OpenOperation* join(GroupState& group, size_t count);
  void finish_small(GroupState& group, OpenOperation* open);
  void check_joined(const Events::Arrival& arrival, GroupState& group);

  // tuning.cc
  void begin_tuning(Group id);
  void note_operation(Lock& lock, Group id, const Operation& operation);
  void on_step(Lock& lock, Group id, StepFinder::Event event);
  StepSetting default_setting(const GroupState& group) const;
  void ask_tuning_cache(Group id);
  void start_agreement(Group id, GroupTuning::Asks asks);
  void finish_agreement(Lock& lock, Group id);
  void apply(GroupState& group, const StepSetting& setting);
  void remember(Lock& lock, const GroupTuning& tuning);
  void note_submitted(GroupState& group, OpenOperation* open);
  void note_wait(const OpenOperation& open, double seconds);
  void note_done(const OpenOperation& open);
  TuningStatistics tuning_statistics(const GroupState& group) const;

  // events.cc
  void process_events(bool flush = true);
  void on_arrival(const Events::Arrival& arrival);
  void claim(GroupState& group, int rank, const MessageKey& key);
  void on_control(const Events::Control& control);
  void on_mismatch(int rank, const MessageKey& key);
  void on_loss(const Events::Loss& loss);
  void check_time();
  void check_departed();
  void finish(OpenOperation* open);

  // failure.cc: ends a failed job with the same error on every rank.
  void fail(int origin, const std::string& link, const std::string& text);
  void on_abort(int rank, Verdict verdict);
  void end_with(Verdict verdict);
  void notify_ranks();
  void settle();

  const Membership membership_;
  const Options options_;
  std::vector<std::vector<int>> hosts_;
  std::mutex mutex_;
  std::unique_ptr<Links> links_;
  std::unique_ptr<Units> units_;
  std::unordered_map<Group, std::unique_ptr<GroupState>> groups_;
  std::vector<std::unique_ptr<OpenOperation>> dropped_;  // fused operations of a failed job
  std::vector<std::unique_ptr<GroupTuning>> retired_;    // of removed groups; operations use it
  std::unordered_map<Handle, std::unique_ptr<OpenOperation>> operations_;
  // Residuals of operations that have none of their own, by group, name and count.
  std::map<std::tuple<Group, std::string, int64_t>, std::vector<float>> residuals_;
  // Messages of groups that this rank has not made yet.
  std::unordered_map<Group, std::vector<Events::Arrival>> early_arrivals_;
  Handle next_handle_ = 1;
  int64_t unfinished_ = 0, held_bytes_ = 0;
  std::optional<Verdict> verdict_;  // why the job ends; when set, no operation goes on
  std::vector<bool> has_spoken_;    // by rank: its verdict has arrived
  std::vector<bool> is_notified_;   // by rank: this rank's verdict has been sent to it
  double settle_until_s_ = 0;
  std::exception_ptr failure_;  // set when the ranks have agreed on a verdict
  double next_check_s_ = 0;

  bool driving_ = false, stopping_ = false, interrupted_ = false;
  int waiters_ = 0;
  double last_wait_s_ = 0;
  std::condition_variable progress_wake_, waiter_wake_, completion_wake_;
  std::deque<OpenOperation*> completed_;  // for next_completions
  std::vector<NonFiniteReport> non_finite_;
  int64_t done_operations_ = 0, joined_operations_ = 0;
  Trace trace_;
  const uint64_t forks_ = forks();
  std::thread thread_;
};

}  // namespace stretto::comm
