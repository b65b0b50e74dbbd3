// Ends a job that has failed: all ranks raise the same error.
#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/comm/engine/engine_impl.h"

namespace stretto::comm {
namespace {

// How long a rank waits for the verdicts of the others. A rank that works answers within a round
// trip; others may be dead or cut off too, which is found out only later.
double settle_s(const Options& options) { return std::min(1.0, options.silent_limit_s / 10); }

}  // namespace

// The first failure that this rank finds is its verdict.
void EngineImpl::fail(int origin, const std::string& link, const std::string& text) {
  if (!verdict_)
    end_with({.origin = origin, .finder = membership_.rank, .link = link, .text = text});
}

void EngineImpl::on_abort(int rank, Verdict verdict) {
  has_spoken_[rank] = true;
  if (!verdict_) {
    end_with(std::move(verdict));
  } else if (!failure_ && verdict < *verdict_) {
    verdict_ = std::move(verdict);
  }
}

// Stops at once and notifies all ranks. Operations end when the ranks have agreed on the reason.
void EngineImpl::end_with(Verdict verdict) {
  verdict_ = std::move(verdict);
  notify_ranks();
  units_->forget_all();
  for (auto& [id, state] : groups_) {
    state->waiting.clear();
    state->small.clear();
    state->small_under_way = nullptr;
    if (state->carrier) dropped_.push_back(std::move(state->carrier));
    state->any_receives.clear();
    state->active_bytes = 0;
  }
  settle_until_s_ = now_s() + settle_s(options_);
  links_->interrupt();  // a thread in poll() may be asleep for longer
  settle();
}

// Called again for links that have formed since: a job may fail while it starts.
void EngineImpl::notify_ranks() {
  for (const auto& link : links_->all()) {
    if (!link || is_notified_[link->rank()]) continue;
    is_notified_[link->rank()] = true;
    link->forget_messages();
    if (link->alive())
      link->send_control(FrameType::kAbort, abort_key(*verdict_), verdict_->origin,
                         abort_text(*verdict_));
  }
}

// Ends all operations when every rank that is still connected has sent its verdict.
void EngineImpl::settle() {
  if (!verdict_ || failure_) return;
  notify_ranks();
  const auto& links = links_->all();
  const bool all =
      links_->formed() && std::all_of(links.begin(), links.end(), [&](const auto& link) {
        return !link || !link->alive() || link->departed || has_spoken_[link->rank()];
      });
  if (!all && now_s() < settle_until_s_) return;
  failure_ = std::make_exception_ptr(CommError(verdict_->origin, verdict_->link, verdict_->text));
  std::vector<OpenOperation*> open;
  for (const auto& [handle, operation] : operations_) {
    if (!operation->done) open.push_back(operation.get());
  }
  std::sort(open.begin(), open.end(), [](auto* a, auto* b) { return a->handle < b->handle; });
  for (OpenOperation* operation : open) {
    operation->error = failure_;
    finish(operation);
  }
}

}  // namespace stretto::comm
