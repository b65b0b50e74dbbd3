#include "stretto/cluster/simulate_json.h"

#include <nlohmann/json.hpp>

namespace stretto::cluster {
namespace {

nlohmann::json waits_json(const WaitStats& stats) {
  return {{"class", stats.name},         {"jobs", stats.jobs},   {"mean_s", stats.mean_s},
          {"p50_s", stats.p50_s},        {"p95_s", stats.p95_s}, {"p99_s", stats.p99_s},
          {"longest_s", stats.longest_s}};
}

nlohmann::json setting_json(const FitSetting& setting) {
  return {{"group_nodes", setting.group_nodes},
          {"reserve_nodes", setting.reserve_nodes},
          {"soft", setting.soft}};
}

}  // namespace

nlohmann::json to_json(const Simulation& simulation) {
  nlohmann::json json = {
      {"policy", simulation.policy},
      {"jobs", simulation.jobs},
      {"finished", simulation.finished},
      {"refused", simulation.refused},
      {"refused_because", simulation.reasons},
      {"cancelled", simulation.cancelled},
      {"nodes", simulation.nodes},
      {"chips", simulation.chips},
      {"makespan_s", simulation.makespan_s},
      {"allocation", simulation.allocation},
      {"utilisation", simulation.utilisation},
      {"busy_allocation", simulation.busy_allocation},
      {"fragmentation", simulation.fragmentation},
      {"preemptions", simulation.preemptions},
      {"lost_chip_hours", simulation.lost_chip_hours},
      {"with_deadline", simulation.with_deadline},
      {"missed_deadlines", simulation.missed_deadlines},
      {"wait", waits_json(simulation.all)},
      {"completion", waits_json(simulation.completion)},
      {"waits", nlohmann::json::array()},
      {"series", nlohmann::json::array()},
      {"arrivals", nlohmann::json::array()},
  };
  for (const WaitStats& stats : simulation.waits) json["waits"].push_back(waits_json(stats));
  for (const SeriesPoint& point : simulation.series) {
    json["series"].push_back({{"time_s", point.time_s},
                              {"allocated", point.allocated},
                              {"stranded", point.stranded},
                              {"waiting", point.waiting}});
  }
  for (const ArrivalPoint& point : simulation.arrivals) {
    json["arrivals"].push_back(
        {{"demand_percent", point.demand_percent}, {"allocated_percent", point.allocated_percent}});
  }
  if (!simulation.jobs_times.empty()) {
    const auto seconds = [](int64_t ms) {
      return ms < 0 ? nlohmann::json() : nlohmann::json(static_cast<double>(ms) / 1000);
    };
    for (const JobTimes& times : simulation.jobs_times) {
      json["times"].push_back({{"start_s", seconds(times.start_ms)},
                               {"end_s", seconds(times.end_ms)},
                               {"preemptions", times.preemptions}});
    }
  }
  return json;
}

nlohmann::json to_json(const Fit& fit) {
  nlohmann::json tried = nlohmann::json::array();
  for (const FitTrial& trial : fit.tried) {
    nlohmann::json entry = setting_json(trial.setting);
    entry["score_s"] = trial.score_s;
    entry["part"] = trial.part;
    tried.push_back(entry);
  }
  return {{"groups", fit.groups},
          {"grid_size", fit.grid_size},
          {"runs", fit.runs},
          {"before", setting_json(fit.before)},
          {"best", setting_json(fit.best)},
          {"tried", tried},
          {"changes", fit.changes}};
}

}  // namespace stretto::cluster
