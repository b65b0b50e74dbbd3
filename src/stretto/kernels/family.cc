#include "stretto/kernels/family.h"

#include <fmt/format.h>

#include "stretto/base/error.h"

namespace stretto::kernels {

std::string_view accuracy_name(Accuracy accuracy) {
  switch (accuracy) {
    case Accuracy::kStrict:
      return "strict";
    case Accuracy::kDefault:
      return "default";
    case Accuracy::kFast:
      return "fast";
  }
  return "default";
}

Accuracy parse_accuracy(std::string_view name) {
  for (Accuracy a : {Accuracy::kStrict, Accuracy::kDefault, Accuracy::kFast}) {
    if (name == accuracy_name(a)) return a;
  }
  throw_invalid("accuracy: expected strict, default or fast, got '{}'", name);
}

std::string target_text(const Target& target) {
  const std::string width =
      target.panel_width == 0 ? "" : fmt::format("/p{}", static_cast<int>(target.panel_width));
  return fmt::format("{}/{}/t{}{}", isa_name(target.isa), accuracy_name(target.accuracy),
                     target.threads, width);
}

void set_panel_width(const Family& family, void* problem, int width) {
  // The target lies in the problem, which is the caller's to write.
  const_cast<Target&>(family.target(problem)).panel_width = static_cast<int16_t>(width);
}

const Family& family(std::string_view name) {
  std::string known;
  for (const Family* f : families()) {
    if (f->name == name) return *f;
    known += known.empty() ? "" : ", ";
    known += f->name;
  }
  throw_invalid("kernels: no operator '{}'; there are: {}", name, known);
}

int find_row(const Family& family, std::string_view row) {
  for (int r = 0; r < family.rows; ++r) {
    if (family.row_name(r) == row) return r;
  }
  return -1;
}

void run_shares(const Family& family, int row, const void* problem, const Args& args,
                const Worker& worker) {
  Worker phase = worker;
  const int phases = family.phases(row, problem);
  for (phase.phase = 0; phase.phase < phases; ++phase.phase) {
    if (phase.phase > 0) worker.sync();
    family.run(row, problem, args, phase);
  }
}

int default_row(const Family& family, const void* problem) {
  int best = -1;
  double expected = -1;
  std::string reasons;
  for (int r = 0; r < family.rows; ++r) {
    const Fit fit = family.fits(r, problem);
    if (!fit.ok) {
      reasons += fmt::format("\n  {}: {}", family.row_name(r), fit.reason);
    } else if (fit.expected > expected) {
      best = r;
      expected = fit.expected;
    }
  }
  if (best < 0) throw_unsupported("no kernel fits {}:{}", family.key(problem), reasons);
  return best;
}

}  // namespace stretto::kernels
