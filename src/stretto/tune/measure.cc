#include "stretto/tune/measure.h"

#include <algorithm>
#include <limits>

#include "stretto/base/clock.h"
#include "stretto/base/interrupt.h"

namespace stretto::tune {
namespace {

constexpr int kEnoughAlone = 10;

// Other work on the machine seldom interrupts a run for longer: two busy loops beside it on two
// cores did so for up to 65 ms.
constexpr double kInterruption_s = 0.1;

double seconds_of(const std::function<void()>& run) {
  const double begin = now_s();
  run();
  return now_s() - begin;
}

}  // namespace

std::vector<double> measure(std::span<const Trial> trials, const MeasureOptions& options) {
  std::vector<double> best(trials.size(), std::numeric_limits<double>::infinity());
  const double start = now_s();
  double fastest = std::numeric_limits<double>::infinity();
  std::vector<bool> dropped(trials.size());
  for (int round = 0;; ++round) {
    const double limit = 1 + (options.hopeless - 1) / (options.race ? std::max(round, 1) : 1);
    for (size_t i = 0; i < trials.size(); ++i) {
      if (!dropped[i] && round > 0 && best[i] > limit * fastest) {
        // A single run may have been interrupted. Another one decides, with caches that are warm.
        dropped[i] =
            round > 1 || best[i] > kInterruption_s || seconds_of(trials[i].run) > limit * fastest;
      }
      if (dropped[i]) continue;
      check_interrupt();
      if (trials[i].prepare) {
        trials[i].prepare();
      } else {
        trials[i].run();  // refills the caches that the previous trial took
      }
      best[i] = std::min(best[i], seconds_of(trials[i].run));
      fastest = std::min(fastest, best[i]);
    }
    const double spent = now_s() - start;
    const int rounds = round + 1;
    const bool alone = std::count(dropped.begin(), dropped.end(), false) <= 1;
    const bool enough = (rounds >= options.enough_rounds && spent > options.enough_s) ||
                        (options.race && alone && rounds >= kEnoughAlone);
    if (rounds >= options.min_rounds && (enough || spent > options.budget_s)) return best;
  }
}

}  // namespace stretto::tune
