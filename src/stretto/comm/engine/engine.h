// The gradient engine of one rank: runs collective operations of groups of ranks in the background.
// An engine has one thread of its own. All methods may be called from any thread.
//
//   auto engine = Engine::create(store, {.rank = 0, .size = 4}, Options::from_environment());
//   Handle handle = engine->submit(kWorld, {.count = n, .input = x, .output = x});
//   engine->wait(handle);
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/comm/engine/operation.h"
#include "stretto/comm/membership.h"
#include "stretto/comm/options.h"
#include "stretto/comm/store/store.h"
#include "stretto/comm/tuning/group_links.h"

namespace stretto::comm {

using Handle = uint64_t;
inline constexpr Handle kNoHandle = 0;
using Group = uint64_t;
inline constexpr Group kWorld = 0;

// How the end of an operation is reported: to wait() for its handle, or through next_completions().
enum class Delivery : uint8_t { kWait, kQueue };

struct Completion {
  Handle handle = 0;
  int source = -1;           // kRecv: the sender's rank in the group; others: -1
  std::exception_ptr error;  // null: the operation succeeded
};

// NaN or infinity in what this rank contributed to a reduction.
struct NonFiniteReport {
  int rank = 0;  // of the job
  std::string name;
  Group group = kWorld;
  uint64_t sequence = 0;     // of the operation within its group
  int64_t first_offset = 0;  // of the first such value, in elements of the operation's input
  int64_t count = 0;         // of such values
  int64_t more = 0;          // how many reports after this one, the last of its list, were not kept
};

struct StreamStatistics {
  std::string name;                            // "tcp eth0 10.0.0.1:4242", "shm"
  int64_t sent_bytes = 0, received_bytes = 0;  // headers and payloads
  bool alive = true;                           // false: it broke
  bool used = true;                            // it carries large messages at present
  std::string reason;                          // why it broke; empty while alive
};

// The streams to one remote rank.
struct LinkStatistics {
  int rank = 0;
  std::string host;
  std::string no_rdma;  // why it has no RDMA rail; empty: it has one, or had
  std::vector<StreamStatistics> streams;
};

// Sums over the training steps of a group that the engine recognised.
struct StepStatistics {
  int64_t steps = 0;
  int64_t bytes = 0;  // all-reduced, before encoding
  double seconds = 0;
  double busy_s = 0;     // while an operation was under way
  double exposed_s = 0;  // part of busy_s that computing did not hide: after the last operation was
                         // submitted, or while a thread waited
};

// The settings of a group's all-reduces and how they were found (Options::tuning).
struct TuningStatistics {
  struct Tried {
    std::string setting;
    double seconds = 0;          // median of times as step_s
    double against_seconds = 0;  // the same with the best setting before
    bool won = false;
  };
  std::string group;
  std::string model;      // describes the operations of a step; empty: no steps recognised
  std::string setting;    // in use: "unit=1048576 streams=2 algorithm=direct"
  bool recalled = false;  // it came from the tuning cache
  bool settled = false;   // there is nothing left to try
  double step_s = 0;      // time of a step with an operation open; the last that ranks agreed on
  // Seconds per byte and per message between hosts, as assumed or as measured in this job or an
  // earlier one.
  double wire_byte_s = 0, wire_latency_s = 0;
  StepStatistics steps;
  std::vector<Tried> tried;  // in order
};

struct Statistics {
  int64_t operations = 0;  // completed since the start
  int64_t joined = 0;      // of these, small all-reduces that were fused with others
  int64_t resent_chunks = 0, duplicate_chunks = 0;
  int64_t revived_streams = 0;   // broken streams that were connected again
  int64_t dropped_messages = 0;  // of groups that this rank had removed, or was about to
  int64_t payload_bytes = 0;     // sent, after encoding, without headers
  int64_t peak_eager_bytes = 0;  // most memory held for messages not asked for, summed over links
  double sum_s = 0;              // time spent on adding and encoding
  std::vector<LinkStatistics> links;
  std::vector<TuningStatistics> tuning;  // of groups whose steps were recognised
};

class Engine {
 public:
  // Finds the other ranks through the store and connects to them. Throws CommError that names the
  // ranks that are not connected within options.connect_timeout_s, and InvalidArgument when an
  // option is wrong or ranks have different sizes or schedule options.
  static std::unique_ptr<Engine> create(std::shared_ptr<Store> store, Membership membership,
                                        Options options);

  // close(), and waits for threads that are inside other methods.
  virtual ~Engine() = default;

  // Leaves the job: waits at most 5 seconds until what was sent has arrived, and notifies the other
  // ranks. If operations are not over, waits at most 1 second, and they fail with CommError, on
  // every thread that waits for them. Afterwards all connections and threads are gone, and methods
  // that start or wait throw CommError. May be called again, from any thread.
  virtual void close() = 0;

  virtual const Membership& membership() const = 0;
  virtual const Options& options() const = 0;

  // The ranks of every host, hosts in order of their lowest rank.
  virtual const std::vector<std::vector<int>>& hosts() const = 0;

  // Makes a group of ranks of the job, in this order, without communication. All members call this
  // with the same name and ranks before they use the group. No two groups of an engine have the
  // same name and ranks at a time.
  virtual Group add_group(std::string_view name, std::vector<int> ranks) = 0;
  // Frees what the engine keeps for a group whose operations are over. All members remove a group
  // before they make it again.
  virtual void remove_group(Group group) = 0;

  // Starts an operation and returns at once, without waiting for other ranks. Throws
  // InvalidArgument when the operation is not valid; all later errors are thrown by wait(). Members
  // of a group submit the same operations in the same order, except kSend and kRecv. With
  // options.order_check a difference fails the job on every rank with the descriptions of both
  // operations. `notify` is called once when the operation is over, by any thread; it must return
  // at once and not call the engine.
  virtual Handle submit(Group group, const Operation& operation,
                        Delivery delivery = Delivery::kWait, std::function<void()> notify = {}) = 0;

  // Starts several collectives. All members submit the same ones together, so that small
  // all-reduces become pieces of one operation without finding out what the others have submitted.
  // *handles gets a handle for each; operations with the same handle are over together, and one
  // wait() releases it. If one is not valid, none is started: *handles is empty, and `operations`
  // as it was. After another exception those that were not started have kNoHandle.
  virtual void submit_together(Group group, std::vector<Operation>&& operations,
                               std::vector<Handle>* handles) = 0;

  // Says that a training step of the group is over: all its operations have been submitted. Either
  // all members call this at the same place among their operations, or none does; then the engine
  // takes a repeated sequence of operations for a step.
  virtual void step(Group group = kWorld) = 0;

  // What links between the group's members cost, as this rank knows it: from the recent all-reduces
  // of groups of these ranks, else as the members have agreed for their algorithms, else from the
  // tuning cache. Others may know something else, so members agree before they act on it alike. May
  // read a file, once per group.
  virtual GroupLinks link_model(Group group = kWorld) = 0;

  // True when the operation is over, with or without an error. The handle stays valid.
  virtual bool poll(Handle handle) = 0;

  // The sender's rank in the group, for a kRecv that is over and whose handle is valid.
  virtual int source(Handle handle) = 0;

  // The ranks of the job whose data an operation waits for; empty when it is over, and when it
  // waits for earlier operations.
  virtual std::vector<int> awaited(Handle handle) = 0;

  // Blocks until the operation is over and releases the handle; every thread that waits for it
  // returns. Throws CommError when it failed, for example because a rank died or ranks submitted
  // different operations. timeout_s >= 0: returns false after so many seconds, and the handle stays
  // valid. *source (unless null) becomes source() of a kRecv, -1 for others.
  virtual bool wait(Handle handle, double timeout_s = -1, int* source = nullptr) = 0;

  // Reports an operation that was submitted with Delivery::kWait through next_completions()
  // instead, whether or not it is over. Its handle must not be given to wait() any more.
  virtual void deliver(Handle handle) = 0;

  // Blocks until operations submitted with Delivery::kQueue are over, writes them to `out`,
  // releases their handles and returns their number; 0 after timeout_s seconds, after interrupt()
  // or after close().
  virtual size_t next_completions(std::span<Completion> out, double timeout_s) = 0;
  virtual void interrupt() = 0;

  // For a thread that comes back again and again (attendance.h). Polls the links until `until()`,
  // which is called with the engine's lock and may do next to nothing, is true, or timeout_s
  // seconds have passed. From then on no other thread is woken up to poll; `begins` says so for the
  // first time, and dismiss() takes it back.
  virtual void attend(const std::function<bool()>& until, double timeout_s, bool begins) = 0;
  virtual void dismiss() = 0;
  // Threads inside attend() call until() again.
  virtual void call_attendants() = 0;

  // Fails all open and future operations on every rank of the job with CommError(reason). After
  // that the engine can only be destroyed.
  virtual void abort(std::string_view reason) = 0;

  // Adds a report of NaN or infinity that the caller found (Operation::scanned). Fills in the rank,
  // and ends the job when options.nan_check is kStop.
  virtual void report(NonFiniteReport found) = 0;

  // The reports of NaN and infinity since the last call, at most kMostReports: the first ones.
  static constexpr size_t kMostReports = 1000;
  virtual std::vector<NonFiniteReport> take_non_finite() = 0;
  // Blocks until there are reports, for timeout_s seconds at most, or until interrupt() or close().
  // For a thread that logs them: whoever waits for operations need not look for reports.
  virtual void wait_non_finite(double timeout_s) = 0;

  virtual Statistics statistics() = 0;

  // The last 100,000 events of all operations as JSON in Chrome's trace format, which Perfetto
  // shows too; empty unless options.trace is set.
  virtual std::string trace_json() = 0;

  // Records events for a while, also without options.trace. stop_trace() gives those since the last
  // start_trace() as trace_json() does; empty if nothing is recorded.
  virtual void start_trace() = 0;
  virtual std::string stop_trace() = 0;

  // The last 1,000 operations, and what those that are not over wait for, as JSON
  // (docs/formats/flight-record.md); empty after close(). When the job fails, and when the process
  // gets SIGUSR2, the engine writes it to a file in options.dump.
  virtual std::string flight_json(std::string_view reason) = 0;
};

// Calls Engine::abort with the message of the exception and the number of this rank.
void abort_with(Engine& engine, const std::exception_ptr& error);

}  // namespace stretto::comm
