// A trace: the jobs that a cluster was asked to run, from one of several public formats or from
// `sacct`. docs/howto/simulate.md lists the formats.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stretto::cluster {

// No time in a trace is beyond this: 31,000 years, so that sums of a few stay exact.
constexpr int64_t kLongestTime_ms = 1'000'000'000'000'000;

// What was asked for. Times are milliseconds; those of jobs that were cancelled before they started
// are not in a trace.
struct Job {
  int64_t submit_ms = 0;      // from the first one of the trace, at 0
  int64_t duration_ms = 0;    // on the chip that the trace was recorded on
  int64_t predicted_ms = 0;   // what the scheduler is told; the duration if nothing else is known
  int64_t deadline_ms = -1;   // on the same clock as submit_ms; -1: none
  int64_t memory_mb = 0;      // all chips together; 0: not said
  int32_t cores_milli = 0;    // all chips together, in thousandths of a core; 0: not said
  int32_t chips = 0;          // 0: runs on processors only
  int32_t chip_milli = 1000;  // of each chip, in thousandths; less than 1000 only with one chip
  int32_t kinds = 0;          // index of Trace::kind_sets
  int32_t queue = 0, user = 0, model = 0;  // indices of Trace::queues, users, models
};

struct Trace {
  std::string file, format;
  std::vector<Job> jobs;  // by submit_ms; those of one time in the order of the file
  std::vector<std::vector<std::string>> kind_sets{{}};  // chip kinds of which one will do; [0]: any
  std::vector<std::string> queues{""}, users{""}, models{""};  // [0]: not said
};

// Steps per second by chip kind and by (model, chips), as in Gavel's matrices.
struct Throughputs {
  std::map<std::string, std::map<std::string, double>> rates;  // kind -> "model|chips" -> steps/s
  // Where the model was not measured on so many chips, that on one chip. 0: not known.
  double rate(const std::string& kind, std::string_view model, int chips) const;
};

// Reads {"v100": {"('ResNet-50 (batch size 64)', 1)": {"null": 4.39, ...}, ...}, ...}; pairs of
// jobs on one chip are left out. Throws FormatError.
Throughputs read_throughputs(const std::string& path);
Throughputs parse_throughputs(std::string_view text, const std::string& file);

struct TraceOptions {
  std::string format;                        // a row of trace_formats(); empty: found by the header
  const Throughputs* throughputs = nullptr;  // for formats that count steps, not seconds
  std::string reference_kind = "v100";       // the chip on which steps become durations
};

struct TraceFormat {
  std::string_view name, summary;
  // Whether a file whose first line this is has the format.
  bool (*matches)(std::string_view first_line);
  // Adds the jobs of the text, at any times and in any order.
  void (*read)(std::string_view text, const TraceOptions& options, Trace& trace);
};

// Every format, in the order in which they are tried.
std::span<const TraceFormat> trace_formats();

// Throws FormatError with the file, the line and what was expected there; InvalidArgument for a
// format that does not exist.
Trace read_trace(const std::string& path, const TraceOptions& options = {});
Trace parse_trace(std::string_view text, const std::string& file, const TraceOptions& options = {});

}  // namespace stretto::cluster
