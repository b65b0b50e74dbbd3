#include "stretto/cluster/fit_estimates.h"

#include <algorithm>
#include <cmath>

#include "stretto/cluster/fit_setting.h"

namespace stretto::cluster {
namespace {

constexpr double kWorst = 1e6;  // all worse scores are learned as this one

// Scores are logarithms, because those of walls in the wrong place are hundreds of times as large,
// and would hide everything else.
double learned(const FitTrial& trial) { return std::log1p(std::min(trial.score_s, kWorst)); }

double weight_of(int distance) { return 1.0 / distance / distance / distance; }

}  // namespace

void Estimates::list(int groups, int nodes, int most_reserve, int least) {
  FitSetting setting{.group_nodes = std::vector<int>(static_cast<size_t>(groups))};
  for (const bool soft : {false, true}) {
    setting.soft = soft;
    for (int reserve = 0; reserve <= most_reserve; ++reserve) {
      setting.reserve_nodes = reserve;
      list_groups(setting, 0, nodes - reserve, least);
    }
  }
}

void Estimates::list_groups(FitSetting& setting, size_t group, int nodes, int least) {
  if (group + 1 == setting.group_nodes.size()) {
    if (nodes < least) return;
    setting.group_nodes[group] = nodes;
    // Without walls it does not matter which group has all nodes: one such setting is enough.
    const bool same = setting.soft && nodes == 0 &&
                      std::ranges::count(setting.group_nodes, 0) + 1 ==
                          static_cast<int64_t>(setting.group_nodes.size());
    if (!same) estimates_.push_back({setting});
    return;
  }
  for (int own = least; own <= nodes; ++own) {
    setting.group_nodes[group] = own;
    list_groups(setting, group + 1, nodes - own, least);
  }
}

void Estimates::learn(const FitTrial& trial) {
  const double score = learned(trial);
  for (Estimate& each : estimates_) {
    if (each.setting.soft != trial.setting.soft) continue;
    const int far = distance(each.setting, trial.setting);
    if (far == 0) {
      each.tried = true;
      continue;
    }
    each.weights += weight_of(far);
    each.scores += weight_of(far) * score;
    each.reserves += weight_of(far) * trial.setting.reserve_nodes;
  }
  const auto compare = [](Step& step, const FitTrial& smaller) {
    const int more = step.trial.setting.reserve_nodes - smaller.setting.reserve_nodes;
    if (more <= 0 || step.trial.setting.soft != smaller.setting.soft) return;
    const double weight = weight_of(std::max(1, distance(step.trial.setting, smaller.setting)));
    step.weights += weight;
    step.scores += weight * (learned(step.trial) - learned(smaller));
    step.reserves += weight * more;
  };
  Step added{trial};
  for (Step& step : steps_) {
    compare(step, trial);
    compare(added, step.trial);
  }
  steps_.push_back(added);
}

// How much a node more in the reserve adds to the logarithm of a score. That is about the same
// everywhere, and much against what moving a node between groups does, so it is left out of what
// distances weigh.
double Estimates::cost_of_reserve() const {
  double scores = 0, reserves = 1e-3;  // so that nothing known is no cost
  for (const Step& step : steps_) {
    if (step.weights == 0) continue;
    scores += step.scores / step.weights;
    reserves += step.reserves / step.weights;
  }
  return scores / reserves;
}

const FitSetting* Estimates::most_promising() const {
  constexpr double kSame = 1e-9;  // so that rounding does not choose
  const double cost = cost_of_reserve();
  const FitSetting* best = nullptr;
  double least = 0;
  for (const Estimate& each : estimates_) {
    if (each.tried || each.weights == 0) continue;
    const double value =
        (each.scores - cost * each.reserves) / each.weights + cost * each.setting.reserve_nodes;
    if (best && value > least - kSame) continue;
    best = &each.setting;
    least = value;
  }
  return best;
}

}  // namespace stretto::cluster
