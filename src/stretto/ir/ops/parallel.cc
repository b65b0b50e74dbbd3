#include "stretto/ir/ops/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>

#include "stretto/base/interrupt.h"

namespace stretto::ir::ops {
namespace {

// Pieces that a thread's part is cut into, so that it can be interrupted in between.
constexpr int64_t kPieces = 32;

}  // namespace

void parallel(ThreadTeam* team, int64_t total, int64_t grain,
              FunctionRef<void(int64_t begin, int64_t end)> f) {
  std::exception_ptr interrupt;
  std::atomic<bool> stop{false};
  const auto part = [&](int64_t begin, int64_t end, bool caller) {
    const int64_t step = std::max(grain, (end - begin + kPieces - 1) / kPieces);
    for (int64_t at = begin; at < end && !stop.load(std::memory_order_relaxed); at += step) {
      f(at, std::min(at + step, end));
      if (!caller) continue;
      try {
        check_interrupt();
      } catch (...) {
        interrupt = std::current_exception();
        stop.store(true, std::memory_order_relaxed);
      }
    }
  };
  if (team == nullptr || total < 2 * grain) {
    part(0, total, true);
  } else {
    team->run([&](const Worker& worker) {
      const Range range = split(total, worker);
      part(range.begin, range.end, worker.index == 0);
    });
  }
  if (interrupt) std::rethrow_exception(interrupt);
}

}  // namespace stretto::ir::ops
