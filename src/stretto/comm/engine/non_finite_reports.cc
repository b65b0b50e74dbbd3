#include "stretto/comm/engine/non_finite_reports.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <new>

namespace stretto::comm {

void NonFiniteReports::add(NonFiniteReport&& found) {
  if (reports_.size() == Engine::kMostReports) {
    ++reports_.back().more;
    return;
  }
  reports_.push_back(std::move(found));
  reports_.back().rank = rank_;
  if (reports_.size() == 1) wake_.notify_all();
}

void NonFiniteReports::add(const OpenOperation& open) {
  const auto add_found = [&](const std::string& name, const NonFinite& found) {
    if (found.count == 0) return;
    add({.name = name,
         .group = open.group,
         .sequence = open.sequence,
         .first_offset = found.first,
         .count = found.count});
  };
  for (const Piece& piece : open.pieces) add_found(piece.name, piece.non_finite);
  if (open.pieces.empty())
    add_found(open.operation.name, {.count = open.non_finite, .first = open.first_non_finite});
}

void NonFiniteReports::wait(std::unique_lock<std::mutex>& lock, double timeout_s) {
  wake_.wait_for(lock, std::chrono::duration<double>(std::min(timeout_s, 1e9)),
                 [&] { return !reports_.empty() || interrupted_; });
  interrupted_ = closed_;
}

void NonFiniteReports::interrupt() {
  interrupted_ = true;
  wake_.notify_all();
}

void NonFiniteReports::close() {
  closed_ = true;
  interrupt();
}

// Destroying a condition variable waits for its sleepers.
void NonFiniteReports::forget_sleepers() { new (&wake_) std::condition_variable(); }

std::string NonFiniteReports::reason(std::string_view what, int64_t count, int64_t first) const {
  return fmt::format("rank {}: {} has {} values that are not finite, the first at {}", rank_, what,
                     count, first);
}

std::string NonFiniteReports::reason(const OpenOperation& open) const {
  for (const Piece& piece : open.pieces) {
    if (piece.non_finite.count == 0) continue;
    Operation operation = open.operation;
    operation.count = piece.count;
    operation.name = piece.name;
    return reason(describe(operation), piece.non_finite.count, piece.non_finite.first);
  }
  return reason(describe(open.operation), open.non_finite, open.first_non_finite);
}

}  // namespace stretto::comm
