// Averages gradient buckets of one group of ranks over an engine, with any gradient codec.
//
//   Gradients gradients(engine, "model", {0, 1, 2, 3}, "powersgd", engine.options());
//   Handle handle = gradients.submit({.slices = {...}, .values = x, .step = 1});
//   gradients.wait(handle);
//
// One worker thread encodes and decodes; the engine carries out what is on the wire meanwhile. The
// order of operations depends on the order of buckets alone: every stage of an exchange
// (gradient/exchange.h) has a group of its own in the engine, in which buckets follow one another
// as they were submitted. So ranks agree whatever their timing, and results are bitwise the same on
// all.
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

#include "stretto/comm/engine.h"
#include "stretto/comm/gradient/exchange.h"

namespace stretto::comm {

class Gradients {
 public:
  // All `ranks` of the job make it, with the same arguments; the name is unique within the engine,
  // which has to live longer.
  Gradients(Engine& engine, std::string_view name, std::vector<int> ranks, std::string_view codec,
            const Options& options);

  // Buckets that are still under way end the job on every rank: wait for them before.
  ~Gradients();

  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  // Starts to average a bucket and returns at once. Throws InvalidArgument when a slice of it is
  // under way already. What a rank contributes that is not finite is reported through the engine
  // by parameter and step, and arrives.
  Handle submit(Bucket bucket, Delivery delivery = Delivery::kWait);

  // As the engine's, for the handles of submit().
  bool wait(Handle handle, double timeout_s = -1);
  size_t next_completions(std::span<Completion> out, double timeout_s);
  void interrupt();

  std::string_view codec() const { return codec_; }

 private:
  struct Open;

  void run();
  void advance();
  void admit(Open& open);
  void send(Open& open, int stage);
  void on_operation_done(Open& open);
  void scan(const Bucket& bucket);
  void fail(Open& open, std::exception_ptr error);
  void complete(Open& open);

  Engine& engine_;
  const std::string codec_;
  std::array<Group, kStages> groups_;
  StartExchange start_;                           // the worker's
  std::array<std::deque<Open*>, kStages> waits_;  // the worker's: for a stage, in order

  std::mutex mutex_;
  std::condition_variable worker_wake_, waiter_wake_, completion_wake_;
  std::unordered_map<Handle, std::unique_ptr<Open>> open_;
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
