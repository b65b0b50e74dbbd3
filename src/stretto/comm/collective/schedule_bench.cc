// The time to make one rank's schedule of one unit, for every algorithm at hundreds and thousands
// of ranks. It must grow with the steps of the rank, which the counter says, and not with the ranks
// squared.
#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include <string>
#include <vector>

#include "stretto/comm/collective/algorithm.h"

namespace stretto::comm {
namespace {

constexpr int kRanksPerHost = 8;

Problem problem_of(Collective kind, int ranks, bool uneven) {
  std::vector<int> host;
  for (int r = 0; r < ranks; ++r) host.push_back(r / kRanksPerHost);
  const bool whole = kind == Collective::kAllReduce || kind == Collective::kReduce ||
                     kind == Collective::kBroadcast;
  Problem problem{.kind = kind,
                  .rank = ranks / 2,
                  .host = host,
                  .count = kind == Collective::kBarrier ? 0
                           : whole                      ? 1 << 20
                                                        : 1 << 10};
  if (!uneven || whole || kind == Collective::kBarrier) return problem;
  problem.counts.assign(static_cast<size_t>(ranks), problem.count);
  problem.counts[0] = 1;
  if (kind == Collective::kAllToAll) problem.receive_counts.assign(problem.counts.size(), 1 << 10);
  return problem;
}

void make_schedule(benchmark::State& state, const Algorithm& algorithm, const Problem& problem) {
  size_t steps = 0;
  for (auto _ : state) {
    const Schedule schedule = algorithm.schedule(problem, 0);
    steps = schedule.steps.size();
    benchmark::DoNotOptimize(schedule.steps.data());
  }
  state.counters["steps"] = static_cast<double>(steps);
  state.counters["per_step"] =
      benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kIsIterationInvariantRate |
                                                         benchmark::Counter::kInvert);
}

void choose(benchmark::State& state, const Problem& problem) {
  for (auto _ : state) benchmark::DoNotOptimize(&choose_algorithm(problem, {}, {}));
}

const bool registered = [] {
  for (const int ranks : {64, 512, 4096}) {
    for (const Collective kind : {Collective::kAllReduce, Collective::kReduceScatter}) {
      const Problem problem = problem_of(kind, ranks, false);
      benchmark::RegisterBenchmark(
          fmt::format("{}/choose/{}", collective_name(kind), ranks).c_str(),
          [problem](benchmark::State& state) { choose(state, problem); })
          ->Unit(benchmark::kMicrosecond);
    }
    std::vector<int> host;
    for (int r = 0; r < ranks; ++r) host.push_back(r / kRanksPerHost);
    benchmark::RegisterBenchmark(fmt::format("find_hosts/{}", ranks).c_str(),
                                 [host](benchmark::State& state) {
                                   for (auto _ : state)
                                     benchmark::DoNotOptimize(find_hosts(host).order.data());
                                 })
        ->Unit(benchmark::kMicrosecond);
  }
  for (int kind = 0; kind <= static_cast<int>(Collective::kBarrier); ++kind)
    for (const Algorithm& algorithm : algorithms(static_cast<Collective>(kind)))
      for (const int ranks : {64, 512, 4096})
        for (const bool uneven : {false, true}) {
          const Problem problem = problem_of(static_cast<Collective>(kind), ranks, uneven);
          if (!algorithm.unfit(problem).empty() || (uneven && problem.counts.empty())) continue;
          benchmark::RegisterBenchmark(fmt::format("{}/{}/{}{}", collective_name(problem.kind),
                                                   algorithm.name, ranks, uneven ? "/uneven" : "")
                                           .c_str(),
                                       [&algorithm, problem](benchmark::State& state) {
                                         make_schedule(state, algorithm, problem);
                                       })
              ->Unit(benchmark::kMicrosecond);
        }
  return true;
}();

}  // namespace
}  // namespace stretto::comm
