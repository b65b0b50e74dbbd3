#include "stretto/cluster/simulate/engine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "stretto/base/error.h"

namespace stretto::cluster {
namespace {

constexpr int kProgressEvery = 4096;  // arrivals
constexpr int64_t kPartsTold = 100;   // of the events, to go_on
constexpr size_t kMostReasons = 8;

// What tells shapes apart: chips, parts, cores, memory, kinds, queue, model, user, and whether the
// job takes longer than it may.
using ShapeKey = std::tuple<int, int, int, int64_t, int, int, int, int, bool>;

}  // namespace

bool PlaceContext::allows(int node, const Need& need) const {
  return plans == nullptr || plans->allows(nodes, node, need, job_end_ms);
}

Engine::Engine(const Site& site, const Trace& trace, const SimulateOptions& options)
    : site_(site),
      trace_(trace),
      options_(options),
      policy_(make_policy(options.policy)),
      map_(map_site(site, policy_, trace)),
      nodes_(map_.classes),
      random_(options.seed),
      workload_(make_workload(site, trace, options, nodes_.total_chips(), random_)),
      shares_(site, trace) {
  map_.classes = nodes_.classes();
  if (policy_.needs_fragmentation) {
    fragmentation_ = std::make_unique<Fragmentation>(trace, map_.kinds);
  }
  rate_ = [this](int kind, int model, int chips) {
    if (options_.throughputs == nullptr || kind < 0 || model == 0) return 0.0;
    return options_.throughputs->rate(map_.kinds[static_cast<size_t>(kind)],
                                      trace_.models[static_cast<size_t>(model)], chips);
  };
  for (const Job& job : workload_.jobs) {
    if (job.cores_milli != 0 || job.memory_mb != 0 || job.chip_milli != 1000 || job.chips == 0) {
      only_chips_ = false;
    }
  }
  on_node_.resize(static_cast<size_t>(nodes_.count()));
  running_of_queue_.resize(site.queues.size());
  guests_in_.resize(site.groups.size() + 1);
  for (const Queue& queue : site.queues) {
    urgent_.push_back(queue.preempts || std::ranges::find(site.reserve.queues, queue.name) !=
                                            site.reserve.queues.end());
  }
  times_.resize(workload_.jobs.size());
  make_shapes();
}

void Engine::make_shapes() {
  std::map<ShapeKey, uint32_t> known;
  std::vector<std::vector<int>> jobs_of;
  shape_of_.resize(workload_.jobs.size());
  const bool by_model = options_.throughputs != nullptr;
  for (size_t j = 0; j < workload_.jobs.size(); ++j) {
    const Job& job = workload_.jobs[j];
    const int queue = workload_.queues[j];
    const ShapeKey key{job.chips,
                       job.chip_milli,
                       job.cores_milli,
                       job.memory_mb,
                       job.kinds,
                       queue,
                       by_model ? job.model : 0,
                       shares_.counts_users() ? job.user : 0,
                       is_too_long(site_, site_.queues[static_cast<size_t>(queue)], job)};
    const auto [at, added] = known.try_emplace(key, static_cast<uint32_t>(shapes_.size()));
    if (added) {
      std::string reason;
      shapes_.push_back(make_shape(site_, map_, policy_, job, queue, reason));
      jobs_of.emplace_back();
      if (!reason.empty() && result_.reasons.size() < kMostReasons) {
        result_.reasons.push_back(reason);
      }
    }
    shape_of_[j] = at->second;
    jobs_of[at->second].push_back(static_cast<int>(j));
  }
  waiting_.resize(shapes_.size());
  is_active_.resize(shapes_.size());
  tried_in_pass_.resize(shapes_.size());
  position_.resize(workload_.jobs.size());
  for (size_t s = 0; s < shapes_.size(); ++s) {
    std::vector<int>& jobs = jobs_of[s];
    std::stable_sort(jobs.begin(), jobs.end(),
                     [this](int a, int b) { return policy_.key(job(a)) < policy_.key(job(b)); });
    for (size_t i = 0; i < jobs.size(); ++i) {
      position_[static_cast<size_t>(jobs[i])] = static_cast<uint32_t>(i);
    }
    if (options_.departures) waiting_[s].set_jobs(std::move(jobs));
  }
}

PlaceContext Engine::context(const Shape& shape, const Plans* plans, int64_t end_ms) {
  return {.nodes = nodes_,
          .random = random_,
          .fragmentation = fragmentation_.get(),
          .plans = plans,
          .job_end_ms = end_ms,
          .shape = static_cast<int>(&shape - shapes_.data()),
          .only_chips = only_chips_,
          .model = shape.model,
          .model_chips = shape.need.chips,
          .rate = rate_};
}

double Engine::slowness_on(const Shape& shape, int node) const {
  if (options_.throughputs == nullptr || shape.model == 0) return 1;
  const double here = rate_(nodes_.class_of(node).kind, shape.model, shape.need.chips);
  const double reference = options_.throughputs->rate(
      options_.reference_kind, trace_.models[static_cast<size_t>(shape.model)], shape.need.chips);
  return here > 0 && reference > 0 ? reference / here : 1;
}

int64_t Engine::remaining_ms(int j, int64_t of) const {
  const auto saved = saved_ms_.find(j);
  return saved == saved_ms_.end() ? of : std::max<int64_t>(0, of - saved->second);
}

void Engine::advance(int64_t to_ms) {
  if (to_ms > now_ms_) {
    meter_.pass_time(to_ms - now_ms_, nodes_.used_milli(), nodes_.total_chips() * 1000,
                     waiting_count_);
    const double seconds = static_cast<double>(to_ms - now_ms_) / 1000;
    for (size_t c = 0; c < kWaitClasses; ++c) {
      so_far_.wait_s += static_cast<double>(unstarted_[c]) * weights_[c] * seconds;
    }
  }
  now_ms_ = to_ms;
}

size_t Engine::wait_class_of(int j) {
  return wait_class(job(j).chips, urgent_[static_cast<size_t>(shape_of(j).queue)]);
}

void Engine::weigh_waits() {
  std::array<int64_t, kWaitClasses> jobs{};
  for (int j = 0; j < static_cast<int>(workload_.jobs.size()); ++j) {
    if (shape_of(j).possible()) {
      ++jobs[wait_class_of(j)];
    } else {
      ++so_far_.refused;
    }
  }
  const auto classes =
      static_cast<double>(kWaitClasses) - static_cast<double>(std::ranges::count(jobs, int64_t{0}));
  for (size_t c = 0; c < kWaitClasses; ++c) {
    if (jobs[c] > 0) weights_[c] = 1 / (static_cast<double>(jobs[c]) * classes);
  }
}

bool Engine::goes_on(int64_t arrived) {
  const auto all = 2 * static_cast<int64_t>(workload_.jobs.size());
  const int64_t events = arrived + result_.finished + result_.refused + result_.cancelled;
  if (events < next_told_) return true;
  next_told_ = events + std::max<int64_t>(1, all / kPartsTold);
  so_far_.part = static_cast<double>(events) / static_cast<double>(all);
  return options_.go_on(so_far_);
}

void Engine::add_waiting(int j) {
  const uint32_t s = shape_of_[static_cast<size_t>(j)];
  waiting_[s].add(position_[static_cast<size_t>(j)], job(j).predicted_ms);
  ++waiting_count_;
  if (is_active_[s]) return;
  is_active_[s] = true;
  active_.push_back(static_cast<int>(s));
}

void Engine::arrive(int j) {
  if (!shape_of(j).possible()) {
    ++result_.refused;
    return;
  }
  add_waiting(j);
  ++unstarted_[wait_class_of(j)];
}

void Engine::start(int j, const std::vector<Part>& parts) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<int>(running_.size()));
    running_.emplace_back();
  }
  const int slot = free_slots_.back();
  free_slots_.pop_back();
  const Shape& shape = shape_of(j);
  Running& running = running_[static_cast<size_t>(slot)];
  running.job = j;
  running.start_ms = now_ms_;
  running.slowness = slowness_on(shape, parts.front().spot.node);
  running.parts.clear();
  for (const Part& part : parts) {
    running.parts.push_back(nodes_.take(part.spot, part.need));
    on_node_[static_cast<size_t>(part.spot.node)].push_back(slot);
    const int region = nodes_.class_of(part.spot.node).region;
    guests_in_[static_cast<size_t>(region)] += ((shape.owns >> region) & 1) == 0;
  }
  ++running_of_queue_[static_cast<size_t>(shape.queue)];
  shares_.start(shape, now_ms_);
  const auto scaled = [&](int64_t ms) {
    return std::llround(static_cast<double>(remaining_ms(j, ms)) * running.slowness);
  };
  running.predicted_end_ms = now_ms_ + scaled(job(j).predicted_ms);
  ends_.push({now_ms_ + scaled(job(j).duration_ms), j, slot, running.generation});
  if (policy_.blocking == Blocking::kBackfill) {
    predicted_.insert({{running.predicted_end_ms, j}, slot});
  }
  waiting_of(j).remove(position_[static_cast<size_t>(j)]);
  --waiting_count_;
  JobTimes& times = times_[static_cast<size_t>(j)];
  if (times.start_ms < 0) {
    --unstarted_[wait_class_of(j)];
    meter_.add_wait(job(j).chips, urgent_[static_cast<size_t>(shape.queue)],
                    now_ms_ - job(j).submit_ms);
  }
  times.start_ms = now_ms_;
}

void Engine::release(int slot) {
  Running& running = running_[static_cast<size_t>(slot)];
  const Shape& shape = shape_of(running.job);
  for (const Taken& taken : running.parts) {
    nodes_.give(taken);
    std::vector<int>& slots = on_node_[static_cast<size_t>(taken.node)];
    slots.erase(std::ranges::find(slots, slot));
    const int region = nodes_.class_of(taken.node).region;
    guests_in_[static_cast<size_t>(region)] -= ((shape.owns >> region) & 1) == 0;
  }
  --running_of_queue_[static_cast<size_t>(shape.queue)];
  shares_.end(shape, now_ms_);
  predicted_.erase({{running.predicted_end_ms, running.job}, slot});
  ++running.generation;
  free_slots_.push_back(slot);
}

void Engine::end(int slot) {
  const Running& running = running_[static_cast<size_t>(slot)];
  const int j = running.job;
  if (running.predicted_end_ms != now_ms_) plans_hold_ = false;
  release(slot);
  times_[static_cast<size_t>(j)].end_ms = now_ms_;
  ++result_.finished;
  meter_.add_completion(now_ms_ - job(j).submit_ms);
  if (job(j).deadline_ms >= 0) result_.missed_deadlines += now_ms_ > job(j).deadline_ms;
}

// Of jobs that were preempted.
void Engine::drop_void_ends() {
  while (!ends_.empty() &&
         running_[static_cast<size_t>(ends_.top().slot)].generation != ends_.top().generation) {
    ends_.pop();
  }
}

void Engine::run_events() {
  const int count = static_cast<int>(workload_.jobs.size());
  int next = 0;
  if (options_.go_on) weigh_waits();
  while (next < count || !ends_.empty()) {
    int64_t time = next < count ? job(next).submit_ms : ends_.top().time_ms;
    if (!ends_.empty()) time = std::min(time, ends_.top().time_ms);
    advance(time);
    while (!ends_.empty() && ends_.top().time_ms == time) {
      const int slot = ends_.top().slot;
      ends_.pop();
      end(slot);
      drop_void_ends();
    }
    for (; next < count && job(next).submit_ms == time; ++next) {
      arrive(next);
      if (options_.progress && next % kProgressEvery == 0) {
        options_.progress(static_cast<double>(next) / count);
      }
    }
    pass();
    drop_void_ends();
    if (options_.go_on && !goes_on(next)) {
      result_.stopped = true;
      return;
    }
  }
}

void Engine::run_arrivals_only() {
  const auto total = static_cast<double>(nodes_.total_chips() * 1000);
  int64_t arrived = 0;
  std::map<int, std::pair<double, int>> by_percent;  // sum and count
  for (size_t j = 0; j < workload_.jobs.size(); ++j) {
    const Shape& shape = shape_of(static_cast<int>(j));
    arrived += shape.need.chip_milli();
    PlaceContext here = context(shape, nullptr, 0);
    if (shape.possible() && shares_.allows(shape) &&
        find_spots(here, shape, policy_.place, parts_)) {
      shares_.start(shape, 0);
      for (const Part& part : parts_) nodes_.take(part.spot, part.need);
      ++result_.finished;
    } else {
      ++result_.refused;
    }
    const int percent = static_cast<int>(std::lround(100 * static_cast<double>(arrived) / total));
    auto& [sum, points] = by_percent[percent];
    sum += 100 * static_cast<double>(nodes_.used_milli()) / total;
    ++points;
    if (options_.progress && j % kProgressEvery == 0) {
      options_.progress(static_cast<double>(j) / static_cast<double>(workload_.jobs.size()));
    }
  }
  for (const auto& [percent, sums] : by_percent) {
    result_.arrivals.push_back({percent, sums.first / sums.second});
  }
  result_.allocation = static_cast<double>(nodes_.used_milli()) / total;
  result_.utilisation = result_.allocation;
}

Simulation Engine::run() {
  result_.policy = policy_.name;
  result_.jobs = static_cast<int64_t>(workload_.jobs.size());
  result_.chips = nodes_.total_chips();
  result_.nodes = nodes_.count();
  for (const Job& job : workload_.jobs) result_.with_deadline += job.deadline_ms >= 0;
  if (options_.departures) {
    run_events();
    // Jobs that never ended missed their deadlines too.
    for (size_t j = 0; j < workload_.jobs.size(); ++j) {
      result_.missed_deadlines += times_[j].end_ms < 0 && workload_.jobs[j].deadline_ms >= 0;
      result_.preemptions += times_[j].preemptions;
    }
    meter_.report(nodes_.total_chips() * 1000, result_);
  } else {
    run_arrivals_only();
  }
  if (options_.progress) options_.progress(1);
  if (options_.keep_times) result_.jobs_times = std::move(times_);
  return std::move(result_);
}

Simulation simulate(const Site& site, const Trace& trace, const SimulateOptions& options) {
  return Engine(site, trace, options).run();
}

std::vector<std::string> not_simulated(const Site& site, const Trace& trace) {
  std::vector<std::string> left_out;
  if (!site.users.empty() && trace.users.size() <= 1) {
    left_out.push_back(
        "the trace does not say whose the jobs are, so shares and limits of users change nothing");
  }
  for (const Queue& queue : site.queues) {
    if (queue.users.empty()) continue;
    left_out.push_back("who may use a queue is not simulated: every user may use every queue");
    break;
  }
  return left_out;
}

}  // namespace stretto::cluster
