// The gradient engine of one rank: carries out collective operations of groups of ranks in the
// background. One progress thread per engine; every method may be called from any thread.
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

#include "stretto/comm/operation.h"
#include "stretto/comm/options.h"
#include "stretto/comm/store.h"

namespace stretto::comm {

// Which rank of which job. Ranks that meet have the same size and epoch. A job that starts again in
// the same processes over the same store takes the next epoch; what the old one still sends is
// dropped.
struct Membership {
  int rank = 0;
  int size = 1;
  uint32_t epoch = 0;
};

using Handle = uint64_t;
using Group = uint64_t;
inline constexpr Group kWorld = 0;

// Who takes note of an operation's end: the one who waits for its handle, or the completion thread
// that sits in next_completions().
enum class Delivery : uint8_t { kWait, kQueue };

struct Completion {
  Handle handle = 0;
  int source = -1;           // of a kRecv: the rank of the group it came from
  std::exception_ptr error;  // null: done
};

// A contribution of this rank that held NaN or infinity.
struct NonFiniteReport {
  int rank = 0;  // of the job
  std::string name;
  Group group = kWorld;
  uint64_t sequence = 0;     // of the operation within its group
  int64_t first_offset = 0;  // in elements of the operation's input
  int64_t count = 0;
};

struct StreamStatistics {
  std::string link;                            // "tcp eth0 10.0.0.1:4242", "shm"
  int64_t sent_bytes = 0, received_bytes = 0;  // frames and payload
  bool alive = true;                           // or ended in good order
  bool used = true;                            // large messages go over it, now
  std::string reason;                          // why it is no more
};

struct PeerStatistics {
  int rank = 0;
  std::string host;
  std::string no_rdma;  // why no RDMA rail leads there; empty: one does, or did
  std::vector<StreamStatistics> streams;
};

// Sums over the steps of a group that could be told apart.
struct StepStatistics {
  int64_t steps = 0;
  int64_t bytes = 0;  // of all-reduces, as the caller sees them
  double seconds = 0;
  double busy_s = 0;     // an operation was under way
  double exposed_s = 0;  // of that, after the last was submitted or while somebody waited: the tail
};

// What was found out about the steps of a group; settings are tried with options.tune.
struct TuningStatistics {
  struct Tried {
    std::string setting;
    double seconds = 0,
           against_seconds = 0;  // medians of step times: with it, with the best before
    bool won = false;
  };
  std::string group;
  std::string model;      // the operations of a step; empty: not recognised
  std::string setting;    // in use: "unit=1048576 streams=2 algorithm=direct"
  bool recalled = false;  // it came from the record of earlier runs
  bool settled = false;   // nothing is left to try
  double step_s = 0;      // the last time that the ranks agreed on
  StepStatistics steps;
  std::vector<Tried> tried;  // in order
};

struct Statistics {
  int64_t operations = 0;  // done since the start
  int64_t joined = 0;      // of them: small all-reduces that travelled as one with others
  int64_t resent_chunks = 0, duplicate_chunks = 0;
  int64_t revived_streams = 0;   // that had broken and were dialled again
  int64_t payload_bytes = 0;     // sent to peers, after encoding
  int64_t most_early_bytes = 0;  // held at a time for operations not submitted yet; sum over peers
  double sum_s = 0;              // spent combining
  std::vector<PeerStatistics> peers;
  std::vector<TuningStatistics> tuning;  // of groups whose steps were recognised
};

class Engine {
 public:
  // Meets the other ranks through the store and connects to them. Throws CommError naming the ranks
  // that did not come within options.connect_timeout_s, InvalidArgument when the ranks disagree
  // about size or schedule options.
  static std::unique_ptr<Engine> create(std::shared_ptr<Store> store, Membership membership,
                                        Options options);

  // Lets sent data arrive (for a few seconds at most), tells the peers and leaves. Operations that
  // are still open fail.
  virtual ~Engine() = default;

  virtual const Membership& membership() const = 0;
  virtual const Options& options() const = 0;

  // Ranks of the job per host, hosts in order of their lowest rank: what schedules are made from.
  virtual const std::vector<std::vector<int>>& hosts() const = 0;

  // A group of ranks of the job, in this order; all its members call this with the same name and
  // ranks before they use it (nothing is sent). Names are unique within an engine.
  virtual Group add_group(std::string_view name, std::vector<int> ranks) = 0;
  virtual void remove_group(Group group) = 0;

  // Starts an operation and returns at once. Throws InvalidArgument when the operation makes no
  // sense; everything else that goes wrong belongs to the handle. Members of a group submit the
  // same operations in the same order (kSend and kRecv excepted): with options.order_check a
  // mismatch fails on every rank with the descriptions of both sides. `notify` is called once when
  // the operation is over, by whichever thread ends it; it must return at once and not call the
  // engine.
  virtual Handle submit(Group group, const Operation& operation,
                        Delivery delivery = Delivery::kWait, std::function<void()> notify = {}) = 0;

  // A training step of the group is over: all its operations have been submitted. All members call
  // this at the same place among their operations, or none ever does; then a sequence of operations
  // that repeats is taken for a step. May wait for the others to end the step before.
  virtual void step(Group group = kWorld) = 0;

  // True when the operation is over, well or not. The handle stays valid.
  virtual bool poll(Handle handle) = 0;

  // Of a kRecv that is over and whose handle is valid: the rank of the group it came from.
  virtual int source(Handle handle) = 0;

  // Blocks until the operation is over and forgets the handle; throws the CommError that says what
  // went wrong: a lost peer, different operations on different ranks. timeout_s < 0: as long as it
  // takes; otherwise false when the time is up, and the handle stays valid. `source` (may be null)
  // becomes what source() says, -1 for all but kRecv.
  virtual bool wait(Handle handle, double timeout_s = -1, int* source = nullptr) = 0;

  // Hands an operation that was submitted with Delivery::kWait over to next_completions(), whether
  // it is over or not. The handle is not for wait() any more.
  virtual void deliver(Handle handle) = 0;

  // Blocks until operations submitted with Delivery::kQueue are over, fills as many entries as
  // there are and returns their number; 0 after timeout_s, or when interrupt() was called. Their
  // handles are forgotten.
  virtual size_t next_completions(std::span<Completion> out, double timeout_s) = 0;
  virtual void interrupt() = 0;

  // Fails every open and future operation on every rank of the job with CommError(reason). The
  // engine can only be destroyed then.
  virtual void abort(std::string_view reason) = 0;

  // For those who look at contributions themselves (Operation::scanned): goes the same way as what
  // the check finds, and ends the job if that is to stop it. The rank is filled in.
  virtual void report(NonFiniteReport found) = 0;

  // What the check found since the last call.
  virtual std::vector<NonFiniteReport> take_non_finite() = 0;

  virtual Statistics statistics() = 0;

  // Chrome / Perfetto trace of the operations so far (the last 100,000 events), as JSON; empty
  // unless options.trace is set.
  virtual std::string trace_json() = 0;
};

// Engine::abort with this rank and what the exception says.
void abort_with(Engine& engine, const std::exception_ptr& error);

}  // namespace stretto::comm
