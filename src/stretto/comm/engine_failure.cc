// How a job ends that cannot go on.
#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/comm/engine_impl.h"

namespace stretto::comm {
namespace {

// How long ranks wait for one another's verdict. Those that live answer within a round trip; some
// may be dead or cut off as well, and are found out only later.
double settle_s(const Options& options) { return std::min(1.0, options.silent_limit_s / 10); }

}  // namespace

// The first thing that goes wrong here is this rank's verdict.
void EngineImpl::fail(int origin, const std::string& link, const std::string& text) {
  if (!verdict_)
    end_with({.origin = origin, .finder = membership_.rank, .link = link, .text = text});
}

void EngineImpl::on_abort(int peer, Verdict verdict) {
  has_spoken_[peer] = true;
  if (!verdict_) {
    end_with(std::move(verdict));
  } else if (!failure_ && verdict < *verdict_) {
    verdict_ = std::move(verdict);
  }
}

// Stops everything at once and tells everybody; the operations end when all agree on the reason.
void EngineImpl::end_with(Verdict verdict) {
  verdict_ = std::move(verdict);
  tell();
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
  links_->interrupt();  // who polls may be asleep for longer
  settle();
}

// Those whose links have formed since the last call, too: a job may end while it still begins.
void EngineImpl::tell() {
  for (const auto& peer : links_->peers()) {
    if (!peer || is_told_[peer->rank()]) continue;
    is_told_[peer->rank()] = true;
    peer->forget_messages();
    if (peer->alive())
      peer->send_control(FrameType::kAbort, abort_key(*verdict_), verdict_->origin,
                         abort_text(*verdict_));
  }
}

// Ends every operation once all ranks that can have said why.
void EngineImpl::settle() {
  if (!verdict_ || failure_) return;
  tell();
  const auto& peers = links_->peers();
  const bool all =
      links_->formed() && std::all_of(peers.begin(), peers.end(), [&](const auto& peer) {
        return !peer || !peer->alive() || peer->departed || has_spoken_[peer->rank()];
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
