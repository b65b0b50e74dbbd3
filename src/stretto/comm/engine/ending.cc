#include "stretto/comm/engine/ending.h"

#include <algorithm>
#include <limits>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

// How long a rank waits for the verdicts of the others. A rank that works answers within a round
// trip; others may be dead or cut off too, which is found out only later.
double patience_s(const Options& options) { return std::min(1.0, options.silent_limit_s / 10); }

}  // namespace

Ending::Ending(Links& links, Membership membership, const Options& options)
    : links_(links),
      membership_(membership),
      patience_s_(patience_s(options)),
      has_spoken_(membership.size),
      is_notified_(membership.size) {}

bool Ending::begin(Verdict verdict) {
  if (verdict_) return false;
  verdict_ = std::move(verdict);
  settle_until_s_ = now_s() + patience_s_;
  notify_ranks();
  return true;
}

bool Ending::hear(int rank, Verdict verdict) {
  has_spoken_[rank] = true;
  if (!verdict_) return begin(std::move(verdict));
  if (!error_ && verdict < *verdict_) verdict_ = std::move(verdict);
  return false;
}

void Ending::notify_ranks() {
  for (const auto& link : links_.all()) {
    if (!link || is_notified_[link->rank()]) continue;
    is_notified_[link->rank()] = true;
    link->forget_messages();
    if (link->alive())
      link->send_control(FrameType::kAbort, abort_key(*verdict_), verdict_->origin,
                         abort_text(*verdict_));
  }
}

bool Ending::settle() {
  if (!verdict_ || error_) return false;
  notify_ranks();
  const auto& links = links_.all();
  const bool all =
      links_.formed() && std::all_of(links.begin(), links.end(), [&](const auto& link) {
        return !link || !link->alive() || link->departed || has_spoken_[link->rank()];
      });
  if (!all && now_s() < settle_until_s_) return false;
  error_ = std::make_exception_ptr(CommError(verdict_->origin, verdict_->link, verdict_->text));
  return true;
}

double Ending::wait_s() const {
  if (!verdict_ || error_) return std::numeric_limits<double>::infinity();
  return std::max(settle_until_s_ - now_s(), 0.0);
}

}  // namespace stretto::comm
