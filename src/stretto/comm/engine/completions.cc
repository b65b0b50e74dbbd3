#include "stretto/comm/engine/completions.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace stretto::comm {

void Completions::add(OperationTable::Shared open) {
  over_.push_back(std::move(open));
  wake_.notify_one();
}

size_t Completions::take(std::unique_lock<std::mutex>& lock, std::span<Completion> out,
                         double timeout_s, OperationTable* operations) {
  wake_.wait_for(lock, std::chrono::duration<double>(std::min(timeout_s, 1e9)),
                 [&] { return !over_.empty() || interrupted_; });
  interrupted_ = closed_;
  size_t count = 0;
  for (; count < out.size() && !over_.empty(); ++count) {
    const OperationTable::Shared open = std::move(over_.front());
    over_.pop_front();
    operations->release(open->handle);
    const bool receives = open->operation.kind == Kind::kRecv;
    out[count] = {open->handle, receives ? open->operation.peer : -1, open->error};
  }
  return count;
}

void Completions::interrupt() {
  interrupted_ = true;
  wake_.notify_all();
}

void Completions::close() {
  closed_ = true;
  interrupt();
}

// Destroying a condition variable waits for its sleepers.
void Completions::forget_sleepers() { new (&wake_) std::condition_variable(); }

}  // namespace stretto::comm
