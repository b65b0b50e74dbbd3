#include "stretto/cluster/simulate/workload.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/cluster/simulate/shapes.h"

namespace stretto::cluster {
namespace {

int64_t milli_of(const Job& job) { return int64_t{job.chips} * job.chip_milli; }

// The published experiment of FGD: shuffled, then jobs of the trace are drawn again until all ask
// for so many times the chips, or removed at random where they ask for more.
std::vector<Job> jobs_for_chips(const Trace& trace, double inflate, int64_t total_chips,
                                Random& random) {
  std::vector<Job> jobs = trace.jobs;
  random.shuffle(jobs);
  const double target = inflate * static_cast<double>(total_chips) * 1000;
  int64_t asked = 0;
  for (const Job& job : jobs) asked += milli_of(job);
  if (asked == 0) throw_invalid("{}: no job asks for chips", trace.file);
  while (static_cast<double>(asked) > target) {
    const auto at = static_cast<std::ptrdiff_t>(random.below(jobs.size()));
    asked -= milli_of(jobs[static_cast<size_t>(at)]);
    jobs.erase(jobs.begin() + at);
  }
  for (;;) {
    const Job& job = trace.jobs[random.below(trace.jobs.size())];
    if (static_cast<double>(asked + milli_of(job)) > target) return jobs;
    asked += milli_of(job);
    jobs.push_back(job);
  }
}

// So many times as many jobs; those added come when another one of the trace does.
std::vector<Job> more_jobs(const Trace& trace, double inflate, Random& random) {
  std::vector<Job> jobs = trace.jobs;
  const auto wanted =
      static_cast<size_t>(std::llround(inflate * static_cast<double>(trace.jobs.size())));
  if (wanted < jobs.size()) {
    random.shuffle(jobs);
    jobs.resize(wanted);
  }
  while (jobs.size() < wanted) {
    Job job = trace.jobs[random.below(trace.jobs.size())];
    const int64_t then = trace.jobs[random.below(trace.jobs.size())].submit_ms;
    if (job.deadline_ms >= 0) job.deadline_ms += then - job.submit_ms;
    job.submit_ms = then;
    jobs.push_back(job);
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const Job& a, const Job& b) { return a.submit_ms < b.submit_ms; });
  return jobs;
}

// The queue of urgent jobs: the first that preempts, or else the first of the reserve.
int urgent_queue(const Site& site) {
  for (size_t i = 0; i < site.queues.size(); ++i) {
    if (site.queues[i].preempts) return static_cast<int>(i);
  }
  for (size_t i = 0; i < site.queues.size(); ++i) {
    if (!site.reserve.queues.empty() && site.queues[i].name == site.reserve.queues.front()) {
      return static_cast<int>(i);
    }
  }
  throw_invalid("{}: a part of the jobs shall be urgent, but no queue preempts or has a reserve",
                site.file);
}

}  // namespace

Workload make_workload(const Site& site, const Trace& trace, const SimulateOptions& options,
                       int64_t total_chips, Random& random) {
  if (!(options.inflate > 0 && options.inflate <= 1000)) {
    throw_invalid("inflate is {}, expected more than 0 and at most 1000", options.inflate);
  }
  if (!(options.urgent >= 0 && options.urgent <= 1)) {
    throw_invalid("urgent is {}, expected a part from 0 to 1", options.urgent);
  }
  Workload workload;
  if (options.departures && options.inflate == 1) {
    workload.jobs = trace.jobs;
  } else {
    workload.drawn = options.departures
                         ? more_jobs(trace, options.inflate, random)
                         : jobs_for_chips(trace, options.inflate, total_chips, random);
    workload.jobs = workload.drawn;
  }
  const std::vector<int> queues = map_queues(site, trace);
  const int urgent = options.urgent > 0 ? urgent_queue(site) : -1;
  workload.queues.reserve(workload.jobs.size());
  for (const Job& job : workload.jobs) {
    const bool drawn = urgent >= 0 && random.fraction() < options.urgent;
    workload.queues.push_back(
        static_cast<int16_t>(drawn ? urgent : queues[static_cast<size_t>(job.queue)]));
  }
  return workload;
}

}  // namespace stretto::cluster
