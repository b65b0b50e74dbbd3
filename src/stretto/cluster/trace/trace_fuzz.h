// What holds for any text given as a trace, for the fuzzer and for the test of its corpus.
#pragma once

#include <string>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/cluster/trace/trace.h"

namespace stretto::cluster {

// A text is either a trace, whose jobs are in order and within the limits of trace.h, or refused
// with an error that names the file; one that begins with { is read as throughputs instead.
// Anything else throws InternalError. Returns the format; empty: it was refused.
inline std::string check_any_trace(std::string_view text) {
  Trace trace;
  try {
    if (text.starts_with('{')) {
      for (const auto& [kind, rates] : parse_throughputs(text, "fuzz.trace").rates) {
        for (const auto& [model, rate] : rates) STRETTO_CHECK(rate >= 0, "{} of {}", rate, model);
      }
      return "throughputs";
    }
    Throughputs rates;
    rates.rates["v100"]["a|1"] = 4.5;
    rates.rates["v100"]["b|1"] = 1e-3;
    trace = parse_trace(text, "fuzz.trace", {.throughputs = &rates});
  } catch (const FormatError& e) {
    STRETTO_CHECK(std::string_view(e.what()).starts_with("fuzz.trace"), "no file in '{}'",
                  e.what());
    return "";
  }
  const auto within = [](int64_t value, size_t count) {
    return value >= 0 && static_cast<size_t>(value) < count;
  };
  int64_t before = 0;
  for (const Job& job : trace.jobs) {
    const bool good =
        job.submit_ms >= before && job.submit_ms <= kLongestTime_ms && job.duration_ms >= 0 &&
        job.duration_ms <= kLongestTime_ms && job.predicted_ms >= 0 &&
        job.predicted_ms <= kLongestTime_ms && job.memory_mb >= 0 && job.cores_milli >= 0 &&
        job.chips >= 0 && job.chip_milli >= 1 && job.chip_milli <= 1000 &&
        (job.chips == 1 || job.chip_milli == 1000) && within(job.kinds, trace.kind_sets.size()) &&
        within(job.queue, trace.queues.size()) && within(job.user, trace.users.size()) &&
        within(job.model, trace.models.size());
    STRETTO_CHECK(good, "job {} of a {} trace is out of range", &job - trace.jobs.data(),
                  trace.format);
    before = job.submit_ms;
  }
  return trace.format;
}

}  // namespace stretto::cluster
