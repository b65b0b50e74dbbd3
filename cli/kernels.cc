// stretto kernels | stretto kernels conv2d --input 1x64x56x56 --kernel 3
#include "stretto/kernels/family.h"

#include <CLI/CLI.hpp>

#include <memory>

#include "problems.h"
#include "stretto/base/cpu.h"
#include "stretto/kernels/workbench.h"
#include "table.h"
#include "verbs.h"

namespace stretto::cli {
namespace {

using kernels::Family;
using kernels::Fit;

struct Flags {
  int threads = 1;
  std::string isa, accuracy = "default";
  double seconds = 1;
};

int list_families() {
  Table table({"family", "kernels, the reference last"});
  for (const Family* family : kernels::families()) {
    std::string rows;
    for (int r = 0; r < family->rows; ++r)
      rows += (r ? " " : "") + std::string(family->row_name(r));
    table.row({std::string(family->name), rows});
  }
  fmt::print("{}", table.text());
  return kOk;
}

struct Timed {
  int row;
  double seconds;
  double difference;
};

// Every fitting row checked against the reference and timed, all in one interleaved measurement.
std::vector<Timed> time_rows(const Family& family, const void* problem, double seconds) {
  std::vector<int> rows;
  for (int r = 0; r < family.rows; ++r) {
    if (family.fits(r, problem).ok) rows.push_back(r);
  }
  kernels::Workbench bench(family, problem);
  std::vector<Timed> timed;
  for (int r : rows) timed.push_back({r, 0, bench.check(r).relative_to_max});
  const std::vector<double> best = bench.time(rows, {.budget_s = seconds});
  for (size_t i = 0; i < rows.size(); ++i) timed[i].seconds = best[i];
  return timed;
}

int time_family(const Family& family, const Flags& flags,
                const std::function<ProblemBytes(const kernels::Target&)>& build) {
  kernels::Target target{};
  target.isa = flags.isa.empty() ? usable_isa() : parse_isa(flags.isa);
  if (target.isa > cpu_info().isa) {
    throw_unsupported("--isa {}: this processor has {} at best", flags.isa,
                      isa_name(cpu_info().isa));
  }
  target.accuracy = kernels::parse_accuracy(flags.accuracy);
  target.threads = flags.threads;
  const ProblemBytes problem = build(target);
  const double flops = family.flops(problem.data());
  const double peak = peak_flops(target.isa) * target.threads;
  fmt::print("{}\npeak {:.1f} GFLOP/s on {} thread{}\n\n", family.key(problem.data()), peak / 1e9,
             target.threads, target.threads == 1 ? "" : "s");

  const std::vector<Timed> timed = time_rows(family, problem.data(), flags.seconds);
  if (timed.empty()) kernels::default_row(family, problem.data());  // throws, with every reason
  std::vector<double> seconds;
  for (const Timed& t : timed) seconds.push_back(t.seconds);
  const int preferred_row = kernels::default_row(family, problem.data());
  int preferred = -1;
  for (size_t i = 0; i < timed.size(); ++i) {
    if (timed[i].row == preferred_row) preferred = static_cast<int>(i);
  }
  const int winner = timed[static_cast<size_t>(tune::choose(seconds, preferred))].row;

  Table table({"kernel", ">ms", ">GFLOP/s", ">of peak", ">difference", "why not"});
  for (int r = 0, t = 0; r < family.rows; ++r) {
    const std::string name(family.row_name(r));
    const Fit fit = family.fits(r, problem.data());
    if (!fit.ok) {
      table.row({name, "-", "-", "-", "-", fit.reason});
      continue;
    }
    const Timed& row = timed[static_cast<size_t>(t++)];
    const double rate = flops / row.seconds;
    table.row({name, milliseconds(row.seconds * 1e3),
               flops > 0 ? fmt::format("{:.1f}", rate / 1e9) : "-",
               flops > 0 ? fmt::format("{:.0f} %", 100 * rate / peak) : "-",
               fmt::format("{:.1e}", row.difference), r == winner ? "(wins)" : ""});
  }
  fmt::print("{}\n{} wins", table.text(), family.row_name(winner));
  fmt::print("{}\n", winner == preferred_row ? ", as the built-in order expects"
                                             : fmt::format("; the built-in order expects {}",
                                                           family.row_name(preferred_row)));
  return kOk;
}

}  // namespace

std::function<int()> set_up_kernels(CLI::App& app, const Context&) {
  auto chosen = std::make_shared<std::function<int()>>(list_families);
  app.require_subcommand(0, 1);
  for (const ProblemKind& kind : problem_kinds()) {
    const Family& family = kernels::family(kind.family);
    CLI::App* sub = app.add_subcommand(std::string(kind.family),
                                       fmt::format("Problems of the {} kernels", kind.family));
    auto flags = std::make_shared<Flags>();
    sub->add_option("--threads", flags->threads)->capture_default_str()->check(CLI::Range(1, 1024));
    sub->add_option("--isa", flags->isa, "portable, avx2 or avx512 (default: the best usable)");
    sub->add_option("--accuracy", flags->accuracy, "strict, default or fast")
        ->capture_default_str();
    sub->add_option("--seconds", flags->seconds, "Of timing for all kernels together")
        ->capture_default_str()
        ->check(CLI::Range(0.001, 600.0));
    sub->parse_complete_callback([chosen, flags, &family, build = kind.set_up(*sub)] {
      *chosen = [flags, &family, build] { return time_family(family, *flags, build); };
    });
  }
  return [chosen] { return (*chosen)(); };
}

}  // namespace stretto::cli
