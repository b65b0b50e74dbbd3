#include "stretto/runtime/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/machine_rates.h"
#include "stretto/kernels/cycles.h"
#include "stretto/kernels/workbench.h"
#include "stretto/tune/choose.h"

namespace stretto::runtime {
namespace {

constexpr double kDispatchSeconds = 0.5e-6;

// A row that expects to take this many times as long as the best one is not worth measuring.
constexpr double kTooSlow = 2.5, kTooSlowThoroughly = 10;

// The part of a problem's budget that goes into timing; the rest is for checks and for setting up.
constexpr double kTimingShare = 0.6;

// How much there is to gain where nothing but one candidate fits: its time serves the layouts.
constexpr double kGainOfTime = 0.1;

// References above this many operations take seconds; beyond it candidates are checked against each
// other, and the whole model is compared with its reference in the end.
constexpr double kReferenceFlops = 6e7;

// Selection::why of a choice that was made earlier.
constexpr std::string_view kFromCache = "from the tuning cache";

struct Bytes {
  double maps = 0, constants = 0;
};

Bytes bytes_of(const kernels::Family& family, const void* problem) {
  const kernels::Signature signature = family.signature(problem);
  const int block = family.target(problem).block();
  const auto sum = [&](const std::vector<kernels::TensorInfo>& list) {
    double bytes = 0;
    for (const kernels::TensorInfo& info : list) {
      bytes += static_cast<double>(storage_elements(info.shape, info.layout, block)) *
               static_cast<double>(dtype_bytes(info.dtype));
    }
    return bytes;
  };
  return {.maps = sum(signature.inputs) + sum(signature.outputs),
          .constants = sum(signature.constants)};
}

// The first candidate of `rest` that is still in the running beside this one; -1: none.
int another(std::span<const double> rest, int candidate) {
  for (size_t i = 0; i < rest.size(); ++i) {
    if (static_cast<int>(i) != candidate && std::isfinite(rest[i])) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

double allowed_error(kernels::Accuracy accuracy) {
  switch (accuracy) {
    case kernels::Accuracy::kStrict:
      return 2e-5;
    case kernels::Accuracy::kDefault:
      return 1e-4;
    case kernels::Accuracy::kFast:
      return 3e-4;
  }
  return 2e-5;
}

double estimate_seconds(const kernels::Family& family, const void* problem, double expected) {
  const kernels::Target& target = family.target(problem);
  const double flops = family.flops(problem);
  const double share = std::max(expected, 1e-6);
  const Bytes bytes = bytes_of(family, problem);
  if (flops == 0) {
    const double rate = move_bytes_per_second() * target.threads * share;
    return (bytes.maps + bytes.constants) / rate + kDispatchSeconds;
  }
  const double peak = peak_flops(target.isa);
  const double memory =
      kernels::map_cycles(target, bytes.maps, 1.0 / target.threads) +
      kernels::memory_cycles(target, bytes.constants / target.threads, target.threads == 1);
  return std::max(flops / (peak * share * target.threads), memory * 4 * target.lanes() / peak) +
         kDispatchSeconds;
}

Selector::Selector(SelectOptions options) : options_(std::move(options)) {
  for (const auto& [name, row] : options_.forced) {
    const kernels::Family& family = kernels::family(name);
    if (kernels::find_row(family, row) >= 0) continue;
    std::string known;
    for (int r = 0; r < family.rows; ++r) {
      known += fmt::format("{}{}", r ? ", " : "", family.row_name(r));
    }
    throw_invalid("kernels: {} has no kernel '{}'; there are: {}", name, row, known);
  }
}

Selection Selector::decide(const kernels::Family& family, const void* problem,
                           const std::string& key) const {
  Selection s{.family = &family};
  if (const auto forced = options_.forced.find(std::string(family.name));
      forced != options_.forced.end()) {
    s.row = kernels::find_row(family, forced->second);
    const kernels::Fit fit = family.fits(s.row, problem);
    // A forced kernel that cannot do some layout is no error here: another variant may be chosen.
    s.estimate = fit.ok ? estimate_seconds(family, problem, fit.expected) : 1e3;
    s.why = "forced";
    if (!fit.ok) s.alternatives.push_back({forced->second, 0, fit.reason});
    return s;
  }
  auto known = options_.known.find(key);
  if (!known) known = options_.advice.find(key);
  if (known) {
    const int row = kernels::find_row(family, known->candidate);
    if (row >= 0) {
      if (const kernels::Fit fit = family.fits(row, problem); fit.ok) {
        s.row = row;
        // Negative: what was expected, not measured, when the choice was made (see used()).
        s.seconds = std::max(known->seconds, 0.0);
        s.estimate =
            known->seconds < 0 ? -known->seconds : estimate_seconds(family, problem, fit.expected);
        s.why = kFromCache;
        return s;
      }
    }
  }
  s.row = kernels::default_row(family, problem);
  s.estimate = estimate_seconds(family, problem, family.fits(s.row, problem).expected);
  s.why = "built-in order";
  return s;
}

const Selection& Selector::select(const kernels::Family& family, const void* problem) {
  const auto [at, fresh] = selections_.try_emplace(family.key(problem));
  if (fresh) at->second = decide(family, problem, at->first);
  return at->second;
}

// A problem to measure, and the rows that are worth it.
struct Selector::Task {
  const kernels::Family* family;
  const void* problem;
  std::string key;
  std::vector<int> rows;
  double gain = 0;  // seconds of the model that may be gained, to compare tasks with each other
};

std::vector<Selector::Task> Selector::plan(const std::vector<Request>& requests) const {
  std::vector<Task> tasks;
  std::map<std::string, size_t> seen;
  for (const Request& request : requests) {
    const kernels::Family& family = *request.family;
    if (options_.budget_s <= 0 || options_.forced.contains(std::string(family.name))) continue;
    std::string key = family.key(request.problem);
    if (options_.known.find(key) || selections_.contains(key)) continue;
    std::vector<double> times;  // relative to each other
    double expected = 0;
    for (int row = 0; row < family.rows; ++row) {
      const kernels::Fit fit = family.fits(row, request.problem);
      times.push_back(fit.ok ? 1 / fit.expected : std::numeric_limits<double>::infinity());
      if (fit.ok) expected = std::max(expected, fit.expected);
    }
    std::vector<int> rows =
        tune::shortlist(times, options_.thorough ? kTooSlowThoroughly : kTooSlow);
    std::erase(rows, family.reference);
    // One way only: nothing to choose, and its estimate is enough for the layouts.
    if (rows.empty()) continue;
    double doubt = -1;  // the best one is no rival of itself
    for (const int row : rows) doubt += tune::closeness(times[row] * expected);
    const double gain = request.likely * std::max(doubt, kGainOfTime) *
                        estimate_seconds(family, request.problem, expected);
    const auto [at, fresh] = seen.try_emplace(key, tasks.size());
    if (!fresh) {
      tasks[at->second].gain += gain;
      continue;
    }
    tasks.push_back({&family, request.problem, std::move(key), std::move(rows), gain});
  }
  // Where the budget ends, the rest go by expectation.
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const Task& a, const Task& b) { return a.gain > b.gain; });
  return tasks;
}

Selection Selector::measure_one(const Task& task, double budget_s) {
  const kernels::Family& family = *task.family;
  const kernels::Target& target = family.target(task.problem);
  auto& team = teams_[target.threads];
  if (!team) team = std::make_unique<ThreadTeam>(target.threads);
  kernels::Workbench bench(family, task.problem, 1, team.get());
  const std::vector<double> seconds = bench.time(task.rows, {.budget_s = budget_s, .race = true});

  Selection s{.family = &family};
  for (size_t r = 0; r < task.rows.size(); ++r) {
    s.alternatives.push_back({std::string(family.row_name(task.rows[r])), seconds[r], {}});
  }
  // The winner must agree with the reference, or with another row where that would take seconds.
  const bool quick = family.flops(task.problem) < kReferenceFlops;
  const double allowed = allowed_error(target.accuracy);
  const auto check = [&](int candidate, std::span<const double> rest) {
    const int row = task.rows[static_cast<size_t>(candidate)];
    double error = 0;
    if (quick) {
      error = bench.check(row).relative_to_max;
    } else if (const int other = another(rest, candidate); other >= 0) {
      error = bench.check(row, task.rows[static_cast<size_t>(other)]).relative_to_max;
      if (error > allowed) error = bench.check(row).relative_to_max;
    }
    if (error <= allowed) return true;
    s.alternatives[static_cast<size_t>(candidate)].reason =
        fmt::format("excluded: error {:.1e} is above {:.0e}", error, allowed);
    return false;
  };
  const auto by_order =
      std::find(task.rows.begin(), task.rows.end(), kernels::default_row(family, task.problem));
  const int preferred =
      by_order == task.rows.end() ? -1 : static_cast<int>(by_order - task.rows.begin());
  if (const int winner = tune::choose_checked(seconds, check, preferred); winner >= 0) {
    s.row = task.rows[static_cast<size_t>(winner)];
    s.seconds = seconds[static_cast<size_t>(winner)];
    s.why = fmt::format("fastest of {} measured", task.rows.size());
  } else {
    s.row = family.reference;
    s.seconds = bench.time(std::array{s.row}, {.budget_s = 0, .min_rounds = 1})[0];
    s.why = fmt::format("reference: all of {} measured were excluded", task.rows.size());
  }
  s.estimate = s.seconds;
  return s;
}

void Selector::measure(const std::vector<Request>& requests,
                       const std::function<void(std::string_view, double)>& progress) {
  const std::vector<Task> tasks = plan(requests);
  std::vector<double> gains;
  for (const Task& task : tasks) gains.push_back(task.gain);
  const double all_gains = std::accumulate(gains.begin(), gains.end(), 0.0);
  tune::Budget budget(options_.budget_s, gains);
  double gained = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i];
    check_interrupt();
    // Setting up takes about as long for each task, timing as long as there is to gain.
    const double share_of_tasks = static_cast<double>(i) / static_cast<double>(tasks.size());
    if (progress) progress("measuring kernels", 0.5 * (share_of_tasks + gained / all_gains));
    gained += task.gain;
    const double share = budget.next();
    if (share <= 0) break;
    Selection selection = measure_one(task, share * kTimingShare);
    found_.put(task.key, {std::string(task.family->row_name(selection.row)), selection.seconds});
    selections_[task.key] = std::move(selection);
  }
}

tune::TuningCache Selector::used() const {
  tune::TuningCache cache;
  for (const auto& [key, selection] : selections_) {
    if (selection.family == nullptr || selection.row < 0) continue;
    cache.put(key, {std::string(selection.family->row_name(selection.row)),
                    selection.seconds > 0 ? selection.seconds : -selection.cost()});
  }
  return cache;
}

SelectCounts Selector::counts() const {
  SelectCounts counts;
  for (const auto& [key, selection] : selections_) {
    if (selection.why == kFromCache) {
      ++counts.known;
    } else if (selection.why.starts_with("fastest")) {
      ++counts.measured;
    } else {
      ++counts.by_order;
    }
  }
  return counts;
}

}  // namespace stretto::runtime
