#include "stretto/comm/gradient/gradients.h"

#include <algorithm>
#include <chrono>

#include "stretto/base/error.h"
#include "stretto/base/thread.h"
#include "stretto/comm/reduce/scan.h"

namespace stretto::comm {

struct Gradients::Open {
  Handle handle = 0;
  Delivery delivery = Delivery::kWait;
  Bucket bucket;
  Exchange exchange;
  int next_stage = 0;
  std::vector<Handle> handles;  // operations of the stage under way
  size_t left = 0;              // how many of them are not over
  bool done = false;
  std::exception_ptr error;
};

Gradients::Gradients(Engine& engine, std::string_view name, std::vector<int> ranks,
                     std::string_view codec, const Options& options)
    : engine_(engine), codec_(codec) {
  const GradientGroup group{.ranks = static_cast<int>(ranks.size()),
                            .links = [this] { return engine_.link_model(groups_.back()); }};
  start_ = find_gradient_codec(codec).make(codec, group, options);
  int made = 0;
  try {
    for (; made < kStages; ++made)
      groups_[made] = engine_.add_group(fmt::format("{}, stage {}", name, made), ranks);
    worker_ = start_thread("gradients", [this] { run(); });
  } catch (...) {
    while (made > 0) engine_.remove_group(groups_[--made]);
    throw;
  }
}

Gradients::~Gradients() {
  bool under_way = false;
  {
    std::lock_guard lock(mutex_);
    stopping_ = interrupted_ = true;
    under_way = unfinished_ > 0;
  }
  worker_wake_.notify_one();
  completion_wake_.notify_all();
  if (under_way)
    engine_.abort(
        fmt::format("rank {} has left while gradients were under way", engine_.membership().rank));
  worker_.join();
  for (const Group group : groups_) engine_.remove_group(group);
}

// A forked child has no worker thread, and its copy of the lock may be locked for ever.
void Gradients::check_process() const {
  if (forks_ != forks())
    throw_invalid("gradients: made before fork(), they work only in the process that made them");
}

Handle Gradients::submit(Bucket bucket, Delivery delivery) {
  check_process();
  auto owned = std::make_shared<Open>();
  Open* open = owned.get();
  open->delivery = delivery;
  open->bucket = std::move(bucket);
  std::lock_guard lock(mutex_);
  for (const GradientSlice& slice : open->bucket.slices)
    if (under_way_.contains({slice.parameter, slice.begin}))
      throw_invalid("gradients: {} is being averaged already; wait for it first", slice.parameter);
  for (const GradientSlice& slice : open->bucket.slices)
    under_way_.insert({slice.parameter, slice.begin});
  open->handle = next_handle_++;
  const Handle handle = open->handle;
  open_.emplace(handle, std::move(owned));
  submitted_.push_back(open);
  ++unfinished_;
  worker_wake_.notify_one();
  return handle;
}

bool Gradients::wait(Handle handle, double timeout_s) {
  check_process();
  std::unique_lock lock(mutex_);
  const auto found = open_.find(handle);
  if (found == open_.end())
    throw_invalid("gradients: handle {} is unknown, or was waited for before", handle);
  const std::shared_ptr<Open> open = found->second;
  const auto limit = std::chrono::duration<double>(timeout_s < 0 ? 1e9 : timeout_s);
  if (!waiter_wake_.wait_for(lock, limit, [&] { return open->done; })) return false;
  const std::exception_ptr error = open->error;
  open_.erase(handle);  // unless another thread has waited for it too
  lock.unlock();
  if (error) std::rethrow_exception(error);
  return true;
}

size_t Gradients::next_completions(std::span<Completion> out, double timeout_s) {
  check_process();
  std::unique_lock lock(mutex_);
  completion_wake_.wait_for(lock, std::chrono::duration<double>(std::min(timeout_s, 1e9)),
                            [&] { return !completed_.empty() || interrupted_; });
  interrupted_ = stopping_;
  size_t count = 0;
  for (; count < out.size() && !completed_.empty(); ++count) {
    Open* open = completed_.front();
    completed_.pop_front();
    out[count] = {.handle = open->handle, .error = open->error};
    open_.erase(open->handle);
  }
  return count;
}

void Gradients::interrupt() {
  check_process();
  {
    std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  completion_wake_.notify_all();
}

// Buckets that have begun go on before new ones begin.
void Gradients::run() {
  while (true) {
    std::deque<Open*> done, fresh;
    {
      std::unique_lock lock(mutex_);
      worker_wake_.wait(lock, [&] {
        return !operations_done_.empty() || !submitted_.empty() || (stopping_ && unfinished_ == 0);
      });
      if (stopping_ && unfinished_ == 0) return;
      done = std::exchange(operations_done_, {});
      fresh = std::exchange(submitted_, {});
    }
    for (Open* open : done) on_operation_done(*open);
    for (Open* open : fresh) admit(*open);
    advance();
  }
}

void Gradients::admit(Open& open) {
  try {
    scan(open.bucket);
    open.exchange = start_(open.bucket);
    open.next_stage = open.exchange.first_stage;
    for (int s = open.exchange.first_stage; s < open.exchange.end_stage; ++s)
      waits_[s].push_back(&open);
  } catch (...) {
    fail(open, std::current_exception());
  }
}

void Gradients::scan(const Bucket& bucket) {
  if (engine_.options().nan_check == NanCheck::kOff || !is_float(bucket.dtype)) return;
  const auto element = static_cast<int64_t>(dtype_bytes(bucket.dtype));
  const auto* at = static_cast<const std::byte*>(bucket.values);
  if (scan_non_finite(usable_isa(), bucket.dtype, at, bucket.count()).count == 0) return;
  for (const GradientSlice& slice : bucket.slices) {
    const NonFinite found = scan_non_finite(usable_isa(), bucket.dtype, at, slice.count);
    at += slice.count * element;
    if (found.count == 0) continue;
    engine_.report({.name = fmt::format("{} at step {}", slice.parameter, bucket.step),
                    .group = groups_[0],
                    .sequence = static_cast<uint64_t>(bucket.step),
                    .first_offset = slice.begin + found.first,
                    .count = found.count});
  }
}

// Sends every stage that may go: the stages of a bucket in order, and the buckets of a stage in
// order.
void Gradients::advance() {
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = kStages - 1; stage >= 0; --stage) {
      while (!waits_[stage].empty()) {
        Open& open = *waits_[stage].front();
        if (open.next_stage != stage || open.left > 0) break;
        waits_[stage].pop_front();
        send(open, stage);
        moved = true;
      }
    }
  }
}

void Gradients::send(Open& open, int stage) {
  try {
    std::vector<Operation> operations = open.exchange.stage(stage);
    STRETTO_CHECK(!operations.empty(), "codec {} has nothing to do in stage {}", codec_, stage);
    open.left = operations.size();
    for (Operation& operation : operations) {
      operation.timeout_s = open.bucket.timeout_s;
      open.handles.push_back(
          engine_.submit(groups_[stage], operation, Delivery::kWait, [this, &open] {
            std::lock_guard lock(mutex_);
            operations_done_.push_back(&open);
            worker_wake_.notify_one();
          }));
    }
  } catch (...) {
    open.left = open.handles.size();  // handles submitted so far
    fail(open, std::current_exception());
  }
}

void Gradients::on_operation_done(Open& open) {
  if (--open.left > 0) return;
  for (const Handle handle : std::exchange(open.handles, {})) {
    try {
      engine_.wait(handle);
    } catch (...) {
      if (!open.error) open.error = std::current_exception();
    }
  }
  if (open.error) {
    for (auto& waits : waits_) std::erase(waits, &open);
    return complete(open);
  }
  if (++open.next_stage < open.exchange.end_stage) return;
  try {
    open.exchange.finish();
    complete(open);
  } catch (...) {
    fail(open, std::current_exception());
  }
}

// Ends the job, because other ranks wait for operations that this rank cannot submit.
void Gradients::fail(Open& open, std::exception_ptr error) {
  open.error = error;
  abort_with(engine_, error);
  for (auto& waits : waits_) std::erase(waits, &open);
  if (open.left == 0) complete(open);
}

void Gradients::complete(Open& open) {
  open.exchange = {};
  std::lock_guard lock(mutex_);
  for (const GradientSlice& slice : open.bucket.slices)
    under_way_.erase({slice.parameter, slice.begin});
  open.done = true;
  --unfinished_;
  if (open.delivery == Delivery::kQueue) {
    completed_.push_back(&open);
    completion_wake_.notify_one();
  }
  waiter_wake_.notify_all();
}

}  // namespace stretto::comm
