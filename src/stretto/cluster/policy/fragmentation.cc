#include "stretto/cluster/policy/fragmentation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

namespace stretto::cluster {
namespace {

constexpr double kTypicalShare = 0.95;  // as in the published experiments

}  // namespace

int fgd_score(double growth_milli) {
  return static_cast<int>(100 / (1 + std::exp(growth_milli / 1000)));
}

Fragmentation::Fragmentation(const Trace& trace, const std::vector<std::string>& kind_names) {
  for (const std::vector<std::string>& kinds : trace.kind_sets) {
    std::vector<bool>& allowed = allowed_.emplace_back(kind_names.size(), kinds.empty());
    for (size_t i = 0; i < kind_names.size(); ++i) {
      if (std::ranges::find(kinds, kind_names[i]) != kinds.end()) allowed[i] = true;
    }
  }
  std::map<std::tuple<int, int, int, int>, int64_t> counts;
  for (const Job& job : trace.jobs) {
    ++counts[{job.cores_milli, job.chips == 0 ? 0 : job.chip_milli, job.chips, job.kinds}];
  }
  std::vector<std::pair<int64_t, std::tuple<int, int, int, int>>> by_count;
  for (const auto& [key, count] : counts) by_count.emplace_back(count, key);
  std::ranges::sort(by_count, std::greater<>());
  const double enough = kTypicalShare * static_cast<double>(trace.jobs.size());
  double sum = 0;
  for (const auto& [count, key] : by_count) {
    if (sum >= enough) break;
    const auto& [cores, milli, chips, kinds] = key;
    typical_.push_back({chips, milli, cores, kinds, static_cast<double>(count)});
    sum += static_cast<double>(count);
  }
  for (Typical& typical : typical_) typical.share /= sum;
}

double Fragmentation::amount(int kind, int cores_milli, std::span<const int16_t> chips) const {
  int total = 0;
  for (const int16_t free : chips) total += free;
  if (total == 0) return 0;
  double lost = 0;
  for (const Typical& job : typical_) {
    if (job.chips == 0 || job.cores_milli > cores_milli ||
        (kind >= 0 && !allowed_[static_cast<size_t>(job.kinds)][static_cast<size_t>(kind)])) {
      lost += job.share * total;
      continue;
    }
    int roomy = 0, small = 0;
    for (const int16_t free : chips) {
      roomy += free >= job.milli;
      small += free < job.milli ? free : 0;
    }
    lost += job.share * (roomy >= job.chips ? small : total);
  }
  return lost;
}

Fragmentation::Growth Fragmentation::compute(const Nodes& nodes, int node, const Need& need) const {
  const int kind = nodes.class_of(node).kind;
  const std::span<const int16_t> now = nodes.chips(node);
  std::array<int16_t, kMostChips> after;
  std::ranges::copy(now, after.begin());
  const std::span<const int16_t> then(after.data(), now.size());
  const int cores = nodes.cores_milli(node) - need.cores_milli;
  const double before = amount(kind, nodes.cores_milli(node), now);
  if (need.whole()) {
    int left = need.chips;
    for (size_t i = 0; i < now.size() && left > 0; ++i) {
      if (after[i] != 1000) continue;
      after[i] = 0;
      --left;
    }
    return {amount(kind, cores, then) - before, -1};
  }
  Growth best;
  std::array<int16_t, kMostChips> tried;
  size_t count = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i] < need.milli) continue;
    if (std::find(tried.begin(), tried.begin() + count, now[i]) != tried.begin() + count) continue;
    tried[count++] = now[i];
    after[i] = static_cast<int16_t>(now[i] - need.milli);
    const double growth = amount(kind, cores, then) - before;
    after[i] = now[i];
    if (best.chip < 0 || fgd_score(growth) > fgd_score(best.amount))
      best = {growth, static_cast<int>(i)};
  }
  return best;
}

Fragmentation::Growth Fragmentation::growth(const Nodes& nodes, int node, const Need& need,
                                            int shape) {
  if (shape < 0) return compute(nodes, node, need);
  if (remembered_.size() <= static_cast<size_t>(shape)) {
    remembered_.resize(static_cast<size_t>(shape) + 1);
  }
  std::vector<Remembered>& of_shape = remembered_[static_cast<size_t>(shape)];
  if (of_shape.empty()) of_shape.resize(static_cast<size_t>(nodes.count()));
  Remembered& known = of_shape[static_cast<size_t>(node)];
  if (known.changes != nodes.changes(node)) {
    known = {nodes.changes(node), compute(nodes, node, need)};
  }
  return known.growth;
}

}  // namespace stretto::cluster
