// Named operations that ranks hand in, in any order: each starts when all ranks have handed it in,
// and they start in the same order everywhere. A thread of its own carries out the rounds of a
// Negotiator over messages of the engine, whenever a rank has something new to say.
//
//   Unordered named(engine, "job", {0, 1, 2, 3}, {.stall_s = 60});
//   Handle handle = named.submit("fc.weight", "allreduce of [10, 4] float32",
//   start_operations(...)); named.wait(handle);
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stretto/comm/engine.h"
#include "stretto/comm/negotiate.h"

namespace stretto::comm {

// What a start has left to wait for: true when it is over, false when timeout_s are; throws what
// went wrong. Empty: nothing. It is not called again after it has returned true or thrown.
using Rest = std::function<bool(double timeout_s)>;

// Submits operations; called once, on the thread of an Unordered, in an order that all ranks share.
using Start = std::function<Rest()>;

// The start that submits these to a group of the engine. Their buffers stay till the end.
Start start_operations(Engine& engine, Group group, std::vector<Operation> operations);

struct UnorderedOptions {
  double stall_s = 60;
  // All are called on the thread; may be empty. A name that is ready here has waited for so long.
  std::function<void(const Stall&)> stalled;
  // This rank has joined, and the others do what this description says: start the same, with
  // nothing to add. The rest that it returns is waited for before the end.
  std::function<Rest(const std::string& description)> stand_in;
};

class Unordered {
 public:
  // All `ranks` of the job make it with the same name, which is unique within the engine; that has
  // to live longer.
  Unordered(Engine& engine, std::string_view name, std::vector<int> ranks,
            UnorderedOptions options);

  // Ends the job on every rank unless all have left before.
  ~Unordered();

  Unordered(const Unordered&) = delete;
  Unordered& operator=(const Unordered&) = delete;

  // Returns at once. The description says what the name stands for: where ranks differ in it, all
  // get an InvalidArgument with what each said. Throws InvalidArgument while the name is in use.
  Handle submit(std::string_view name, std::string_view description, Start start);

  // This rank has nothing more to hand in until all have joined; its handle is done then.
  Handle join();
  int last_joined() const;  // the rank that did so last, -1 before; of the group

  // True when wait() would not block.
  bool poll(Handle handle);
  // As the engine's.
  bool wait(Handle handle, double timeout_s = -1);

  // Nothing is submitted here any more. What others submit that would need this rank fails there,
  // naming it.
  void leave();
  // All ranks have left, or the job has ended; false when the time is up.
  bool wait_left(double timeout_s = -1);

 private:
  struct Item;

  // unordered_rounds.cc
  void run();
  void await_cause();
  bool round();
  void post_receives();
  std::vector<std::byte> exchange(int k, const std::vector<std::byte>& message);
  std::vector<std::vector<std::string>> tell(const std::vector<std::string>& texts);

  // unordered_starts.cc
  void start_agreed(const Negotiator::Result& result);
  void settle(const Negotiator::Agreed& agreed, const std::vector<std::string>& said);
  void begin(const std::shared_ptr<Item>& item);
  void stand_in(const std::string& description);
  std::shared_ptr<Item> take(const std::string& name);
  void finish(const std::shared_ptr<Item>& item, std::exception_ptr error);
  void give_up(std::exception_ptr error);

  Engine& engine_;
  const std::string name_;
  const std::vector<int> ranks_;
  const UnorderedOptions options_;
  const Group group_;
  int rank_ = 0;  // within ranks_

  // The thread's: receives that are posted for the next round, and what they fill.
  struct Posted {
    Handle handle = 0;
    std::vector<std::byte> bytes;
  };
  std::vector<Posted> firsts_, wakes_;
  std::vector<Rest> stood_in_;

  mutable std::mutex mutex_;
  std::condition_variable cause_, over_;
  Negotiator negotiator_;
  std::unordered_map<Handle, std::shared_ptr<Item>> items_;
  std::unordered_map<std::string, std::shared_ptr<Item>> waiting_;  // by name: not started
  std::vector<std::shared_ptr<Item>> joining_;
  Handle next_handle_ = 1;
  bool news_ = false, arrived_ = false, stopping_ = false, over_done_ = false;
  int last_joined_ = -1;
  std::exception_ptr broken_;
  std::thread thread_;
};

}  // namespace stretto::comm
