// stretto cluster simulate SITE --trace T: what a policy would do with the jobs of a trace.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "cluster_verbs.h"
#include "outputs.h"
#include "progress.h"
#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/cluster/fit.h"
#include "stretto/cluster/policy/policy.h"
#include "stretto/cluster/simulate.h"
#include "stretto/cluster/simulate_json.h"
#include "stretto/report/report.h"
#include "stretto/stretto.h"
#include "table.h"

namespace stretto::cli {
namespace {

struct SimulateFlags {
  std::string site, trace, format, compare, output, throughputs, reference = "v100";
  std::vector<std::string> policies;
  int64_t seed = 1;
  double inflate = 1, urgent = 0, checkpoint_s = 0;
  bool no_departures = false, fit = false, list_policies = false, times = false;
};

// A run of the simulator, and the site that it was about.
struct Result {
  std::string site;
  cluster::Simulation simulation;
};

std::string hours_or_seconds(double seconds) {
  if (seconds >= 48 * 3600) return fmt::format("{:.1f} d", seconds / 86400);
  if (seconds >= 2 * 3600) return fmt::format("{:.1f} h", seconds / 3600);
  return fmt::format("{:.0f} s", seconds);
}

std::string policies_text() {
  std::string text;
  std::string_view slot;
  for (const cluster::PolicyPart& part : cluster::policy_parts()) {
    if (part.slot != slot) text += fmt::format("{}:\n", slot = part.slot);
    text += fmt::format("  {:<13} {}\n", part.name, part.summary);
  }
  return text;
}

nlohmann::json policies_json() {
  nlohmann::json parts = nlohmann::json::array();
  for (const cluster::PolicyPart& part : cluster::policy_parts()) {
    parts.push_back({{"name", part.name}, {"slot", part.slot}, {"summary", part.summary}});
  }
  return {{"policies", parts}};
}

std::string results_text(const std::vector<Result>& results, bool departures) {
  const bool several_sites = !results.empty() && results.front().site != results.back().site;
  const auto name = [&](const Result& result) {
    return several_sites ? fmt::format("{} {}", result.site, result.simulation.policy)
                         : result.simulation.policy;
  };
  if (!departures) {
    Table table({"policy", ">demand", ">allocated", ">jobs", ">refused"});
    for (const Result& result : results) {
      for (const cluster::ArrivalPoint& point : result.simulation.arrivals) {
        const bool last = &point == &result.simulation.arrivals.back();
        if (point.demand_percent < 50 || (point.demand_percent % 10 != 0 && !last)) continue;
        table.row({name(result), fmt::format("{} %", point.demand_percent),
                   fmt::format("{:.2f} %", point.allocated_percent),
                   last ? fmt::format("{}", result.simulation.jobs) : "",
                   last ? fmt::format("{}", result.simulation.refused) : ""});
      }
    }
    return table.text();
  }
  Table waits({"policy", "jobs", ">number", ">mean wait", ">p50", ">p95", ">p99"});
  Table sums({"policy", ">allocation", ">useful", ">stranded", ">preempted", ">chip hours lost",
              ">missed deadlines", ">refused", ">mean time to end"});
  for (const Result& result : results) {
    const cluster::Simulation& simulation = result.simulation;
    std::vector<cluster::WaitStats> rows = simulation.waits;
    rows.push_back(simulation.all);
    for (const cluster::WaitStats& wait : rows) {
      waits.row({name(result), wait.name, fmt::format("{}", wait.jobs),
                 hours_or_seconds(wait.mean_s), hours_or_seconds(wait.p50_s),
                 hours_or_seconds(wait.p95_s), hours_or_seconds(wait.p99_s)});
    }
    sums.row({name(result), fmt::format("{:.1f} %", 100 * simulation.allocation),
              fmt::format("{:.1f} %", 100 * simulation.utilisation),
              fmt::format("{:.2f} %", 100 * simulation.fragmentation),
              fmt::format("{}", simulation.preemptions),
              fmt::format("{:.1f}", simulation.lost_chip_hours),
              simulation.with_deadline == 0
                  ? "-"
                  : fmt::format("{} of {}", simulation.missed_deadlines, simulation.with_deadline),
              fmt::format("{}", simulation.refused),
              hours_or_seconds(simulation.completion.mean_s)});
  }
  return waits.text() + "\n" + sums.text();
}

class Simulate {
 public:
  Simulate(const SimulateFlags& flags, const Talk& talk) : flags_(flags), talk_(talk) {}

  int run() {
    if (flags_.list_policies) {
      if (talk_.json) {
        print_json(policies_json());
      } else {
        fmt::print("{}", policies_text());
      }
      return kOk;
    }
    if (flags_.site.empty())
      throw_invalid("name the site file: stretto cluster simulate site.toml");
    if (flags_.trace.empty()) throw_invalid("--trace is missing: a file with jobs");
    check_files();
    read();
    for (const std::string& policy : flags_.policies) cluster::make_policy(policy);
    std::vector<cluster::Site> sites{cluster::read_site(flags_.site)};
    if (!flags_.compare.empty()) sites.push_back(cluster::read_site(flags_.compare));
    note_what_is_left_out(sites);
    if (flags_.fit) {
      fit(sites.front());
    } else {
      replay(sites);
    }
    end_progress();
    return show();
  }

 private:
  void check_files() const {
    constexpr std::array<std::string_view, 2> kEndings{".html", ".htm"};
    if (flags_.fit && !flags_.compare.empty()) throw_invalid("--fit excludes --compare");
    if (flags_.fit && flags_.no_departures) throw_invalid("--fit excludes --no-departures");
    if (flags_.fit && flags_.policies.size() > 1) throw_invalid("--fit takes one --policy");
    if (flags_.output.empty()) return;
    const NamedFile output{"--output", flags_.output};
    check_ending(output, kEndings);
    check_outputs(std::array{output},
                  std::array{NamedFile{"SITE", flags_.site}, NamedFile{"--trace", flags_.trace},
                             NamedFile{"--compare", flags_.compare},
                             NamedFile{"--throughputs", flags_.throughputs}});
  }

  void read() {
    if (!flags_.throughputs.empty()) rates_ = cluster::read_throughputs(flags_.throughputs);
    trace_ = cluster::read_trace(flags_.trace,
                                 {.format = flags_.format,
                                  .throughputs = flags_.throughputs.empty() ? nullptr : &rates_,
                                  .reference_kind = flags_.reference});
    talk_.detail(
        fmt::format("{}: {} jobs, format {}", flags_.trace, trace_.jobs.size(), trace_.format));
  }

  void note_what_is_left_out(const std::vector<cluster::Site>& sites) {
    for (const cluster::Site& site : sites) {
      for (const std::string& text : cluster::not_simulated(site, trace_)) {
        notes_.push_back(fmt::format("{}: {}", site.file, text));
        talk_.warn(notes_.back());
      }
    }
  }

  cluster::SimulateOptions options(const std::string& policy) {
    return {.policy = policy,
            .seed = static_cast<uint64_t>(flags_.seed),
            .inflate = flags_.inflate,
            .departures = !flags_.no_departures,
            .urgent = flags_.urgent,
            .checkpoint_ms = static_cast<int64_t>(flags_.checkpoint_s * 1000),
            .throughputs = flags_.throughputs.empty() ? nullptr : &rates_,
            .reference_kind = flags_.reference,
            .keep_times = flags_.times && talk_.json,
            .progress = [this, policy](double fraction) {
              if (bar_) bar_(policy.empty() ? "simulate" : policy, fraction);
            }};
  }

  void replay(const std::vector<cluster::Site>& sites) {
    std::vector<std::string> policies = flags_.policies;
    if (policies.empty()) policies.emplace_back();
    for (const cluster::Site& site : sites) {
      const std::string name = site.name.empty() ? site.file : site.name;
      for (const std::string& policy : policies) {
        results_.push_back({name, cluster::simulate(site, trace_, options(policy))});
      }
    }
  }

  void fit(const cluster::Site& site) {
    const std::string policy = flags_.policies.empty() ? "" : flags_.policies.front();
    const cluster::SimulateOptions search = options(policy);
    fit_ = cluster::fit_site(site, trace_, search);
    const std::string name = site.name.empty() ? site.file : site.name;
    results_.push_back({name + " now", fit_->simulation_before});
    results_.push_back({name + " fitted", fit_->simulation_best});
  }

  nlohmann::json json() const {
    nlohmann::json runs = nlohmann::json::array();
    for (const Result& result : results_) {
      nlohmann::json run = cluster::to_json(result.simulation);
      run["site"] = result.site;
      runs.push_back(std::move(run));
    }
    return {{"stretto", version()},
            {"site", flags_.site},
            {"trace", flags_.trace},
            {"format", trace_.format},
            {"jobs", trace_.jobs.size()},
            {"seed", flags_.seed},
            {"inflate", flags_.inflate},
            {"urgent", flags_.urgent},
            {"departures", !flags_.no_departures},
            {"notes", notes_},
            {"simulations", runs},
            {"fit", fit_ ? cluster::to_json(*fit_) : nlohmann::json()},
            {"page", flags_.output.empty() ? nlohmann::json() : nlohmann::json(flags_.output)}};
  }

  int show() {
    const nlohmann::json result = json();
    if (!flags_.output.empty()) {
      write_file(flags_.output, report::simulation_html(result.dump(
                                    -1, ' ', false, nlohmann::json::error_handler_t::replace)));
      talk_.note(fmt::format("wrote {}", flags_.output));
    }
    if (talk_.json) {
      print_json(result);
      return kOk;
    }
    fmt::print("{}", results_text(results_, !flags_.no_departures));
    if (fit_) {
      fmt::print("\n{} of {} settings tried, at the cost of {:.1f} simulations:\n",
                 fit_->tried.size(), fit_->grid_size, fit_->runs);
      for (const std::string& change : fit_->changes) fmt::print("  {}\n", change);
    }
    for (const Result& each : results_) {
      for (const std::string& reason : each.simulation.reasons) {
        talk_.note(fmt::format("refused: {}", reason));
      }
    }
    return kOk;
  }

  const SimulateFlags& flags_;
  const Talk& talk_;
  std::function<void(std::string_view, double)> bar_ = progress_bar(talk_);
  cluster::Throughputs rates_;
  cluster::Trace trace_;
  std::vector<std::string> notes_;
  std::vector<Result> results_;
  std::optional<cluster::Fit> fit_;
};

}  // namespace

std::function<int()> set_up_cluster_simulate(Command& command, const Context& context) {
  auto flags = std::make_shared<SimulateFlags>();
  std::vector<std::string> formats;
  for (const cluster::TraceFormat& format : cluster::trace_formats()) {
    formats.emplace_back(format.name);
  }
  add_option(command, "site", &flags->site, "SITE", "The site file");
  add_option(command, "--trace", &flags->trace, "FILE",
             "The jobs: a public trace, or sacct's output");
  add_option(command, "--trace-format", &flags->format, "FORMAT",
             "Its format; found by the first line if not given", {.one_of = formats});
  add_option(command, "--policy", &flags->policies, "P,...",
             "Policies, each of parts joined by +; without it, as the site says");
  add_flag(command, "--policies", &flags->list_policies, "List the parts of policies, and exit");
  add_option(command, "--compare", &flags->compare, "SITE", "Another site file, for the same jobs");
  add_option(command, "--seed", &flags->seed, "N", "Of everything that is drawn",
             {.show_default = true, .range = Range{0, 1e15}});
  add_option(command, "--inflate", &flags->inflate, "X",
             "So many times as many jobs, drawn from the trace; without departures, so many times "
             "the chips",
             {.show_default = true, .range = Range{0.001, 1000}});
  add_flag(command, "--no-departures", &flags->no_departures,
           "Jobs come in random order and never end: how full the site gets");
  add_option(command, "--urgent", &flags->urgent, "PART",
             "So large a part of the jobs is urgent, drawn",
             {.show_default = true, .range = Range{0, 1}});
  add_option(command, "--checkpoint", &flags->checkpoint_s, "SECONDS",
             "Jobs save their state so often; 0: preempted ones start from the beginning",
             {.show_default = true, .range = Range{0, 1e9}});
  add_option(command, "--throughputs", &flags->throughputs, "FILE",
             "Steps per second by chip kind and model, as Gavel's JSON");
  add_option(command, "--reference", &flags->reference, "KIND",
             "The chip kind on which the trace was measured", {.show_default = true});
  add_flag(command, "--fit", &flags->fit,
           "Search sizes of groups and the reserve for these jobs, and say what would change");
  add_flag(command, "--times", &flags->times, "With --json: also when each job started and ended");
  add_option(command, "-o,--output", &flags->output, "FILE", "An HTML page with the results");
  return [flags, context] { return Simulate(*flags, *context.talk).run(); };
}

}  // namespace stretto::cli
