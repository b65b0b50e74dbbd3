#include "stretto/cluster/fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/cluster/fit_estimates.h"
#include "stretto/cluster/fit_setting.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {
namespace {

constexpr int kLeastRuns = 8;
constexpr double kMostGrid = 1e15;        // more settings are not counted
constexpr int64_t kMostListed = 300'000;  // of settings whose score is estimated after each run
constexpr int kReserveOf = 5;             // at most one node in five is tried as a reserve
constexpr double kTold = 0.02;            // of a simulation: it is asked so often whether to go on
constexpr double kRefused = 1e12;         // seconds for each job that is refused

// A simulation is given up when it is behind the best one by this part of what that came to. With
// it the best setting of a grid was found in 24 of 24 drawn traces, with 0.1 in 22 and with 0.2
// in 23.
constexpr double kBehind = 0.15;

bool has_reserve_queue(const Site& site) {
  return !site.reserve.queues.empty() ||
         std::ranges::any_of(site.queues, [](const Queue& queue) { return queue.preempts; });
}

class Search {
 public:
  Search(const Site& site, const Trace& trace, const SimulateOptions& options, int most_runs)
      : given_(site), site_(with_groups(site)), trace_(trace), options_(options) {
    before_ = setting_of(site_);
    for (const int nodes : before_.group_nodes) nodes_ += nodes;
    nodes_ += before_.reserve_nodes;
    most_reserve_ = has_reserve_queue(site) ? nodes_ / kReserveOf : 0;
    most_reserve_ = std::max(most_reserve_, before_.reserve_nodes);
    // A group without nodes means that its jobs use another. With preemption that is no site: those
    // would be guests where nobody else is at home.
    const auto groups = static_cast<int>(before_.group_nodes.size());
    least_ = preempts(site) && nodes_ - most_reserve_ >= groups ? 1 : 0;
    // The ways to deal the nodes out to the groups, for each size of the reserve.
    double grid = 0;
    for (int reserve = 0; reserve <= most_reserve_; ++reserve) {
      const int free = nodes_ - reserve - least_ * groups;
      double ways = 1;
      for (int g = 1; g < groups; ++g) ways *= static_cast<double>(free + g) / g;
      grid += ways;
    }
    grid_ = std::llround(std::min(2 * grid, kMostGrid));  // with walls and without
    most_runs_ = most_runs > 0 ? most_runs : std::max<int64_t>(kLeastRuns, grid_ / 10);
  }

  Fit run() {
    Fit fit{.grid_size = grid_, .before = before_};
    for (const Group& group : site_.groups) fit.groups.push_back(group.name);
    FitSetting at = before_;
    simulate_whole();
    fit.simulation_before = best_simulation_;
    consider(at, guess(true));
    consider(at, guess(false));
    consider(at, undivided());
    if (grid_ <= kMostListed) {
      estimates_.list(static_cast<int>(fit.groups.size()), nodes_, most_reserve_, least_);
      for (const FitTrial& trial : tried_) estimates_.learn(trial);
      listed_ = true;
      while (const FitSetting* const next = spent() ? nullptr : estimates_.most_promising()) {
        consider(at, FitSetting(*next));
      }
    } else {
      descend_and_scatter(at);
    }
    fit.best = at;
    fit.tried = tried_;
    fit.runs = runs_;
    fit.site = at == before_ ? given_ : resized(site_, at);
    fit.simulation_best = std::move(best_simulation_);
    fit.changes = changes(fit);
    return fit;
  }

 private:
  bool spent(double part = 0) const {
    return runs_ + part + kTold > static_cast<double>(most_runs_);
  }

  const FitTrial* known(const FitSetting& setting) const {
    const auto found = std::ranges::find(tried_, setting, &FitTrial::setting);
    return found == tried_.end() ? nullptr : &*found;
  }

  void note(const FitTrial& trial) {
    runs_ += trial.part;
    tried_.push_back(trial);
    if (listed_) estimates_.learn(trial);
    if (options_.progress) {
      options_.progress(std::min(1.0, runs_ / static_cast<double>(most_runs_)));
    }
  }

  // The site as it is, to its end.
  void simulate_whole() {
    SimulateOptions options = options_;
    options.progress = nullptr;
    options.go_on = [this](const SoFar& so_far) {
      best_course_.push_back(so_far);
      return true;
    };
    best_simulation_ = simulate(given_, trace_, options);
    best_score_ = fit_score(best_simulation_);
    note({before_, best_score_});
  }

  // What the best simulation had come to when as large a part of it was done.
  double best_wait_s(double part) const {
    const auto after = std::ranges::upper_bound(best_course_, part, {}, &SoFar::part);
    return after == best_course_.begin() ? 0 : std::prev(after)->wait_s;
  }

  // Whether a simulation can no longer be the best, or is too far behind to catch up.
  bool is_lost(const SoFar& so_far) const {
    const double score = kRefused * static_cast<double>(so_far.refused) + so_far.wait_s;
    if (score > best_score_) return true;
    if (best_course_.empty() || best_course_.back().refused != so_far.refused) return false;
    const double whole = best_course_.back().wait_s;
    return so_far.wait_s - best_wait_s(so_far.part) > kBehind * whole;
  }

  // What a simulation that was given up would have come to. In its first half all of it is taken to
  // go on as it began; later ones keep what they are behind.
  double estimate(const SoFar& so_far) const {
    if (so_far.refused > best_simulation_.refused) {
      return kRefused * static_cast<double>(so_far.refused) + so_far.wait_s;
    }
    constexpr double kLeastOf = 0.02, kMostTimes = 300;
    const double then = best_wait_s(so_far.part);
    const double behind = best_score_ + so_far.wait_s - then;
    if (so_far.part >= 0.5) return std::max(best_score_, behind);
    const double times = so_far.wait_s / std::max(then, kLeastOf * best_score_);
    return best_score_ * std::clamp(times, 1.0, kMostTimes);
  }

  // Simulates the setting, unless it was, and takes it if it is better than the best.
  void consider(FitSetting& at, const FitSetting& other) {
    if (spent() || known(other) != nullptr) return;
    SimulateOptions options = options_;
    options.progress = nullptr;
    std::vector<SoFar> course;
    options.go_on = [&](const SoFar& so_far) {
      course.push_back(so_far);
      return !spent(so_far.part) && !is_lost(so_far);
    };
    Simulation simulation = simulate(resized(site_, other), trace_, options);
    if (simulation.stopped) {
      note({other, estimate(course.back()), course.back().part});
      return;
    }
    const double score = fit_score(simulation);
    note({other, score});
    if (score >= best_score_) return;
    at = other;
    best_score_ = score;
    best_course_ = std::move(course);
    best_simulation_ = std::move(simulation);
  }

  // All nodes, or all but one of each other group, are in one, which jobs of all sizes use.
  FitSetting undivided() const {
    FitSetting setting{.group_nodes = std::vector<int>(before_.group_nodes.size(), least_),
                       .soft = true};
    setting.group_nodes.back() = nodes_ - least_ * static_cast<int>(setting.group_nodes.size() - 1);
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
      for (int nodes = least_; nodes <= at.group_nodes[g] + movable - least_; ++nodes) {
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
      const int others = least_ * static_cast<int>(time.size() - 1 - g);
      setting.group_nodes[g] =
          std::clamp(static_cast<int>(std::lround(part * nodes_)), least_, left - others);
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
        const int change =
            std::clamp(by, least_ - other.group_nodes[g], other.group_nodes.back() - least_);
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
                   other.group_nodes.back() - least_);
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
      if (fit.best.group_nodes[g] == 0) {
        text.push_back(
            fmt::format("Drop group '{}', and let others take jobs of its sizes; it has "
                        "{} nodes.",
                        fit.groups[g], fit.before.group_nodes[g]));
        continue;
      }
      text.push_back(fmt::format("Give group '{}' {} nodes; it has {}.", fit.groups[g],
                                 fit.best.group_nodes[g], fit.before.group_nodes[g]));
    }
    if (fit.best.reserve_nodes != fit.before.reserve_nodes) {
      text.push_back(fmt::format("Reserve {} nodes; it is {} now.", fit.best.reserve_nodes,
                                 fit.before.reserve_nodes));
    }
    for (size_t g = 0; g < fit.groups.size(); ++g) {
      const std::vector<std::string>& spill = fit.site.groups[g].spill;
      if (fit.best.group_nodes[g] == 0 || spill == site_.groups[g].spill || spill.empty()) continue;
      text.push_back(
          fmt::format("Let jobs of group '{}' run in others while it is full: spill = "
                      "[\"{}\"].",
                      fit.groups[g], fmt::join(spill, "\", \"")));
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

  const Site& given_;
  Site site_;
  const Trace& trace_;
  const SimulateOptions& options_;
  FitSetting before_;
  int nodes_ = 0, most_reserve_ = 0;
  int least_ = 0;  // nodes of a group
  int64_t grid_ = 1, most_runs_ = 0;
  double runs_ = 0;  // what was tried cost, in whole simulations
  std::vector<FitTrial> tried_;
  Estimates estimates_;
  bool listed_ = false;  // there are few enough settings for estimates of all
  Simulation best_simulation_;
  double best_score_ = 0;
  std::vector<SoFar> best_course_;  // of the best simulation
};

}  // namespace

double fit_score(const Simulation& simulation) {
  // A setting that refuses jobs is worse than any that runs them.
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
