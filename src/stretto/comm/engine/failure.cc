// What ends the job, and how operations stop then.
#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/comm/engine/inside.h"

namespace stretto::comm {
namespace {

std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return text;
}

}  // namespace

void EngineImpl::check_time() {
  const double now = now_s();
  next_check_s_ = now + 0.5;
  if (ending_->has_begun()) return;
  const double otherwise_s = options_.operation_timeout_s;
  const OpenOperation* late = operations_.overdue(now, otherwise_s, &next_check_s_);
  if (!late) return;
  const std::vector<int> awaited = units_->awaited(late);
  fail(awaited.empty() ? -1 : awaited.front(), "",
       fmt::format("{} is not done after {:g} s ({}); rank {} waits for {}",
                   describe(late->operation), time_limit_s(late->operation, otherwise_s),
                   late->operation.timeout_s > 0
                       ? fmt::format("the timeout of group '{}'", groups_.at(late->group).name)
                       : "STRETTO_OPERATION_TIMEOUT",
                   membership_.rank,
                   awaited.empty()
                       ? "earlier operations"
                       : fmt::format("rank{} {}", awaited.size() == 1 ? "" : "s", list(awaited))));
}

// A rank that has left is an error only if an operation of the caller still waits for it.
void EngineImpl::check_departed() {
  if (!operations_.callers_wait()) return;
  for (const auto& link : links_->all()) {
    if (ending_->has_begun() || !link->departed || link->alive() || !link->owes()) continue;
    fail(link->rank(), "",
         fmt::format("rank {} has left the job while rank {} waits for it", link->rank(),
                     membership_.rank));
  }
}

// The first failure that this rank finds is its verdict.
void EngineImpl::fail(int origin, const std::string& link, const std::string& text) {
  if (ending_->begin({.origin = origin, .finder = membership_.rank, .link = link, .text = text})) {
    keep_flight(text);
    stop_all();
  }
  settle();
}

void EngineImpl::fail_here(const char* what) noexcept {
  try {
    fail(membership_.rank, "engine", fmt::format("rank {}: {}", membership_.rank, what));
  } catch (const std::exception&) {  // drive() tries again
    starved_ = true;
  }
}

void EngineImpl::stop_for_non_finite(const OpenOperation& open) {
  fail(membership_.rank, "", non_finite_.reason(open));
}

// Operations end when the ranks have agreed on the reason.
void EngineImpl::stop_all() {
  units_->forget_all();
  groups_.stop();
  links_->interrupt();  // a thread in poll() may be asleep for longer
}

// Ends all operations once the ranks have agreed and no thread works on their memory.
void EngineImpl::settle() {
  if (units_->local_running() == 0 && ending_->settle()) fail_open(ending_->error());
}

}  // namespace stretto::comm
