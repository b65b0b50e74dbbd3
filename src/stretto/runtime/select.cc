#include "stretto/runtime/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/kernels/workbench.h"

namespace stretto::runtime {
namespace {

// Sustained bytes per second and core out of the outer caches; only orders candidates against
// each other, so a round figure does.
constexpr double kBytesPerSecond = 16e9;
constexpr double kDispatchSeconds = 0.5e-6;

// A row that expects less than this share of the best one's rate is not worth measuring quickly.
constexpr double kWorthMeasuring = 0.4;

// References above this many operations take seconds; beyond it candidates are checked against each
// other, and the whole model is compared with its reference in the end.
constexpr double kReferenceFlops = 6e7;

double total_bytes(const kernels::Family& family, const void* problem) {
  const kernels::Signature signature = family.signature(problem);
  const int block = family.target(problem).block();
  double bytes = 0;
  for (const auto* list : {&signature.inputs, &signature.constants, &signature.outputs}) {
    for (const kernels::TensorInfo& info : *list) {
      bytes += static_cast<double>(storage_elements(info.shape, info.layout, block)) *
               static_cast<double>(dtype_bytes(info.dtype));
    }
  }
  return bytes;
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0, difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) continue;
    largest = std::max(largest, std::fabs(double{a[i]}));
    difference = std::max(difference, std::fabs(double{a[i]} - double{b[i]}));
  }
  return difference / std::max(largest, 1e-30);
}

}  // namespace

double allowed_error(kernels::Accuracy accuracy) {
  switch (accuracy) {
    case kernels::Accuracy::kStrict:
      return 2e-5;
    case kernels::Accuracy::kFast:
      return 1e-3;
    case kernels::Accuracy::kDefault:
      break;
  }
  return 1e-4;
}

double estimate_seconds(const kernels::Family& family, const void* problem, double expected) {
  const kernels::Target& target = family.target(problem);
  const double flops = family.flops(problem);
  const double rate = std::max(expected, 1e-6) * target.threads;
  const double memory = total_bytes(family, problem) / (kBytesPerSecond * target.threads);
  if (flops == 0) return memory / std::max(expected, 1e-6) + kDispatchSeconds;
  return std::max(flops / (peak_flops(target.isa) * rate), memory) + kDispatchSeconds;
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

Selection Selector::decide(const kernels::Family& family, const void* problem) const {
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
  auto recorded = options_.record.find(family.key(problem));
  if (!recorded) recorded = options_.advice.find(family.key(problem));
  if (recorded) {
    const int row = kernels::find_row(family, recorded->candidate);
    if (row >= 0) {
      if (const kernels::Fit fit = family.fits(row, problem); fit.ok) {
        s.row = row;
        // Negative: what was expected, not measured, when the record was made (see used()).
        s.seconds = std::max(recorded->seconds, 0.0);
        s.estimate = recorded->seconds < 0 ? -recorded->seconds
                                           : estimate_seconds(family, problem, fit.expected);
        s.why = "recorded";
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
  if (fresh) at->second = decide(family, problem);
  return at->second;
}

void Selector::measure(std::vector<Request> requests,
                       const std::function<void(std::string_view, double)>& progress) {
  struct Task {
    Request request;
    std::string key;
    std::vector<int> rows;
    double estimate;
  };
  std::vector<Task> tasks;
  for (const Request& request : requests) {
    const kernels::Family& family = *request.family;
    if (options_.budget_s <= 0 || options_.forced.contains(std::string(family.name))) continue;
    Task task{.request = request, .key = family.key(request.problem), .estimate = 0};
    if (options_.record.find(task.key) || selections_.contains(task.key)) continue;
    if (std::any_of(tasks.begin(), tasks.end(),
                    [&](const Task& other) { return other.key == task.key; })) {
      continue;
    }
    double best = 0;
    for (int row = 0; row < family.rows; ++row) {
      const kernels::Fit fit = family.fits(row, request.problem);
      if (fit.ok) best = std::max(best, fit.expected);
    }
    for (int row = 0; row + 1 < family.rows; ++row) {
      const kernels::Fit fit = family.fits(row, request.problem);
      const double floor = options_.thorough ? 0.1 : kWorthMeasuring;
      if (fit.ok && fit.expected >= floor * best) task.rows.push_back(row);
    }
    task.estimate = estimate_seconds(family, request.problem, best);
    // One way only: nothing to choose, and its estimate is enough for the layouts.
    if (task.rows.empty()) continue;
    tasks.push_back(std::move(task));
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const Task& a, const Task& b) { return a.estimate > b.estimate; });

  const double start = now_s();
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Task& task = tasks[i];
    const kernels::Family& family = *task.request.family;
    const double left = options_.budget_s - (now_s() - start);
    if (progress) progress("measuring kernels", static_cast<double>(i) / tasks.size());
    if (left <= 0) break;  // the most expensive problems came first; the rest go by expectation
    const int threads = family.target(task.request.problem).threads;
    auto& team = teams_[threads];
    if (!team) team = std::make_unique<ThreadTeam>(threads);
    kernels::Workbench bench(family, task.request.problem, 1, team.get());
    const double share = left / static_cast<double>(tasks.size() - i);
    const std::vector<double> seconds =
        bench.time(task.rows, {.budget_s = share * 0.6, .min_rounds = 3});

    Selection s{.family = &family};
    const int by_order = kernels::default_row(family, task.request.problem);
    std::vector<int> rows = task.rows;
    std::vector<double> times = seconds;
    for (size_t r = 0; r < rows.size(); ++r) {
      s.alternatives.push_back({std::string(family.row_name(rows[r])), times[r], {}});
    }
    // The winner must agree with the reference, or with another row where that would take seconds.
    const double allowed = allowed_error(family.target(task.request.problem).accuracy);
    while (!rows.empty()) {
      const auto preferred = std::find(rows.begin(), rows.end(), by_order);
      const int index = tune::choose(
          times, preferred == rows.end() ? -1 : static_cast<int>(preferred - rows.begin()));
      const int row = rows[index];
      double error = 0;
      const bool quick = family.flops(task.request.problem) < kReferenceFlops;
      if (quick || rows.size() == 1) {
        if (quick) error = bench.check(row).relative_to_max;
      } else {
        bench.run(row);
        std::vector<float> mine(bench.output(0).begin(), bench.output(0).end());
        bench.run(rows[index == 0 ? 1 : 0]);
        error = largest_difference(mine, bench.output(0));
        if (error > allowed) error = bench.check(row).relative_to_max;
      }
      if (error <= allowed) {
        s.row = row;
        s.seconds = times[index];
        break;
      }
      for (Alternative& a : s.alternatives) {
        if (a.kernel == family.row_name(row)) {
          a.reason = fmt::format("struck out: error {:.1e} is above {:.0e}", error, allowed);
        }
      }
      rows.erase(rows.begin() + index);
      times.erase(times.begin() + index);
    }
    if (s.row < 0) s = decide(family, task.request.problem);
    s.estimate = s.seconds;
    s.why = fmt::format("fastest of {} measured", task.rows.size());
    options_.record.put(task.key, {std::string(family.row_name(s.row)), s.seconds});
    selections_[task.key] = std::move(s);
  }
}

tune::Record Selector::used() const {
  tune::Record record;
  for (const auto& [key, selection] : selections_) {
    if (selection.family == nullptr || selection.row < 0) continue;
    record.put(key, {std::string(selection.family->row_name(selection.row)),
                     selection.seconds > 0 ? selection.seconds : -selection.cost()});
  }
  return record;
}

SelectCounts Selector::counts() const {
  SelectCounts counts;
  for (const auto& [key, selection] : selections_) {
    if (selection.why == "recorded") {
      ++counts.recorded;
    } else if (selection.why.starts_with("fastest")) {
      ++counts.measured;
    } else {
      ++counts.by_order;
    }
  }
  return counts;
}

}  // namespace stretto::runtime
