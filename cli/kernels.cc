// stretto kernels | stretto kernels conv2d --input 1x64x56x56 --kernel 3
#include "stretto/base/machine_rates.h"
#include "stretto/kernels/family.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "problems.h"
#include "stretto/base/cpu.h"
#include "stretto/kernels/workbench.h"
#include "stretto/tune/choose.h"
#include "table.h"
#include "verbs.h"

namespace stretto::cli {
namespace {

using kernels::Family;
using kernels::Fit;
using nlohmann::json;

struct KernelsFlags {
  int threads = 1;
  std::string isa, accuracy = "default";
  double seconds = 1;
  bool unchecked = false;
};

int list_families(const Talk& talk) {
  Table table({"family", "kernels, the reference last"});
  json list = json::array();
  for (const Family* family : kernels::families()) {
    std::vector<std::string> names;
    for (int r = 0; r < family->rows; ++r) names.emplace_back(family->row_name(r));
    table.row({std::string(family->name), fmt::format("{}", fmt::join(names, " "))});
    list.push_back({{"family", family->name}, {"kernels", names}});
  }
  if (talk.json) {
    print_json({{"families", list}});
  } else {
    fmt::print("{}", table.text());
  }
  return kOk;
}

struct Timed {
  int row;
  double seconds;
  double difference;  // from the reference; -1: not compared
};

// Every fitting row checked against the reference and timed, all in one interleaved measurement.
// Without a check the reference takes part only where nothing else fits.
std::vector<Timed> time_rows(const Family& family, const void* problem, double seconds,
                             bool checked) {
  std::vector<int> rows;
  for (int r = 0; r < family.rows; ++r) {
    if (family.fits(r, problem).ok) rows.push_back(r);
  }
  if (!checked && rows.size() > 1) std::erase(rows, family.reference);
  kernels::Workbench bench(family, problem);
  std::vector<Timed> timed;
  for (int r : rows) timed.push_back({r, 0, checked ? bench.check(r).relative_to_max : -1});
  const std::vector<double> best = bench.time(rows, {.budget_s = seconds});
  for (size_t i = 0; i < rows.size(); ++i) timed[i].seconds = best[i];
  return timed;
}

// "portable|avx2|avx512"
std::string isa_words() {
  std::string words;
  for (const Isa isa : kIsas) {
    words += words.empty() ? "" : "|";
    words += isa_name(isa);
  }
  return words;
}

kernels::Target target(const KernelsFlags& flags) {
  kernels::Target target{};
  target.isa = flags.isa.empty() ? usable_isa() : parse_own_isa(flags.isa);
  if (target.isa > cpu_info().isa) {
    throw_unsupported("--isa {}: this processor has {} at best", flags.isa,
                      isa_name(cpu_info().isa));
  }
  target.accuracy = kernels::parse_accuracy(flags.accuracy);
  target.threads = flags.threads;
  return target;
}

// One row of a family, for the problem asked about.
struct KernelResult {
  std::string name, reason;            // reason: why it does not fit; empty when it does
  double seconds = 0, difference = 0;  // below 0: not timed, not compared
  double expected = 0;                 // fraction of the peak that the built-in order counts on
};

struct Outcome {
  std::string problem;
  int threads;
  double flops, peak;  // peak: floating point operations per second of all threads
  std::vector<KernelResult> kernels;
  std::string winner, built_in;
};

Outcome time_family(const Family& family, const ProblemBytes& problem, const KernelsFlags& flags) {
  const kernels::Target on = target(flags);
  Outcome outcome{.problem = family.key(problem.data()),
                  .threads = on.threads,
                  .flops = family.flops(problem.data()),
                  .peak = peak_flops(on.isa) * on.threads};
  const std::vector<Timed> timed =
      time_rows(family, problem.data(), flags.seconds, !flags.unchecked);
  const int built_in = kernels::default_row(family, problem.data());  // throws where none fits
  std::vector<double> seconds;
  int preferred = -1;
  for (size_t i = 0; i < timed.size(); ++i) {
    seconds.push_back(timed[i].seconds);
    if (timed[i].row == built_in) preferred = static_cast<int>(i);
  }
  outcome.winner =
      family.row_name(timed[static_cast<size_t>(tune::choose(seconds, preferred))].row);
  outcome.built_in = family.row_name(built_in);
  for (int r = 0, t = 0; r < family.rows; ++r) {
    KernelResult result{.name = std::string(family.row_name(r))};
    if (const Fit fit = family.fits(r, problem.data()); fit.ok) {
      const bool is_timed = t < static_cast<int>(timed.size()) && timed[t].row == r;
      result.expected = fit.expected;
      result.seconds = is_timed ? timed[t].seconds : -1;
      result.difference = is_timed ? timed[t].difference : -1;
      t += is_timed;
    } else {
      result.reason = fit.reason;
    }
    outcome.kernels.push_back(std::move(result));
  }
  return outcome;
}

void print_outcome(const Outcome& outcome) {
  fmt::print("{}\npeak {:.1f} GFLOP/s on {} thread{}\n\n", outcome.problem, outcome.peak / 1e9,
             outcome.threads, outcome.threads == 1 ? "" : "s");
  Table table({"kernel", ">ms", ">GFLOP/s", ">of peak", ">difference", "why not"});
  for (const KernelResult& kernel : outcome.kernels) {
    if (!kernel.reason.empty()) {
      table.row({kernel.name, "-", "-", "-", "-", kernel.reason});
      continue;
    }
    if (kernel.seconds < 0) {
      table.row({kernel.name, "-", "-", "-", "-", "not timed without a check"});
      continue;
    }
    const double rate = outcome.flops / kernel.seconds;
    table.row({kernel.name, milliseconds(kernel.seconds * 1e3),
               outcome.flops > 0 ? fmt::format("{:.1f}", rate / 1e9) : "-",
               outcome.flops > 0 ? fmt::format("{:.0f} %", 100 * rate / outcome.peak) : "-",
               kernel.difference < 0 ? "-" : fmt::format("{:.1e}", kernel.difference),
               kernel.name == outcome.winner ? "(wins)" : ""});
  }
  fmt::print("{}\n{} wins{}\n", table.text(), outcome.winner,
             outcome.winner == outcome.built_in
                 ? ", as the built-in order expects"
                 : fmt::format("; the built-in order expects {}", outcome.built_in));
}

json to_json(const Outcome& outcome) {
  json rows = json::array();
  for (const KernelResult& kernel : outcome.kernels) {
    json row{{"name", kernel.name}, {"fits", kernel.reason.empty()}};
    if (kernel.reason.empty()) {
      row["expected"] = kernel.expected;
      if (kernel.difference >= 0) row["difference"] = kernel.difference;
      if (kernel.seconds >= 0) row["seconds"] = kernel.seconds;
      if (kernel.seconds >= 0 && outcome.flops > 0)
        row["flops_per_s"] = outcome.flops / kernel.seconds;
    } else {
      row["reason"] = kernel.reason;
    }
    rows.push_back(std::move(row));
  }
  return {{"problem", outcome.problem},
          {"threads", outcome.threads},
          {"flops", outcome.flops},
          {"peak_flops_per_s", outcome.peak},
          {"kernels", rows},
          {"winner", outcome.winner},
          {"built_in_order", outcome.built_in}};
}

int run_kernels(const Family& family, const KernelsFlags& flags, const Talk& talk,
                const std::function<ProblemBytes(const kernels::Target&)>& build) {
  const Outcome outcome = time_family(family, build(target(flags)), flags);
  if (talk.json) {
    print_json(to_json(outcome));
  } else {
    print_outcome(outcome);
  }
  return kOk;
}

}  // namespace

std::function<int()> set_up_kernels(Command& command, const Context& context) {
  for (const ProblemKind& kind : problem_kinds()) {
    const Family& family = kernels::family(kind.family);
    Command& sub = add_command(
        command, {.name = std::string(kind.family),
                  .summary = fmt::format("Time the {} kernels on a problem", kind.family),
                  .examples = command.examples});
    auto flags = std::make_shared<KernelsFlags>();
    const auto build = kind.set_up(sub);
    const char* const group = "Timing";
    add_option(sub, "--threads", &flags->threads, "N", "Threads to run with",
               {.group = group, .show_default = true, .range = Range{1, 1024}});
    add_option(sub, "--isa", &flags->isa, isa_words(),
               "Instruction set; the best usable one by default", {.group = group});
    add_option(sub, "--accuracy", &flags->accuracy, "strict|default|fast",
               "Which rounding errors are allowed", {.group = group, .show_default = true});
    add_option(sub, "--seconds", &flags->seconds, "SECONDS",
               "Time to spend on all kernels together",
               {.group = group, .show_default = true, .range = Range{0.001, 600}});
    add_flag(sub, "--unchecked", &flags->unchecked,
             "Do not compare with the reference, which takes long, nor time it", {.group = group});
    add_general_options(sub, context);
    sub.run = [flags, &family, build, talk = context.talk] {
      return run_kernels(family, *flags, *talk, build);
    };
  }
  return [talk = context.talk] { return list_families(*talk); };
}

}  // namespace stretto::cli
