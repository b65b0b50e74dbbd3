// The engine's implementation. It puts its parts together, which are listed among the members. A
// part knows nothing of the engine. What is left here: callers come in, the links report, and one
// part learns what another has found.
//
// One lock guards all parts. Callers hold it from Inside to the end of a method, the engine's
// threads while they are awake. It is released while a thread polls or sleeps, during large sums
// and searches, while files are read, for errands, and for callers that wait for it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "stretto/base/cpu.h"
#include "stretto/base/error.h"
#include "stretto/base/fork.h"
#include "stretto/comm/engine/completions.h"
#include "stretto/comm/engine/dump_signal.h"
#include "stretto/comm/engine/ending.h"
#include "stretto/comm/engine/flight_recorder.h"
#include "stretto/comm/engine/group_table.h"
#include "stretto/comm/engine/job_hosts.h"
#include "stretto/comm/engine/named_residuals.h"
#include "stretto/comm/engine/non_finite_reports.h"
#include "stretto/comm/engine/operation_table.h"
#include "stretto/comm/engine/polling.h"
#include "stretto/comm/engine/state.h"
#include "stretto/comm/engine/trace.h"
#include "stretto/comm/engine/units.h"

namespace stretto::comm {

class EngineImpl : public Engine {
 public:
  EngineImpl(Store& store, Membership membership, Options options);
  ~EngineImpl() override;

  void close() override;
  const Membership& membership() const override { return membership_; }
  const Options& options() const override { return options_; }
  const std::vector<std::vector<int>>& hosts() const override { return hosts_.ranks; }
  Group add_group(std::string_view name, std::vector<int> ranks) override;
  void remove_group(Group group) override;
  Handle submit(Group group, const Operation& operation, Delivery delivery,
                std::function<void()> notify) override;
  void submit_together(Group group, std::vector<Operation>&& operations,
                       std::vector<Handle>* handles) override;
  void step(Group group) override;
  GroupLinks link_model(Group group) override;
  bool poll(Handle handle) override;
  int source(Handle handle) override;
  std::vector<int> awaited(Handle handle) override;
  bool wait(Handle handle, double timeout_s, int* source) override;
  void deliver(Handle handle) override;
  size_t next_completions(std::span<Completion> out, double timeout_s) override;
  void interrupt() override;
  void attend(const std::function<bool()>& until, double timeout_s, bool begins) override;
  void dismiss() override;
  void call_attendants() override;
  void abort(std::string_view reason) override;
  void report(NonFiniteReport found) override;
  std::vector<NonFiniteReport> take_non_finite() override;
  void wait_non_finite(double timeout_s) override;
  Statistics statistics() override;
  std::string trace_json() override;
  void start_trace() override;
  std::string stop_trace() override;
  std::string flight_json(std::string_view reason) override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  // Holds the lock while a caller is inside a method, and keeps close() from freeing what the
  // caller uses. Throws InvalidArgument in a forked child.
  class Inside;

  // engine.cc: the life of an engine.
  void form();
  void leave(Lock& lock);
  void say_goodbye(Lock& lock, double deadline);
  void fail_open(const std::exception_ptr& error);
  void abandon();
  Statistics gather_statistics() const;
  OperationTable::Shared find(Handle handle, std::string_view method) const;

  // threads.cc: the threads that poll and sum.
  void start_threads();
  void join_threads();
  void progress();
  void help();
  void drive(Lock& lock, double max_wait_s);
  bool glance();
  void send_held();
  void write_rest();
  bool await(Lock& lock, const OpenOperation& open, double timeout_s);
  void wake(const Polling::Wake& wake);
  void run_errands(Lock& lock);

  // groups.cc
  GroupState& make_group(Group id, std::string name, std::vector<int> ranks);
  void erase_group(Group id);

  // submit.cc: operations come from callers.
  std::shared_ptr<OpenOperation> begin(Group id, Operation operation, Delivery delivery,
                                       std::function<void()> notify = nullptr,
                                       std::vector<Piece> pieces = {},
                                       std::optional<NonFinite> found = {});

  // start.cc: they get a plan, then their units start.
  void plan(GroupState& group, OpenOperation* open);
  void begin_collective(GroupState& group, OpenOperation* open);
  void begin_message(GroupState& group, OpenOperation* open);
  void start_small(GroupState& group);

  // events.cc: what the links report, and the end of operations.
  // Whether to write: kOnce leaves the rest to whoever polls, and kAll does while a caller waits.
  enum class Flush : uint8_t { kNone, kOnce, kAll };
  void process_events(Flush flush = Flush::kOnce);
  void on_arrival(const Events::Arrival& arrival);
  void on_controls(const std::vector<Events::Control>& controls);
  void on_mismatch(int rank, const MessageKey& key, Lengths lengths = {});  // of its message
  void on_loss(const Events::Loss& loss);
  void finish_small(GroupState& group, OpenOperation* open);
  void finish(OpenOperation* open);

  // failure.cc: what ends the job.
  void check_time();
  void check_departed();
  void stop_for_non_finite(const OpenOperation& open);
  void fail(int origin, const std::string& link, const std::string& text);
  void fail_here(const char* what) noexcept;
  // Runs `step`, whose exceptions end the job: other ranks wait for what it has left undone.
  template <typename Step>
  void or_fail(const Step& step) {
    try {
      step();
    } catch (const std::exception& e) {
      fail_here(e.what());
    }
  }
  void stop_all();
  void settle();

  // steps.cc: settings change between steps.
  void begin_tuning(GroupState& group);
  StepFinder::Event find_step(GroupState& group, const Operation& operation);
  void mark(GroupState& group, Group id, StepFinder::Event event);
  void pass_mark(GroupState& group, Group id, const StepMark& mark);
  void on_agreed(Group id);
  void release_held(GroupState& group, Group id);

  // flight.cc: the last operations, kept for diagnosis.
  std::string flight_text(std::string_view reason) const;
  void keep_flight(std::string_view reason, bool failed = true);
  void on_dump_signal();

  const Membership membership_;
  const Options options_;
  const Isa isa_ = usable_isa();
  JobHosts hosts_;
  std::mutex mutex_;
  Callers callers_;  // that wait for it

  // The parts. Those of each group (its order, fusion, point-to-point messages, plans and step
  // tuning) are in GroupState.
  std::unique_ptr<Links> links_;  // connections and messages
  GroupTable groups_;
  OperationTable operations_;
  std::optional<Units> units_;    // of operations under way, and the local steps that wait
  Completions completions_;       // what next_completions() reports
  Polling polling_;               // who polls, who sleeps, who is woken
  std::optional<Ending> ending_;  // of a job that has failed
  NamedResiduals residuals_;
  NonFiniteReports non_finite_;
  Trace trace_;
  FlightRecorder flight_;
  std::shared_ptr<tune::TuningCache> cache_;  // null: no group needed it yet (StepTuning::cache)

  // Between the parts.
  int64_t held_bytes_ = 0;   // of small operations whose messages wait to be written together
  double next_check_s_ = 0;  // for timeouts
  bool starved_ = false;     // there was no memory to tell of a failure
  std::vector<std::function<void()>> errands_;  // to be run without the lock

  // The life of the engine.
  const uint64_t forks_ = forks();
  int inside_ = 0;                     // threads in methods
  bool closed_ = false;                // methods throw
  bool left_ = false;                  // close() is over
  std::condition_variable exit_wake_;  // for close() and the destructor
  Statistics last_statistics_;         // when the engine was closed
  std::thread thread_, helper_;
  std::optional<DumpSignal> dump_signal_;
};

}  // namespace stretto::comm
