#include "stretto/cluster/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/cluster/trace/formats.h"

namespace stretto::cluster {
namespace {

constexpr TraceFormat kFormats[] = {
    {"openb", "Alibaba GPU 2023: pods with parts of chips, cores and memory", is_openb, read_openb},
    {"philly", "Microsoft Philly, the short form of Pollux and Sia", is_philly, read_philly},
    {"chronus", "Chronus: jobs with deadlines", is_chronus, read_chronus},
    {"tiresias", "Tiresias", is_tiresias, read_tiresias},
    {"gavel", "Gavel: steps of models, with a matrix of throughputs", is_gavel, read_gavel},
    {"sacct", "What sacct -P prints, with JobID, Submit, ElapsedRaw and AllocTRES", is_sacct,
     read_sacct},
};

std::string format_names() {
  std::string names;
  for (const TraceFormat& format : kFormats) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", format.name);
  }
  return names;
}

const TraceFormat& format_for(std::string_view text, const std::string& file,
                              const std::string& name) {
  std::string_view first = text.substr(0, text.find('\n'));
  if (first.starts_with("\xef\xbb\xbf")) first.remove_prefix(3);
  for (const TraceFormat& format : kFormats) {
    if (name.empty() ? format.matches(first) : format.name == name) return format;
  }
  if (!name.empty()) throw_invalid("trace format '{}': there are {}", name, format_names());
  throw FormatError(file, -1,
                    fmt::format("line 1: no known trace begins like this; pass --trace-format, one "
                                "of {}",
                                format_names()));
}

}  // namespace

std::span<const TraceFormat> trace_formats() { return kFormats; }

Trace parse_trace(std::string_view text, const std::string& file, const TraceOptions& options) {
  const TraceFormat& format = format_for(text, file, options.format);
  Trace trace;
  trace.file = file;
  trace.format = format.name;
  format.read(text, options, trace);
  if (trace.jobs.empty()) throw FormatError(file, -1, "there is no job in it");
  if (!std::ranges::is_sorted(trace.jobs, {}, &Job::submit_ms)) {  // most are
    std::ranges::stable_sort(trace.jobs, {}, &Job::submit_ms);
  }
  const int64_t first = trace.jobs.front().submit_ms;
  for (Job& job : trace.jobs) {
    job.submit_ms -= first;
    if (job.deadline_ms >= 0) job.deadline_ms -= first;
  }
  return trace;
}

Trace read_trace(const std::string& path, const TraceOptions& options) {
  return parse_trace(read_file(path), path, options);
}

}  // namespace stretto::cluster
