// Who starts now.
#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/cluster/simulate/engine.h"

namespace stretto::cluster {
namespace {

// Wholly free nodes, the preferred classes first, and the best fit for what is left over.
bool find_in_pool(const PlaceContext& context, const Pool& pool, const Need& need,
                  std::vector<Part>& parts) {
  const Parts wanted = parts_of(need, pool.chips);
  parts.clear();
  for (const int c : pool.classes) {
    int node = context.nodes.first_with(c, pool.chips);
    for (; node >= 0 && static_cast<int>(parts.size()) < wanted.full;
         node = context.nodes.first_with(c, pool.chips, node + 1)) {
      if (context.nodes.fits(node, wanted.each) && context.allows(node, wanted.each)) {
        parts.push_back({{.node = node}, wanted.each});
      }
    }
  }
  if (static_cast<int>(parts.size()) < wanted.full) return false;
  if (wanted.rest.chips == 0) return true;
  for (int free = wanted.rest.chips; free <= pool.chips; ++free) {
    for (const int c : pool.classes) {
      int node = context.nodes.first_with(c, free);
      for (; node >= 0; node = context.nodes.first_with(c, free, node + 1)) {
        const bool taken =
            std::ranges::any_of(parts, [node](const Part& part) { return part.spot.node == node; });
        if (taken || !context.nodes.fits(node, wanted.rest) || !context.allows(node, wanted.rest)) {
          continue;
        }
        parts.push_back({{.node = node}, wanted.rest});
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool find_spots(PlaceContext& context, const Shape& shape,
                Spot (*place)(PlaceContext&, const Need&, std::span<const int>),
                std::vector<Part>& parts) {
  parts.clear();
  for (const std::vector<int>& classes : shape.stages) {
    const Spot spot = place(context, shape.need, classes);
    if (spot.node < 0) continue;
    parts.push_back({spot, shape.need});
    return true;
  }
  for (const Pool& pool : shape.pools) {
    if (find_in_pool(context, pool, shape.need, parts)) return true;
  }
  return false;
}

void Engine::push_first(int shape) {
  const int j = waiting_[static_cast<size_t>(shape)].first(Waiting::kAny);
  if (j < 0) return;
  const Shape& asks = shapes_[static_cast<size_t>(shape)];
  heap_.push_back({asks.priority, shares_.used(asks.user, now_ms_), policy_.key(job(j)), j, shape});
  std::push_heap(heap_.begin(), heap_.end());
}

bool Engine::start_if_fits(int j) {
  const Shape& shape = shape_of(j);
  PlaceContext here = context(shape, nullptr, 0);
  if (!find_spots(here, shape, policy_.place, parts_)) return false;
  start(j, parts_);
  return true;
}

// Whether the candidate starts without delaying a plan. If not, `other` becomes the first job of
// its shape that would; its job is -1 if there is none.
bool Engine::backfill(const Candidate& candidate, Candidate& other) {
  const Shape& shape = shapes_[static_cast<size_t>(candidate.shape)];
  // The longest time for which a job of this shape may run. A plan that is further away allows more
  // jobs: those that end before it take what they like.
  std::vector<int64_t> limits{Waiting::kAny};
  for (size_t i = 0; i < plans_.size(); ++i) limits.push_back(plans_[i].start_ms - now_ms_);
  std::ranges::sort(limits, std::greater<>());
  other = candidate;
  other.job = -1;
  for (const int64_t limit : limits) {
    const bool any = limit == Waiting::kAny;
    PlaceContext here = context(shape, &plans_, any ? Waiting::kAny : now_ms_ + limit);
    if (!find_spots(here, shape, place_best_fit, parts_)) continue;
    other.job = waiting_[static_cast<size_t>(candidate.shape)].first(limit);
    break;
  }
  if (other.job < 0) return false;
  other.key = policy_.key(job(other.job));
  if (other.job != candidate.job) return false;
  const int64_t end_ms = now_ms_ + job(candidate.job).predicted_ms;
  PlaceContext here = context(shape, &plans_, end_ms);
  const bool fits = find_spots(here, shape, policy_.place, parts_);
  STRETTO_CHECK(fits, "job {} does not fit where it did", candidate.job);
  for (const Part& part : parts_) plans_.take(part.spot.node, part.need, end_ms);
  start(candidate.job, parts_);
  return true;
}

// Whether the job may fit on `nodes` after something was released on node `released`: a check that
// costs little and is right when it says no.
bool Engine::enough_for(const Shape& shape, const Nodes& nodes, int released) const {
  if (!shape.stages.empty()) return nodes.fits(released, shape.need);
  return std::ranges::any_of(shape.pools, [&](const Pool& pool) {
    int free = 0;
    for (const int c : pool.classes) free += nodes.count_with(c, pool.chips);
    return free >= parts_of(shape.need, pool.chips).full;
  });
}

void Engine::release_until_fits(int j, Plan& plan) {
  const Shape& shape = shape_of(j);
  scratch_ = nodes_;
  PlaceContext then = context(shape, nullptr, 0);
  PlaceContext later{.nodes = scratch_,
                     .random = then.random,
                     .fragmentation = nullptr,
                     .plans = nullptr,
                     .job_end_ms = 0,
                     .shape = -1,
                     .only_chips = then.only_chips,
                     .model = then.model,
                     .model_chips = then.model_chips,
                     .rate = then.rate};
  for (auto at = predicted_.begin(); at != predicted_.end();) {
    // A job that runs longer than predicted ends at any moment.
    const int64_t time = std::max(at->first.first, now_ms_ + 1);
    bool worth_a_look = false;
    for (; at != predicted_.end() && std::max(at->first.first, now_ms_ + 1) == time; ++at) {
      for (const Taken& taken : running_[static_cast<size_t>(at->second)].parts) {
        scratch_.give(taken);
        worth_a_look = worth_a_look || enough_for(shape, scratch_, taken.node);
      }
    }
    if (!worth_a_look || !find_spots(later, shape, place_best_fit, parts_)) continue;
    plan.start_ms = time;
    for (const Part& part : parts_) scratch_.take(part.spot, part.need);
    for (const Part& part : parts_) {
      const int node = part.spot.node;
      plan.left.push_back({.node = node,
                           .chips = scratch_.whole(node),
                           .cores_milli = scratch_.cores_milli(node),
                           .memory_mb = scratch_.memory_mb(node)});
    }
    return;
  }
  STRETTO_CHECK(false, "job {} fits on no nodes, although they are empty", j);
}

void Engine::plan(int j) {
  for (size_t i = 0; plans_hold_ && i < kept_.size(); ++i) {
    if (kept_[i].job != j || kept_[i].start_ms <= now_ms_) continue;
    plans_.add(kept_[i]);
    return;
  }
  Plan plan{.job = j, .regions = shape_of(j).regions};
  release_until_fits(j, plan);
  plans_.add(std::move(plan));
}

// Only the first job of a shape tries in a pass: if it fails, so do the others, unless a job that
// was backfilled behind a plan would have to go again at once.
bool Engine::preempt_once(const Candidate& candidate) {
  if (!may_preempt(shapes_[static_cast<size_t>(candidate.shape)])) return false;
  uint64_t& tried = tried_in_pass_[static_cast<size_t>(candidate.shape)];
  if (tried == passes_) return false;
  tried = passes_;
  return preempt_for(candidate.job);
}

bool Engine::pass_once() {
  ++passes_;
  blocked_ = 0;
  plans_.clear();
  heap_.clear();
  std::erase_if(active_, [this](int s) {
    if (!waiting_[static_cast<size_t>(s)].empty()) return false;
    is_active_[static_cast<size_t>(s)] = false;
    return true;
  });
  for (const int s : active_) push_first(s);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate candidate = heap_.back();
    heap_.pop_back();
    const Shape& shape = shapes_[static_cast<size_t>(candidate.shape)];
    if (!shares_.allows(shape)) continue;  // it waits for its user's own jobs, and keeps nobody
    const bool behind = ((blocked_ | plans_.regions()) & shape.regions) != 0;
    if (!behind && start_if_fits(candidate.job)) {
      plans_hold_ = false;
      push_first(candidate.shape);
      continue;
    }
    if (behind && policy_.blocking == Blocking::kBackfill) {
      Candidate other;
      if (backfill(candidate, other)) {
        push_first(candidate.shape);
        continue;
      }
      if (preempt_once(candidate)) return false;
      if (other.job >= 0) {
        heap_.push_back(other);
        std::push_heap(heap_.begin(), heap_.end());
      }
      continue;
    }
    if (preempt_once(candidate)) return false;
    if (policy_.blocking == Blocking::kStrict) blocked_ |= shape.regions;
    if (!behind && policy_.blocking == Blocking::kBackfill) plan(candidate.job);
  }
  return true;
}

void Engine::pass() {
  if (waiting_count_ == 0) return;
  std::swap(kept_, plans_);
  while (!pass_once()) plans_hold_ = false;
  plans_hold_ = true;
}

}  // namespace stretto::cluster
