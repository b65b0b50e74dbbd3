// How tuning a model ended: which program was kept after a comparison as a whole. The tuning cache
// remembers it, so that the next run neither measures nor compares.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stretto/kernels/family.h"
#include "stretto/runtime/measure_model.h"
#include "stretto/tune/tuning_cache.h"

namespace stretto::runtime {

struct Verdict {
  double budget_s = 0;  // that the run had which found it
  // Hash of the plan (plan() in compile.h) that the tuning cache gave at the end of that run.
  std::string plan;
  bool default_kept = false;
  Contest contest;  // the tuned program first; no rounds when both programs were the same
};

// Verdicts are kept per plan of the default program, which nothing was measured for, per target and
// per machine: another model, another set of forced kernels and another machine that shares the
// file have other keys.
std::string verdict_key(std::string_view default_plan, const kernels::Target& target);

// The verdict on the program that `plan` describes; none where the tuning cache has none, where
// it gave another program then, and where its text cannot be read.
std::optional<Verdict> find_verdict(const tune::TuningCache& cache, std::string_view default_plan,
                                    std::string_view plan, const kernels::Target& target);

// A tuning cache with nothing but this verdict; `verdict.plan` becomes the hash of `plan`.
tune::TuningCache verdict_entry(Verdict verdict, std::string_view default_plan,
                                std::string_view plan, const kernels::Target& target);

// Whether the tuning cache has a verdict on any model.
bool has_verdicts(const tune::TuningCache& cache);

}  // namespace stretto::runtime
