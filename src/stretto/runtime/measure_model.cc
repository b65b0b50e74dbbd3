#include "stretto/runtime/measure_model.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "stretto/base/clock.h"
#include "stretto/base/interrupt.h"
#include "stretto/runtime/executor.h"
#include "stretto/tensor/compare.h"

namespace stretto::runtime {
namespace {

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto at = static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  return values[at];
}

// Whether to end a measurement that may take `budget_s`: a small model's median hardly changes
// after so many runs, and whoever waits for it has other things to do.
bool enough(size_t runs, double elapsed_s, double budget_s) {
  constexpr size_t kRuns = 200;
  constexpr double kSpan_s = 0.05;  // longer than most disturbances
  return elapsed_s >= budget_s || (runs >= kRuns && elapsed_s >= kSpan_s);
}

struct Buffers {
  std::vector<Tensor> outputs;
  std::vector<const void*> from;
  std::vector<void*> to;

  Buffers(const Program& program, const std::vector<Tensor>& inputs) {
    for (const Tensor& tensor : inputs) from.push_back(tensor.data());
    for (const TensorSpec& spec : program.outputs) outputs.emplace_back(spec.dtype, spec.shape);
    for (Tensor& tensor : outputs) to.push_back(tensor.mutable_data());
  }
};

}  // namespace

ProgramTiming time_program(const Program& program, const std::vector<Tensor>& inputs,
                           double budget_s) {
  Buffers buffers(program, inputs);
  Executor executor(program);
  ProgramTiming timing;
  const double first = now_s();
  executor.run(buffers.from, buffers.to);
  timing.latency.first_ms = (now_s() - first) * 1e3;
  // Whole runs first and undisturbed; the per-instruction clock costs a little.
  std::vector<double> runs;
  const double start = now_s();
  while (runs.size() < 5 || !enough(runs.size(), now_s() - start, budget_s * 0.7)) {
    const double begin = now_s();
    executor.run(buffers.from, buffers.to);
    runs.push_back((now_s() - begin) * 1e3);
  }
  const size_t count = program.instructions.size();
  std::vector<std::vector<double>> samples(count);
  const double detail = now_s();
  for (size_t i = 0; i < 3 || !enough(i, now_s() - detail, budget_s * 0.3); ++i) {
    std::vector<double> seconds(count, 0.0);
    executor.run_timed(buffers.from, buffers.to, seconds);
    for (size_t k = 0; k < count; ++k) samples[k].push_back(seconds[k] * 1e3);
  }
  for (auto& s : samples) {
    check_interrupt();
    timing.instruction_ms.push_back(quantile(std::move(s), 0.5));
  }
  timing.latency.runs = static_cast<int>(runs.size());
  timing.latency.median_ms = quantile(runs, 0.5);
  timing.latency.p95_ms = quantile(runs, 0.95);
  return timing;
}

Contest compare_programs(const Program& first, const Program& second,
                         const std::vector<Tensor>& inputs, double budget_s) {
  constexpr size_t kLeastRounds = 7, kMostRounds = 101;
  // A turn of a small model is several runs. The first does not count, because after the turn of
  // the other one the caches hold nothing of this one; to a large model that makes no difference.
  constexpr double kTurn_s = 1e-3, kLong_s = 10e-3;
  struct Side {
    Side(const Program& program, const std::vector<Tensor>& inputs)
        : buffers(program, inputs), executor(program) {}
    double run() {
      const double start = now_s();
      executor.run(buffers.from, buffers.to);
      return now_s() - start;
    }
    double turn() {
      if (ms.empty() || ms.back() < kLong_s * 1e3) run();
      double sum = 0;
      int runs = 0;
      for (; runs == 0 || sum < kTurn_s; ++runs) sum += run();
      return sum / runs * 1e3;
    }
    Buffers buffers;
    Executor executor;
    std::vector<double> ms;
  };
  Side a(first, inputs), b(second, inputs);
  std::vector<double> ratios;
  const double start = now_s();
  while (ratios.size() < kMostRounds &&
         (ratios.size() < kLeastRounds || now_s() - start < budget_s)) {
    check_interrupt();
    const bool turned = ratios.size() % 2 == 1;
    (turned ? b : a).ms.push_back((turned ? b : a).turn());
    (turned ? a : b).ms.push_back((turned ? a : b).turn());
    ratios.push_back(a.ms.back() / b.ms.back());
  }
  return {.first_ms = quantile(a.ms, 0.2),
          .second_ms = quantile(b.ms, 0.2),
          .ratio = quantile(ratios, 0.5),
          .rounds = static_cast<int>(ratios.size())};
}

// Two signs, because either alone can be chance: the usual round, and what undisturbed runs take.
bool first_wins(const Contest& contest) {
  constexpr double kMargin = 0.99;
  const double undisturbed = contest.first_ms / contest.second_ms;
  return contest.ratio < 1 && undisturbed < 1 && std::sqrt(contest.ratio * undisturbed) < kMargin;
}

std::vector<Tensor> run_program(const Program& program, const std::vector<Tensor>& inputs) {
  Buffers buffers(program, inputs);
  Executor executor(program);
  executor.run(buffers.from, buffers.to);
  return buffers.outputs;
}

OutputError compare(const std::string& output, const Tensor& got, const Tensor& expected) {
  const Difference difference = stretto::compare(got, expected);
  return {output, difference.relative_to_max, difference.max_abs, difference.only_nan};
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace stretto::runtime
