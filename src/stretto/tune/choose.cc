#include "stretto/tune/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "stretto/base/clock.h"

namespace stretto::tune {

std::vector<int> shortlist(std::span<const double> estimates, double factor) {
  std::vector<int> listed;
  if (estimates.empty()) return listed;
  const double least = *std::min_element(estimates.begin(), estimates.end());
  for (size_t i = 0; i < estimates.size(); ++i) {
    if (std::isfinite(estimates[i]) && estimates[i] <= factor * least) {
      listed.push_back(static_cast<int>(i));
    }
  }
  return listed;
}

int choose(std::span<const double> costs, int preferred, double margin) {
  if (costs.empty()) return -1;
  const auto least = std::min_element(costs.begin(), costs.end());
  if (std::isinf(*least)) return -1;
  if (preferred >= 0 && costs[static_cast<size_t>(preferred)] <= *least * (1 + margin)) {
    return preferred;
  }
  return static_cast<int>(least - costs.begin());
}

int choose_checked(std::span<const double> costs, const Check& check, int preferred,
                   double margin) {
  std::vector<double> rest(costs.begin(), costs.end());
  while (true) {
    const int winner = choose(rest, preferred, margin);
    if (winner < 0 || check(winner, rest)) return winner;
    rest[static_cast<size_t>(winner)] = std::numeric_limits<double>::infinity();
  }
}

double closeness(double ratio) { return std::pow(std::max(ratio, 1.0), -4); }

Budget::Budget(double seconds, std::vector<double> weights)
    : seconds_(seconds), start_s_(now_s()), weights_(std::move(weights)) {}

double Budget::next() {
  const double left = seconds_ - (now_s() - start_s_);
  if (left <= 0 || at_ == weights_.size()) return 0;
  const auto first = weights_.begin() + static_cast<std::ptrdiff_t>(at_++);
  return left * *first / std::accumulate(first, weights_.end(), 0.0);
}

}  // namespace stretto::tune
