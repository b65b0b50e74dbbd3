#include <algorithm>
#include <limits>

#include "stretto/kernels/row_index/candidates.h"

namespace stretto::kernels::row_index {
namespace {

Fit fits(const RowIndexProblem&) { return Fit::yes(0.1); }

// One thread does all: each row depends on how many come before it.
void run(const RowIndexProblem& p, const Args& args, const Worker& worker) {
  if (worker.index != 0 || worker.unit != 0) return;
  constexpr int32_t kNowhere = std::numeric_limits<int32_t>::max();
  // Bytes: one that is neither 0 nor 1 is no bool.
  const uint8_t* mask = static_cast<const uint8_t*>(args.inputs[0]);
  const auto output = [&](int i) { return static_cast<int32_t*>(args.outputs[i]); };
  int32_t *rows = output(0), *places = output(1), *starts = output(2);
  int32_t *positions = output(3), *samples = output(4);
  int32_t next = 0;
  for (int64_t b = 0; b < p.batch; ++b) {
    starts[b] = next;
    for (int64_t s = 0; s < p.length; ++s) {
      const int64_t at = b * p.length + s;
      places[at] = kNowhere;
      if (mask[at] == 0 || next == p.rows) continue;
      rows[next] = static_cast<int32_t>(at);
      positions[next] = static_cast<int32_t>(s);
      samples[next] = static_cast<int32_t>(b);
      places[at] = next++;
    }
  }
  starts[p.batch] = next;
  for (int32_t* list : {rows, positions, samples}) std::fill(list + next, list + p.rows, kNowhere);
}

}  // namespace

const Row kReference{.name = "reference", .fits = fits, .run = run};

}  // namespace stretto::kernels::row_index
