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
      heard_round_(membership.size),
      said_(membership.size) {}

bool Ending::begin(Verdict verdict) {
  if (verdict_) return false;
  verdict_ = std::move(verdict);
  settle_until_s_ = now_s() + patience_s_;
  notify_ranks();
  return true;
}

bool Ending::hear(int rank, int round, Verdict verdict) {
  heard_round_[rank] = std::max(heard_round_[rank], round);
  if (!verdict_) return begin(std::move(verdict));
  if (!error_ && verdict < *verdict_) {
    verdict_ = std::move(verdict);
    if (links_.rounds_to_reach_all() > 1) ++saying_;  // it must also reach ranks further away
  }
  return false;
}

void Ending::notify_ranks() {
  for (Link* link : links_.all()) {
    int64_t& said = said_[link->rank()];
    if (said == saying_) continue;
    if (said == 0) link->forget_messages();
    if (!link->alive()) continue;
    said = saying_;
    link->send_control(FrameType::kAbort, abort_key(*verdict_, round_), verdict_->origin,
                       abort_text(*verdict_));
  }
}

bool Ending::round_is_over() const {
  // The last words of a rank that has left may still wait to be heard.
  if (!links_.events().empty()) return false;
  const auto& links = links_.all();
  return links_.formed() && std::all_of(links.begin(), links.end(), [&](const Link* link) {
           return !link->alive() || link->departed || heard_round_[link->rank()] >= round_;
         });
}

bool Ending::settle() {
  if (!verdict_ || error_) return false;
  notify_ranks();
  while (round_is_over() && round_ < links_.rounds_to_reach_all()) {
    ++round_;
    ++saying_;
    notify_ranks();
  }
  if (!round_is_over() && now_s() < settle_until_s_) return false;
  error_ = std::make_exception_ptr(CommError(verdict_->origin, verdict_->link, verdict_->text));
  return true;
}

double Ending::wait_s() const {
  if (!verdict_ || error_) return std::numeric_limits<double>::infinity();
  return std::max(settle_until_s_ - now_s(), 0.0);
}

}  // namespace stretto::comm
