// Averages gradient buckets over a group of ranks, with any gradient codec. All methods may be
// called from any thread. In a forked child they throw InvalidArgument, and the object must not be
// destroyed there.
//
//   Gradients gradients(engine, "model", {0, 1, 2, 3}, "powersgd", engine.options());
//   Handle handle = gradients.submit({.slices = {...}, .values = x, .step = 1});
//   gradients.wait(handle);
//
// A worker thread encodes and decodes while the engine sends and receives. Every stage of an
// exchange (gradient/exchange.h) has its own group in the engine, in which buckets follow one
// another in the order of submission. So all ranks submit the same operations in the same order
// whatever their timing, and results have the same bits on all.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stretto/base/fork.h"
#include "stretto/comm/engine/engine.h"
#include "stretto/comm/gradient/exchange.h"

namespace stretto::comm {

class Gradients {
 public:
  // All `ranks` make it with the same arguments. The name is unique within the engine, which must
  // outlive it.
  Gradients(Engine& engine, std::string_view name, std::vector<int> ranks, std::string_view codec,
            const Options& options);

  // Ends the job on every rank if buckets are under way: wait for them first.
  ~Gradients();

  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  // Starts to average a bucket and returns at once. Throws InvalidArgument when a slice of it is
  // being averaged already. NaN and infinity are reported through the engine by parameter and step,
  // and sent like other values.
  Handle submit(Bucket bucket, Delivery delivery = Delivery::kWait);

  // Like the methods of Engine, for the handles of submit().
  bool wait(Handle handle, double timeout_s = -1);
  size_t next_completions(std::span<Completion> out, double timeout_s);
  void interrupt();

  std::string_view codec() const { return codec_; }

 private:
  struct Open;

  void check_process() const;
  void run();
  void advance();
  void admit(Open& open);
  void send(Open& open, int stage);
  void on_operation_done(Open& open);
  void scan(const Bucket& bucket);
  void fail(Open& open, std::exception_ptr error);
  void complete(Open& open);

  Engine& engine_;
  const uint64_t forks_ = forks();
  const std::string codec_;
  std::array<Group, kStages> groups_;
  StartExchange start_;                           // the worker's
  std::array<std::deque<Open*>, kStages> waits_;  // the worker's: for a stage, in order

  std::mutex mutex_;
  std::condition_variable worker_wake_, waiter_wake_, completion_wake_;
  std::unordered_map<Handle, std::shared_ptr<Open>> open_;
  std::set<std::pair<std::string, int64_t>> under_way_;  // parameter and begin
  std::deque<Open*> submitted_;                          // not yet seen by the worker
  std::deque<Open*> operations_done_;
  std::deque<Open*> completed_;  // for next_completions
  Handle next_handle_ = 1;
  int64_t unfinished_ = 0;
  bool stopping_ = false, interrupted_ = false;
  std::thread worker_;
};

}  // namespace stretto::comm
