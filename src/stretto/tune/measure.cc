#include "stretto/tune/measure.h"

#include <algorithm>
#include <limits>

#include "stretto/base/clock.h"
#include "stretto/base/interrupt.h"

namespace stretto::tune {

std::vector<double> measure(std::span<const Trial> trials, const MeasureOptions& options) {
  std::vector<double> best(trials.size(), std::numeric_limits<double>::infinity());
  const double start = now_s();
  double fastest = std::numeric_limits<double>::infinity();
  for (int round = 0;; ++round) {
    for (size_t i = 0; i < trials.size(); ++i) {
      if (round > 0 && best[i] > options.hopeless * fastest) continue;
      check_interrupt();
      if (trials[i].prepare) {
        trials[i].prepare();
      } else {
        trials[i].run();  // refills the caches that the previous trial took
      }
      const double begin = now_s();
      trials[i].run();
      best[i] = std::min(best[i], now_s() - begin);
      fastest = std::min(fastest, best[i]);
    }
    const double spent = now_s() - start;
    const bool enough = round + 1 >= options.enough_rounds && spent > options.enough_s;
    if (round + 1 >= options.min_rounds && (enough || spent > options.budget_s)) return best;
  }
}

}  // namespace stretto::tune
