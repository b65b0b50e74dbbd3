// Named operations that ranks may submit in different orders. An operation starts when all ranks
// have submitted it, and operations start in the same order on all ranks. A thread runs the rounds
// of a Negotiator, as messages of the engine, whenever a rank has something new. All methods may be
// called from any thread. In a forked child they throw InvalidArgument, and the object must not be
// destroyed there.
//
//   Unordered named(engine, "job", {0, 1, 2, 3}, {.stall_s = 60});
//   Handle handle = named.submit("fc.weight", "allreduce of [10, 4] float32", kWorld, {operation});
//   named.wait(handle);
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/fork.h"
#include "stretto/comm/engine/attendance.h"
#include "stretto/comm/engine/engine.h"
#include "stretto/comm/negotiate/negotiate.h"

namespace stretto::comm {

// Waits for what a Start has started: returns true when it is over, false after timeout_s seconds,
// or throws its error. It is not called again after true or an exception. Empty: nothing to wait
// for.
using Rest = std::function<bool(double timeout_s)>;

// Submits operations. Called once, on the thread of an Unordered, in the same order on all ranks.
using Start = std::function<Rest()>;

// A collective that is submitted again and again, each time under another name and in place on
// other data.
struct Recurring {
  std::string description;
  Group group = kWorld;
  Operation operation;  // without a name and buffers
  bool named = true;    // the operation gets the name, too
};

struct UnorderedOptions {
  double stall_s = 60;
  // Both functions are called on the thread of the Unordered, and may be empty. `stalled` is called
  // when a name that this rank has submitted has waited for stall_s seconds.
  std::function<void(const Stall&)> stalled;
  // Called when this rank has joined and the others start the operation that `description`
  // describes: it starts the same operation with zeros as this rank's contribution. The Unordered
  // waits for the Rest that it returns before it ends.
  std::function<Rest(const std::string& description)> stand_in;
};

class Unordered {
 public:
  // All `ranks` make it with the same name, which is unique within the engine. The engine must
  // outlive it.
  Unordered(Engine& engine, std::string_view name, std::vector<int> ranks,
            UnorderedOptions options);

  // Ends the job on every rank unless all ranks have left before.
  ~Unordered();

  Unordered(const Unordered&) = delete;
  Unordered& operator=(const Unordered&) = delete;

  // Submits an operation and returns at once. If ranks give a name different descriptions, wait()
  // throws InvalidArgument with all of them on every rank. Throws InvalidArgument while the name is
  // in use.
  Handle submit(std::string_view name, std::string_view description, Start start);
  // The same for collectives of a group. Their buffers must live until the end. What all ranks have
  // submitted at the same time is started together, so that small all-reduces are fused.
  Handle submit(std::string_view name, std::string_view description, Group group,
                std::vector<Operation> operations);
  // The same for one operation, with next to no allocations.
  Handle submit(std::string_view name, const std::shared_ptr<const Recurring>& what, void* data);

  // The job fails if an operation takes longer, from its submission here until all ranks have
  // submitted it, and from then until its end; 0, as at first: options.operation_timeout_s. An
  // operation that has a time limit of its own keeps it. Ranks may have different ones.
  void set_timeout(double timeout_s);

  // This rank submits nothing until all ranks have joined; then the handle is done.
  Handle join();
  int last_joined() const;  // the rank of the group that joined last; -1 before all have

  // True when wait() would not block.
  bool poll(Handle handle);
  // Like Engine::wait().
  bool wait(Handle handle, double timeout_s = -1);
  // Does what wait() does and returns true, if the operation is known to be over without an error.
  // Never blocks for long.
  bool take_over(Handle handle);

  // This rank submits nothing any more. Operations of other ranks that need it fail with an error
  // that names it.
  void leave();
  // Waits until all ranks have left or the job has ended; false after timeout_s seconds.
  bool wait_left(double timeout_s = -1);

 private:
  struct Item;

  // Where an item is, for as long as its handle is known. A handle names its place and how often
  // that was used before, so that no search is needed, and is never given out again.
  struct Place {
    Handle handle = kNoHandle;  // kNoHandle: the place is free
    uint64_t uses = 0;
    std::shared_ptr<Item> item;  // of a free place: for the next one, with what it has allocated
  };

  // What this rank has to say in the next round.
  struct News {
    bool any = false;
    bool hurry = false;  // somebody waits for it
    double first_s = 0;  // when the first name came
    int64_t bytes = 0;   // of the operations
  };

  // unordered.cc
  void check_process() const;
  const std::shared_ptr<Item>& find(Handle handle, std::string_view method);
  Place* find(Handle handle);
  Item& insert();
  std::shared_ptr<Item> release(Place& place);
  template <typename Fill>
  Handle submit(std::string_view name, Fill&& fill);
  bool hurry();
  void call();
  double limit_s() const;
  std::string limit_text() const;
  bool wait_carriers(Item& item, double timeout_s);
  bool rest(Item& item, double timeout_s);

  // unordered_rounds.cc
  void run();
  void await_cause();
  static double next_round_s(const News& news);
  double answer_s() const;
  bool round();
  void post_receives();
  std::vector<std::byte> exchange(int k, const std::vector<std::byte>& message);
  std::vector<std::vector<std::string>> exchange(const std::vector<std::string>& texts);
  void await(Handle handle, int from);
  [[noreturn]] void refuse(int from, const FormatError& error);

  // unordered_starts.cc
  [[noreturn]] void time_out(const Stall& stall);
  void start_agreed(const Negotiator::Result& result);
  void start_told(const Negotiator::Result& result,
                  const std::vector<std::vector<std::string>>& said);
  void settle(const Negotiator::Agreed& agreed, const std::vector<std::string>& said);
  void begin(std::span<Item* const> items, bool together);
  static Operation operation_of(const Item& item);
  size_t begin_operations(std::span<Item* const> items, bool together);
  void stand_in(const std::string& description);
  Item* submitted(const Negotiator::Agreed& agreed);
  std::vector<Item*> locate(std::span<const Negotiator::Agreed> agreed);
  void finish(std::span<Item* const> items);
  void finish(Item* item, std::exception_ptr error);
  void give_up(std::exception_ptr error);

  Engine& engine_;
  const std::string name_;
  const std::vector<int> ranks_;
  const UnorderedOptions options_;
  const uint64_t forks_ = forks();
  const Group group_;
  int rank_ = 0;  // within ranks_

  // Used by the thread only: receives posted for the next round, and their buffers.
  struct Posted {
    Handle handle = 0;
    std::vector<std::byte> bytes;
  };
  std::vector<Posted> firsts_, wakes_;
  std::vector<Rest> stood_in_;

  Attendance attendance_;

  // The thread looks for a cause of a round. Set without the lock, by callers and by the engine.
  std::atomic<bool> called_{false};
  std::atomic<double> arrived_s_{0};  // when another rank's round came; 0: it has not

  std::atomic<double> timeout_s_{0};

  mutable std::mutex mutex_;
  std::condition_variable over_;
  Negotiator negotiator_;
  // Of items until wait() has returned. Those that have not started belong to the thread, too.
  std::vector<Place> places_;
  std::vector<uint32_t> free_places_;
  std::vector<Item*> joining_;
  News news_;
  bool stopping_ = false, over_done_ = false;
  int last_joined_ = -1;
  std::exception_ptr broken_;
  std::thread thread_;
};

}  // namespace stretto::comm
