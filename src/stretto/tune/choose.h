// Choosing among candidates, the same for kernels, collectives, codecs and layouts: which are worth
// measuring, how a time budget is shared, and which of the measured ones wins. Candidates are known
// by index, and costs are in any unit of which less is better. docs/design/tuning.md says who uses
// what.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace stretto::tune {

// A candidate that is preferred wins within this share of the best: near-ties must not flip choices
// from run to run.
inline constexpr double kNearTie = 0.03;

// Indices, ascending, of the candidates whose estimate is at most `factor` times the least.
// Infinite estimates stand for what does not fit and are never listed.
std::vector<int> shortlist(std::span<const double> estimates, double factor);

// Index of the least cost, the first of equals; but `preferred` when its cost is within `margin` of
// the least. -1 when there is none, or all are infinite.
int choose(std::span<const double> costs, int preferred = -1, double margin = kNearTie);

// The same among candidates that pass `check`, which is asked about the winner first and about the
// next one only when it fails; `rest` holds the costs of all that have not failed, infinite for
// those that have. -1 when none passes.
using Check = std::function<bool(int candidate, std::span<const double> rest)>;
int choose_checked(std::span<const double> costs, const Check& check, int preferred = -1,
                   double margin = kNearTie);

// How likely it is, from 0 to 1, that a candidate whose estimate is `ratio` times the least turns
// out to be the best nevertheless. An assumption: 0.5 at 1.2 times, 0.06 at twice the least.
double closeness(double ratio);

// A budget of seconds for several tasks, the most important first, in proportion to their weights.
// What a task does not need goes to those after it.
class Budget {
 public:
  Budget(double seconds, std::vector<double> weights);
  // Seconds for the next task; 0 once the budget is spent. Call it once per task.
  double next();

 private:
  double seconds_, start_s_;
  std::vector<double> weights_;
  size_t at_ = 0;
};

}  // namespace stretto::tune
