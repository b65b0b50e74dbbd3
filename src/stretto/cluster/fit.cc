#include "stretto/cluster/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "stretto/base/error.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {
namespace {

constexpr int kLeastRuns = 8;
constexpr double kMostGrid = 1e15;        // more settings are not counted
constexpr int64_t kMostListed = 300'000;  // of settings whose score is estimated after each run
constexpr int kReserveOf = 5;             // at most one node in five is tried as a reserve

// A site with one group gets two, so that there is something to search.
Site with_groups(const Site& site) {
  Site split = site;
  if (split.groups.size() != 1) return split;
  Group single = split.groups.front();
  Group multi = single;
  single.name = "single";
  single.least_chips = 0;
  single.most_chips = 1;
  single.spill = {};
  multi.name = "multi";
  multi.least_chips = 2;
  multi.spill = {};
  single.nodes.clear();
  split.groups = {single, multi};
  for (Queue& queue : split.queues) queue.groups.clear();
  return split;
}

bool has_reserve_queue(const Site& site) {
  return !site.reserve.queues.empty() ||
         std::ranges::any_of(site.queues, [](const Queue& queue) { return queue.preempts; });
}

class Search {
 public:
  Search(const Site& site, const Trace& trace, const SimulateOptions& options, int most_runs)
      : site_(with_groups(site)), trace_(trace), options_(options) {
    before_ = setting_of(site_);
    for (const int nodes : before_.group_nodes) nodes_ += nodes;
    nodes_ += before_.reserve_nodes;
    most_reserve_ = has_reserve_queue(site) ? nodes_ / kReserveOf : 0;
    most_reserve_ = std::max(most_reserve_, before_.reserve_nodes);
    // The ways to deal the nodes out to the groups, for each size of the reserve.
    double grid = 0;
    for (int reserve = 0; reserve <= most_reserve_; ++reserve) {
      double ways = 1;
      for (size_t g = 1; g < before_.group_nodes.size(); ++g) {
        ways *= static_cast<double>(nodes_ - reserve) + static_cast<double>(g);
        ways /= static_cast<double>(g);
      }
      grid += ways;
    }
    grid_ = std::llround(std::min(2 * grid, kMostGrid));  // with walls and without
    most_runs_ = most_runs > 0 ? most_runs : std::max<int64_t>(kLeastRuns, grid_ / 10);
  }

  Fit run() {
    Fit fit{.grid_size = grid_, .before = before_};
    for (const Group& group : site_.groups) fit.groups.push_back(group.name);
    score(before_, &fit.simulation_before);
    FitSetting at = before_;
    consider(at, guess(true));
    consider(at, guess(false));
    consider(at, undivided());
    if (grid_ <= kMostListed) {
      list_all();
      while (const FitSetting* const next = spent() ? nullptr : most_promising()) {
        consider(at, *next);
      }
    } else {
      descend_and_scatter(at);
    }
    fit.best = at;
    fit.tried = tried_;
    fit.site = resized(site_, at);
    fit.simulation_best = at == before_ ? fit.simulation_before : std::move(best_simulation_);
    fit.changes = changes(fit);
    return fit;
  }

 private:
  bool spent() const { return static_cast<int64_t>(tried_.size()) >= most_runs_; }

  SimulateOptions options_for(const FitSetting& setting) const {
    SimulateOptions options = options_;
    options.progress = nullptr;
    if (setting.soft) options.policy += options.policy.empty() ? "soft-groups" : "+soft-groups";
    return options;
  }

  double score(const FitSetting& setting, Simulation* result = nullptr) {
    for (const FitTrial& trial : tried_) {
      if (trial.setting == setting) return trial.score_s;
    }
    Simulation simulation = simulate(resized(site_, setting), trace_, options_for(setting));
    tried_.push_back({setting, fit_score(simulation)});
    learn(tried_.back());
    if (options_.progress) {
      options_.progress(
          std::min(1.0, static_cast<double>(tried_.size()) / static_cast<double>(most_runs_)));
    }
    const double value = tried_.back().score_s;
    if (result != nullptr) *result = std::move(simulation);
    return value;
  }

  void consider(FitSetting& at, const FitSetting& other) {
    if (spent() || other == at) return;
    Simulation simulation;
    if (score(other, &simulation) >= score(at)) return;
    at = other;
    best_simulation_ = std::move(simulation);
  }

  // A setting, and what those that were tried say about it: their scores, each by the inverse cube
  // of its distance. Scores are logarithms, because those of walls in the wrong place are hundreds
  // of times as large, and would hide everything else.
  struct Estimate {
    FitSetting setting;
    double weights = 0, sum = 0;
    bool tried = false;
  };

  void list_all() {
    FitSetting setting = before_;
    for (const bool soft : {false, true}) {
      setting.soft = soft;
      for (int reserve = 0; reserve <= most_reserve_; ++reserve) {
        setting.reserve_nodes = reserve;
        list_groups(setting, 0, nodes_ - reserve);
      }
    }
    for (const FitTrial& trial : tried_) learn(trial);
  }

  void list_groups(FitSetting& setting, size_t group, int nodes) {
    if (group + 1 == setting.group_nodes.size()) {
      setting.group_nodes[group] = nodes;
      // Without walls it does not matter which group has all nodes: one such setting is enough.
      const bool same = setting.soft && nodes == 0 &&
                        std::ranges::count(setting.group_nodes, 0) + 1 ==
                            static_cast<int64_t>(setting.group_nodes.size());
      if (!same) estimates_.push_back({setting});
      return;
    }
    for (int own = 0; own <= nodes; ++own) {
      setting.group_nodes[group] = own;
      list_groups(setting, group + 1, nodes - own);
    }
  }

  void learn(const FitTrial& trial) {
    for (Estimate& each : estimates_) {
      if (each.setting.soft != trial.setting.soft) continue;
      const double far = distance(each.setting, trial.setting);
      if (far == 0) {
        each.tried = true;
        continue;
      }
      const double weight = 1 / (far * far * far);
      each.weights += weight;
      each.sum += weight * std::log1p(trial.score_s);
    }
  }

  // Of the settings that were not tried, the one with the best estimate. Null: all were, or nothing
  // is known of them.
  const FitSetting* most_promising() const {
    constexpr double kSame = 1e-9;  // so that rounding does not choose
    const FitSetting* best = nullptr;
    double least = 0;
    for (const Estimate& each : estimates_) {
      if (each.tried || each.weights == 0) continue;
      const double value = each.sum / each.weights;
      if (best && value > least - kSame) continue;
      best = &each.setting;
      least = value;
    }
    return best;
  }

  // All nodes are in one group, which jobs of all sizes use.
  FitSetting undivided() const {
    FitSetting setting{.group_nodes = std::vector<int>(before_.group_nodes.size()), .soft = true};
    setting.group_nodes.back() = nodes_;
    return setting;
  }

  // For sites with so many settings that they cannot be listed.
  void descend_and_scatter(FitSetting& at) {
    descend(at, std::max(1, nodes_ / 4));
    // Without walls many settings are nearly as good, and the best one may be far from this one.
    while (!spent()) {
      const std::optional<FitSetting> far = farthest(at);
      if (!far) break;
      const FitSetting start = at;
      consider(at, *far);
      if (at != start) descend(at, 1);
    }
  }

  void descend(FitSetting& at, int step) {
    while (step > 0 && !spent()) {
      const FitSetting start = at;
      for (const FitSetting& neighbour : neighbours(start, step)) consider(at, neighbour);
      if (at == start) step /= 2;
    }
  }

  // Of the settings with other sizes of two groups and the reserve and walls of `at`, the one that
  // is farthest from all that were tried; the first one of several. None: all were.
  std::optional<FitSetting> farthest(const FitSetting& at) const {
    std::optional<FitSetting> best;
    int most = 0;
    const int movable = at.group_nodes.back();
    for (size_t g = 0; g + 1 < at.group_nodes.size(); ++g) {
      for (int nodes = 0; nodes <= at.group_nodes[g] + movable; ++nodes) {
        FitSetting other = at;
        other.group_nodes.back() -= nodes - at.group_nodes[g];
        other.group_nodes[g] = nodes;
        int nearest = nodes_ + 1;
        for (const FitTrial& trial : tried_) {
          if (trial.setting.soft == at.soft) {
            nearest = std::min(nearest, distance(trial.setting, other));
          }
        }
        if (nearest > most) {
          most = nearest;
          best = std::move(other);
        }
      }
    }
    return best;
  }

  // How many nodes would have to move.
  static int distance(const FitSetting& a, const FitSetting& b) {
    int moved = std::abs(a.reserve_nodes - b.reserve_nodes);
    for (size_t g = 0; g < a.group_nodes.size(); ++g) {
      moved += std::abs(a.group_nodes[g] - b.group_nodes[g]);
    }
    return moved / 2;
  }

  // Every group gets nodes by the chip time of its jobs; no reserve.
  FitSetting guess(bool soft) const {
    std::vector<double> time(site_.groups.size());
    for (const Job& job : trace_.jobs) {
      for (size_t g = 0; g < site_.groups.size(); ++g) {
        const Group& group = site_.groups[g];
        if (job.chips < group.least_chips) continue;
        if (group.most_chips != 0 && job.chips > group.most_chips) continue;
        time[g] +=
            static_cast<double>(job.chips) * job.chip_milli * static_cast<double>(job.duration_ms);
        break;
      }
    }
    const double all = std::accumulate(time.begin(), time.end(), 0.0);
    FitSetting setting{.group_nodes = before_.group_nodes, .soft = soft};
    int left = nodes_;
    for (size_t g = 0; g + 1 < time.size(); ++g) {
      const double part = all > 0 ? time[g] / all : 0;
      setting.group_nodes[g] = std::min(left, static_cast<int>(std::lround(part * nodes_)));
      left -= setting.group_nodes[g];
    }
    setting.group_nodes.back() = left;
    return setting;
  }

  // One node set larger or smaller by a step, at the cost of the last group.
  std::vector<FitSetting> neighbours(const FitSetting& at, int step) const {
    std::vector<FitSetting> all;
    for (size_t g = 0; g + 1 < at.group_nodes.size(); ++g) {
      for (const int by : {step, -step}) {
        FitSetting other = at;
        const int change = std::clamp(by, -other.group_nodes[g], other.group_nodes.back());
        other.group_nodes[g] += change;
        other.group_nodes.back() -= change;
        if (change != 0) all.push_back(other);
      }
    }
    const int reserve_step = std::max(1, std::min(step, most_reserve_ / 2));
    for (const int by : {reserve_step, -reserve_step}) {
      FitSetting other = at;
      const int change =
          std::min(std::clamp(other.reserve_nodes + by, 0, most_reserve_) - other.reserve_nodes,
                   other.group_nodes.back());
      other.reserve_nodes += change;
      other.group_nodes.back() -= change;
      if (change != 0) all.push_back(other);
    }
    return all;
  }

  std::vector<std::string> changes(const Fit& fit) const {
    std::vector<std::string> text;
    if (fit.best == fit.before) {
      text.push_back("Nothing that was tried is better than the site as it is.");
      return text;
    }
    for (size_t g = 0; g < fit.groups.size(); ++g) {
      if (fit.best.group_nodes[g] == fit.before.group_nodes[g]) continue;
      text.push_back(fmt::format("Give group '{}' {} nodes; it has {}.", fit.groups[g],
                                 fit.best.group_nodes[g], fit.before.group_nodes[g]));
    }
    if (fit.best.reserve_nodes != fit.before.reserve_nodes) {
      text.push_back(fmt::format("Reserve {} nodes; it is {} now.", fit.best.reserve_nodes,
                                 fit.before.reserve_nodes));
    }
    if (fit.best.soft) {
      text.push_back(
          "Let jobs run in other groups while theirs is full: name these in 'spill' of each "
          "group.");
    }
    for (const WaitStats& after : fit.simulation_best.waits) {
      for (const WaitStats& was : fit.simulation_before.waits) {
        if (was.name != after.name) continue;
        text.push_back(
            fmt::format("Jobs of class '{}' would wait {:.0f} s in the mean; now {:.0f} s.",
                        after.name, after.mean_s, was.mean_s));
      }
    }
    return text;
  }

  Site site_;
  const Trace& trace_;
  const SimulateOptions& options_;
  FitSetting before_;
  int nodes_ = 0, most_reserve_ = 0;
  int64_t grid_ = 1, most_runs_ = 0;
  std::vector<FitTrial> tried_;
  std::vector<Estimate> estimates_;  // of all settings, if they can be listed
  Simulation best_simulation_;
};

}  // namespace

FitSetting setting_of(const Site& site) {
  FitSetting setting;
  for (const Group& group : site.groups) {
    setting.group_nodes.push_back(static_cast<int>(group.nodes.size()));
  }
  setting.reserve_nodes = static_cast<int>(site.reserve.nodes.size());
  return setting;
}

Site resized(const Site& site, const FitSetting& setting) {
  Site other = with_groups(site);
  std::vector<std::string> nodes;
  for (Group& group : other.groups) {
    nodes.insert(nodes.end(), group.nodes.begin(), group.nodes.end());
    group.nodes.clear();
  }
  nodes.insert(nodes.end(), other.reserve.nodes.begin(), other.reserve.nodes.end());
  int wanted = setting.reserve_nodes;
  for (const int count : setting.group_nodes) wanted += count;
  if (setting.group_nodes.size() != other.groups.size() ||
      wanted != static_cast<int>(nodes.size())) {
    throw_invalid("fit: the sizes say {} groups and {} nodes, the site has {} and {}",
                  setting.group_nodes.size(), wanted, other.groups.size(), nodes.size());
  }
  auto at = nodes.begin();
  for (size_t g = 0; g < other.groups.size(); ++g) {
    other.groups[g].nodes.assign(at, at + setting.group_nodes[g]);
    at += setting.group_nodes[g];
  }
  other.reserve.nodes.assign(at, nodes.end());
  if (setting.reserve_nodes > 0 && other.reserve.queues.empty()) {
    for (const Queue& queue : other.queues) {
      if (queue.preempts) other.reserve.queues.push_back(queue.name);
    }
  }
  return other;
}

double fit_score(const Simulation& simulation) {
  // A setting that refuses jobs is worse than any that runs them.
  constexpr double kRefused = 1e12;
  double sum = kRefused * static_cast<double>(simulation.refused);
  for (const WaitStats& stats : simulation.waits) {
    sum += stats.mean_s / static_cast<double>(simulation.waits.size());
  }
  return sum;
}

Fit fit_site(const Site& site, const Trace& trace, const SimulateOptions& options, int most_runs) {
  if (make_policy(options.policy).grouping != Grouping::kSite) {
    throw_invalid("policy '{}': a fit searches how groups are used; leave that part out",
                  options.policy);
  }
  if (!options.departures) throw_invalid("a fit needs jobs that end");
  return Search(site, trace, options, most_runs).run();
}

}  // namespace stretto::cluster
