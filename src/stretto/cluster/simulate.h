// What a policy would do: a trace of jobs replayed on the nodes of a site, in virtual time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/cluster/site.h"
#include "stretto/cluster/trace/trace.h"

namespace stretto::cluster {

// What a simulation has come to.
struct SoFar {
  double part;      // of the events: every job comes and ends
  int64_t refused;  // jobs, also those that come later
  double wait_s;    // the mean over the classes of jobs of their mean waits, if nobody waited from
                    // now on: it never falls, and ends as that of the whole simulation
};

struct SimulateOptions {
  std::string policy;      // parts of policy_parts(), joined by +; empty: as the site says
  uint64_t seed = 1;       // of everything that is drawn
  double inflate = 1;      // so many times as many jobs, drawn from the trace or removed at random.
                           // Without departures: until they ask for so many times the chips
  bool departures = true;  // false: jobs come in random order, never end, and are refused unless
                           // they start at once: how full the site gets
  double urgent = 0;  // so large a part of the jobs, drawn, goes to the first queue that preempts
  int64_t checkpoint_ms = 0;  // running jobs save their state so often; 0: a preempted job starts
                              // from its beginning
  const Throughputs* throughputs = nullptr;  // how much faster other chip kinds are
  std::string reference_kind = "v100";       // on which the durations of the trace were measured
  bool keep_times = false;                   // fill Simulation::jobs
  std::function<void(double fraction)> progress;  // called now and then
  // With departures, called about 100 times; false: the simulation stops there.
  std::function<bool(const SoFar&)> go_on;
};

// Of the jobs of one class: of one size, or urgent.
struct WaitStats {
  std::string name;  // "0 chips", "1 chip", "2-7 chips", "8 chips", "over 8 chips", "urgent"
  int64_t jobs = 0;
  double mean_s = 0, p50_s = 0, p95_s = 0, p99_s = 0, longest_s = 0;
};

struct SeriesPoint {
  double time_s;     // the middle of an interval
  double allocated;  // chips in use, as a part of all
  double stranded;   // chips that were free while jobs waited, as a part of all
  double waiting;    // jobs, in the mean
};

struct ArrivalPoint {
  int demand_percent;        // of the chips, that has arrived
  double allocated_percent;  // in use then
};

// When a job started for the last time, and ended; -1: never.
struct JobTimes {
  int64_t start_ms = -1, end_ms = -1;
  int preemptions = 0;
};

struct Simulation {
  std::string policy;
  bool stopped = false;  // by go_on: what follows is of the part till then
  int64_t jobs = 0, finished = 0;
  int64_t refused = 0;    // over a limit, or without a place: of their size, kind or queue
  int64_t cancelled = 0;  // preempted at a site that cancels them
  int64_t chips = 0, nodes = 0;
  double makespan_s = 0;       // from the first submission to the last end
  double allocation = 0;       // chip time in use, as a part of all chip time
  double utilisation = 0;      // the same without what preemption threw away
  double busy_allocation = 0;  // the allocation while jobs waited
  double fragmentation =
      0;  // chip time that was free while jobs waited, as a part of all chip time
  int64_t preemptions = 0;
  double lost_chip_hours = 0;
  int64_t with_deadline = 0, missed_deadlines = 0;
  WaitStats all;                 // waits: from submission to the first start
  std::vector<WaitStats> waits;  // by class; classes without jobs are left out
  WaitStats completion;          // from submission to the end ("JCT")
  std::vector<SeriesPoint> series;
  std::vector<ArrivalPoint> arrivals;  // without departures only
  std::vector<JobTimes> jobs_times;    // with keep_times, by the order of the trace
  std::vector<std::string> reasons;    // why jobs were refused, each once, at most eight
};

// The same site, trace and options give the same result on every machine. Throws InvalidArgument
// for options out of range and policies that do not exist, and for a site without chips.
Simulation simulate(const Site& site, const Trace& trace, const SimulateOptions& options = {});

// What simulate() does not take from a site, or cannot because of the trace: sentences for the
// user, empty if it takes everything.
std::vector<std::string> not_simulated(const Site& site, const Trace& trace);

}  // namespace stretto::cluster
