// The slow simulator of the tests: a list of waiting jobs and a list of running ones, looked
// through from one end to the other at every event. It shares with the fast one what a job needs
// and where it may run (shapes.h) and the bookkeeping of one node (nodes.h), and none of its
// indices.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "stretto/base/error.h"
#include "stretto/cluster/policy/fragmentation.h"
#include "stretto/cluster/simulate/engine.h"
#include "stretto/cluster/simulate_testing.h"
#include "stretto/cluster/slurm/accounting.h"

namespace stretto::cluster {
namespace {

struct Busy {
  int job;
  int64_t start_ms, end_ms, predicted_end_ms;
  std::vector<Taken> parts;
};

class Slow {
 public:
  Slow(const Site& site, const Trace& trace, const SimulateOptions& options)
      : site_(site),
        options_(options),
        policy_(make_policy(options.policy)),
        map_(map_site(site, policy_, trace)),
        nodes_(map_.classes),
        random_(options.seed),
        work_(make_workload(site, trace, options, nodes_.total_chips(), random_)),
        fragmentation_(trace, map_.kinds) {
    map_.classes = nodes_.classes();
    for (size_t j = 0; j < work_.jobs.size(); ++j) {
      std::string reason;
      const Job& job = work_.jobs[j];
      shapes_.push_back(make_shape(site, map_, policy_, job, work_.queues[j], reason));
      if (job.cores_milli != 0 || job.memory_mb != 0 || !shapes_[j].need.whole() ||
          job.chips == 0) {
        only_chips_ = false;
      }
    }
    times_.resize(work_.jobs.size());
    used_.resize(trace.users.size());
    for (const std::string& name : trace.users) {
      const auto user = std::ranges::find(site.users, name, &User::name);
      users_.push_back(user == site.users.end() ? User{} : *user);
    }
  }

  std::vector<JobTimes> run() {
    size_t next = 0;
    while (next < work_.jobs.size() || !busy_.empty()) {
      now_ = next < work_.jobs.size() ? work_.jobs[next].submit_ms
                                      : std::numeric_limits<int64_t>::max();
      for (const Busy& busy : busy_) now_ = std::min(now_, busy.end_ms);
      count_usage();
      for (size_t i = 0; i < busy_.size();) {
        if (busy_[i].end_ms != now_) {
          ++i;
          continue;
        }
        if (busy_[i].predicted_end_ms != now_) hold_ = false;
        times_[static_cast<size_t>(busy_[i].job)].end_ms = now_;
        release(i);
      }
      for (; next < work_.jobs.size() && work_.jobs[next].submit_ms == now_; ++next) {
        if (shapes_[next].possible()) waiting_.push_back(static_cast<int>(next));
      }
      if (waiting_.empty()) continue;
      kept_ = plans_;
      while (!pass()) hold_ = false;
      hold_ = true;
    }
    return times_;
  }

 private:
  const Shape& shape(int j) const { return shapes_[static_cast<size_t>(j)]; }
  const Job& job(int j) const { return work_.jobs[static_cast<size_t>(j)]; }

  // What users have had until now, one stretch between two looks of Slurm after the other.
  void count_usage() {
    while (counted_ < now_) {
      const int64_t until = std::min(now_, (counted_ / kSharePeriod_ms + 1) * kSharePeriod_ms);
      for (const Busy& busy : busy_) {
        used_[static_cast<size_t>(job(busy.job).user)] +=
            cost_of(shape(busy.job).need) * (until - counted_);
      }
      if (until % kSharePeriod_ms == 0) {
        for (int64_t& used : used_) used -= used / kShareDecay;
      }
      counted_ = until;
    }
  }

  double used_by(int j) const {
    const auto user = static_cast<size_t>(job(j).user);
    return site_.users.empty()
               ? 0
               : static_cast<double>(used_[user]) / static_cast<double>(fairshare_of(users_[user]));
  }

  // Whether the limits of the user and the queue let the job start beside those that run.
  bool allowed(int j) const {
    int64_t of_user = shape(j).need.chip_milli(), of_queue = of_user;
    for (const Busy& busy : busy_) {
      const int64_t milli = shape(busy.job).need.chip_milli();
      if (job(busy.job).user == job(j).user) of_user += milli;
      if (shape(busy.job).queue == shape(j).queue) of_queue += milli;
    }
    const int most_of_user = users_[static_cast<size_t>(job(j).user)].most_chips;
    const int most_of_queue = site_.queues[static_cast<size_t>(shape(j).queue)].most_chips;
    return (most_of_user == 0 || of_user <= int64_t{1000} * most_of_user) &&
           (most_of_queue == 0 || of_queue <= int64_t{1000} * most_of_queue);
  }

  void release(size_t index) {
    for (const Taken& taken : busy_[index].parts) nodes_.give(taken);
    busy_.erase(busy_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  PlaceContext context(const Nodes& nodes, const Plans* plans, int64_t end_ms, int j) {
    return {nodes,       random_,        &fragmentation_,     plans, end_ms, -1,
            only_chips_, shape(j).model, shape(j).need.chips, rate_};
  }

  static Spot least(PlaceContext& context, const Need& need, std::span<const int> classes) {
    std::map<std::pair<double, int>, int> by_left;
    for_each_fit(context, need, classes, [&](int node) {
      double left = context.nodes.whole(node) - need.chips;
      if (!context.only_chips) {
        left = (context.nodes.cores_milli(node) - need.cores_milli) /
                   static_cast<double>(context.nodes.most_cores_milli()) +
               static_cast<double>(context.nodes.free_milli(node) - need.chip_milli()) /
                   (context.nodes.most_chips() * 1000.0);
      }
      by_left[{left, node}] = node;
    });
    return by_left.empty() ? Spot{} : Spot{.node = by_left.begin()->second};
  }

  // Pools: every combination is tried by looking at all nodes.
  bool find(PlaceContext& context, const Shape& shape, bool by_policy, std::vector<Part>& parts) {
    parts.clear();
    for (const std::vector<int>& classes : shape.stages) {
      const bool best = !by_policy || policy_.place == place_best_fit;
      const Spot spot =
          best ? least(context, shape.need, classes) : policy_.place(context, shape.need, classes);
      if (spot.node < 0) continue;
      parts.push_back({spot, shape.need});
      return true;
    }
    for (const Pool& pool : shape.pools) {
      const Parts wanted = parts_of(shape.need, pool.chips);
      parts.clear();
      std::vector<bool> used(static_cast<size_t>(context.nodes.count()));
      for_each_fit(context, wanted.each, pool.classes, [&](int node) {
        if (static_cast<int>(parts.size()) == wanted.full) return;
        parts.push_back({{.node = node}, wanted.each});
        used[static_cast<size_t>(node)] = true;
      });
      if (static_cast<int>(parts.size()) < wanted.full) continue;
      if (wanted.rest.chips == 0) return true;
      int best = -1;
      for_each_fit(context, wanted.rest, pool.classes, [&](int node) {
        if (used[static_cast<size_t>(node)]) return;
        if (best < 0 || context.nodes.whole(node) < context.nodes.whole(best)) best = node;
      });
      if (best < 0) continue;
      parts.push_back({{.node = best}, wanted.rest});
      return true;
    }
    return false;
  }

  void start(int j, const std::vector<Part>& parts) {
    Busy busy{j, now_, now_ + job(j).duration_ms, now_ + job(j).predicted_ms, {}};
    for (const Part& part : parts) busy.parts.push_back(nodes_.take(part.spot, part.need));
    busy_.push_back(std::move(busy));
    // Ends at one time are in the order of the jobs.
    std::ranges::sort(busy_, {}, &Busy::job);
    waiting_.erase(std::ranges::find(waiting_, j));
    times_[static_cast<size_t>(j)].start_ms = now_;
  }

  bool fits_now(int j, const Plans* plans) {
    std::vector<Part> parts;
    const int64_t end = now_ + job(j).predicted_ms;
    PlaceContext here = context(nodes_, plans, end, j);
    if (!find(here, shape(j), true, parts)) return false;
    if (plans != nullptr) {
      for (const Part& part : parts) plans_.take(part.spot.node, part.need, end);
    }
    start(j, parts);
    return true;
  }

  void plan(int j) {
    for (size_t i = 0; hold_ && i < kept_.size(); ++i) {
      if (kept_[i].job == j && kept_[i].start_ms > now_) {
        plans_.add(kept_[i]);
        return;
      }
    }
    Nodes later = nodes_;
    std::vector<Busy> busy = busy_;
    const auto end_of = [this](const Busy& b) { return std::max(b.predicted_end_ms, now_ + 1); };
    std::ranges::stable_sort(busy, {}, end_of);
    for (size_t i = 0; i < busy.size(); ++i) {
      for (const Taken& taken : busy[i].parts) later.give(taken);
      if (i + 1 < busy.size() && end_of(busy[i + 1]) == end_of(busy[i])) continue;
      std::vector<Part> parts;
      PlaceContext then = context(later, nullptr, 0, j);
      if (!find(then, shape(j), false, parts)) continue;
      Plan plan{.job = j, .start_ms = end_of(busy[i]), .regions = shape(j).regions};
      for (const Part& part : parts) later.take(part.spot, part.need);
      for (const Part& part : parts) {
        const int node = part.spot.node;
        plan.left.push_back(
            {node, later.whole(node), later.cores_milli(node), later.memory_mb(node)});
      }
      plans_.add(std::move(plan));
      return;
    }
    STRETTO_CHECK(false, "no plan for job {}", j);
  }

  bool is_victim(const Shape& own, const Busy& busy, int region) const {
    const Shape& other = shape(busy.job);
    if (own.preempts && other.priority < own.priority) return true;
    return ((own.owns >> region) & 1) != 0 && ((other.owns >> region) & 1) == 0 &&
           other.priority <= own.priority;
  }

  int64_t loss(const Busy& busy) const {
    int64_t milli = 0;
    for (const Taken& taken : busy.parts) milli += taken.need.chip_milli();
    return milli * (now_ - busy.start_ms);
  }

  // Jobs that have to go from the node, by number; `possible` false: even all together do not do.
  std::vector<int> victims_on(const Shape& own, const Need& need, int node, bool& possible) const {
    std::vector<std::pair<int64_t, int>> victims;
    for (const Busy& busy : busy_) {
      const bool here = std::ranges::any_of(
          busy.parts, [node](const Taken& taken) { return taken.node == node; });
      if (here && is_victim(own, busy, nodes_.class_of(node).region)) {
        victims.emplace_back(loss(busy), busy.job);
      }
    }
    std::ranges::sort(victims);
    const auto fits_without = [&](const std::vector<std::pair<int64_t, int>>& gone) {
      Nodes without = nodes_;
      for (const Busy& busy : busy_) {
        const bool goes = std::ranges::any_of(
            gone, [&](const auto& victim) { return victim.second == busy.job; });
        for (const Taken& taken : busy.parts) {
          if (goes && taken.node == node) without.give(taken);
        }
      }
      return without.fits(node, need);
    };
    possible = fits_without(victims);
    std::vector<int> jobs;
    if (!possible) return jobs;
    std::vector<std::pair<int64_t, int>> gone;
    for (size_t i = 0; !fits_without(gone); ++i) gone.push_back(victims[i]);
    for (size_t i = gone.size(); i-- > 0;) {
      auto fewer = gone;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (fits_without(fewer)) gone = fewer;
    }
    for (const auto& victim : gone) jobs.push_back(victim.second);
    return jobs;
  }

  int64_t loss_of_all(const std::vector<int>& jobs) const {
    int64_t sum = 0;
    for (const Busy& busy : busy_) {
      if (std::ranges::find(jobs, busy.job) != jobs.end()) sum += loss(busy);
    }
    return sum;
  }

  bool preempt(int j) {
    if (!map_.preemption) return false;
    const Shape& own = shape(j);
    std::vector<int> best;
    bool found = false;
    const auto consider = [&](const std::vector<int>& jobs) {
      if (!found ||
          std::pair(loss_of_all(jobs), jobs.size()) < std::pair(loss_of_all(best), best.size())) {
        best = jobs;
        found = true;
      }
    };
    const auto for_nodes = [&](std::span<const int> classes, auto&& visit) {
      for (const int c : classes) {
        const NodeClass& nodes = map_.classes[static_cast<size_t>(c)];
        for (int node = nodes.first; node < nodes.first + nodes.count; ++node) visit(node);
      }
    };
    for (const std::vector<int>& classes : own.stages) {
      for_nodes(classes, [&](int node) {
        bool possible = false;
        const std::vector<int> jobs = victims_on(own, own.need, node, possible);
        if (possible) consider(jobs);
      });
    }
    for (const Pool& pool : own.pools) {
      const Parts parts = parts_of(own.need, pool.chips);
      std::vector<std::pair<int64_t, int>> nodes;
      for_nodes(pool.classes, [&](int node) {
        bool possible = false;
        const std::vector<int> jobs = victims_on(own, parts.each, node, possible);
        if (possible) nodes.emplace_back(loss_of_all(jobs), node);
      });
      const size_t wanted = static_cast<size_t>(parts.full) + (parts.rest.chips > 0);
      if (nodes.size() < wanted) continue;
      std::ranges::sort(nodes);
      std::vector<int> together;
      for (size_t i = 0; i < wanted; ++i) {
        bool possible = false;
        for (const int v : victims_on(own, parts.each, nodes[i].second, possible)) {
          if (std::ranges::find(together, v) == together.end()) together.push_back(v);
        }
      }
      consider(together);
    }
    if (best.empty()) return false;
    for (const int v : best) {
      ++times_[static_cast<size_t>(v)].preemptions;
      const auto at = std::ranges::find(busy_, v, &Busy::job);
      release(static_cast<size_t>(at - busy_.begin()));
      if (!map_.cancels) waiting_.push_back(v);
    }
    STRETTO_CHECK(fits_now(j, nullptr), "job {} does not fit", j);
    return true;
  }

  bool pass() {
    std::ranges::sort(waiting_, [this](int a, int b) {
      const auto rank = [this](int j) {
        return std::tuple(-shape(j).priority, used_by(j), policy_.key(job(j)), j);
      };
      return rank(a) < rank(b);
    });
    uint64_t blocked = 0;
    plans_.clear();
    std::set<std::tuple<int, int, int, int64_t, int, int, int>> tried;  // shapes
    const std::vector<int> order = waiting_;
    for (const int j : order) {
      if (!allowed(j)) continue;
      const bool behind = ((blocked | plans_.regions()) & shape(j).regions) != 0;
      if (!behind && fits_now(j, nullptr)) {
        hold_ = false;
        continue;
      }
      if (behind && policy_.blocking == Blocking::kBackfill && fits_now(j, &plans_)) continue;
      const Shape& own = shape(j);
      const bool first = tried
                             .insert({own.need.chips, own.need.milli, own.need.cores_milli,
                                      own.need.memory_mb, own.kinds, own.queue, own.user})
                             .second;
      if (first && preempt(j)) return false;
      if (policy_.blocking == Blocking::kStrict) blocked |= shape(j).regions;
      if (!behind && policy_.blocking == Blocking::kBackfill) plan(j);
    }
    return true;
  }

  const Site& site_;
  const SimulateOptions& options_;
  Policy policy_;
  SiteMap map_;
  Nodes nodes_;
  Random random_;
  Workload work_;
  Fragmentation fragmentation_;
  std::function<double(int, int, int)> rate_ = [](int, int, int) { return 0.0; };
  bool only_chips_ = true, hold_ = false;
  std::vector<Shape> shapes_;
  std::vector<int> waiting_;
  std::vector<Busy> busy_;
  Plans plans_, kept_;
  int64_t now_ = 0, counted_ = 0;
  std::vector<User> users_;  // by user of the trace
  std::vector<int64_t> used_;
  std::vector<JobTimes> times_;
};

}  // namespace

std::vector<JobTimes> simulate_slowly(const Site& site, const Trace& trace,
                                      const SimulateOptions& options) {
  return Slow(site, trace, options).run();
}

}  // namespace stretto::cluster
