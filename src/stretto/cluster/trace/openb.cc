// Alibaba's GPU trace of 2023 ("openb"), its list of pods. A pod takes cores, memory and one part
// of one chip, or whole chips; gpu_spec names the chips that will do, with | between them.
#include <fmt/format.h>

#include "stretto/cluster/trace/formats.h"

namespace stretto::cluster {
namespace {

std::vector<std::string> split_kinds(std::string_view text) {
  std::vector<std::string> kinds;
  while (!text.empty()) {
    const size_t end = text.find('|');
    if (end != 0) kinds.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return kinds;
}

}  // namespace

bool is_openb(std::string_view line) {
  return line.starts_with("name,cpu_milli,memory_mib,num_gpu,gpu_milli");
}

void read_openb(std::string_view text, const TraceOptions&, Trace& trace) {
  Lines lines(text, trace.file, ',');
  const int cores = lines.needed("cpu_milli"), memory = lines.needed("memory_mib");
  const int chips = lines.needed("num_gpu"), milli = lines.needed("gpu_milli");
  const int spec = lines.column("gpu_spec"), qos = lines.column("qos");
  const int created = lines.column("creation_time"), deleted = lines.column("deletion_time");
  Names queues(trace.queues);
  std::unordered_map<std::string, int> sets;
  while (lines.next()) {
    Job job;
    job.cores_milli = static_cast<int32_t>(lines.whole(cores, 0, 1 << 30));
    job.memory_mb = lines.whole(memory, 0, int64_t{1} << 40);
    job.chips = static_cast<int32_t>(lines.whole(chips, 0, 1 << 20));
    job.chip_milli = static_cast<int32_t>(lines.whole(milli, 0, 1000));
    if (job.chips > 1 && job.chip_milli != 1000) {
      lines.fail("a pod with several chips takes 1000 thousandths of each");
    }
    if (job.chips > 0 && job.chip_milli == 0) lines.fail("gpu_milli is 0 with num_gpu above 0");
    if (job.chips == 0) job.chip_milli = 1000;
    if (spec >= 0 && !lines.cell(spec).empty()) {
      const auto [at, added] =
          sets.try_emplace(std::string(lines.cell(spec)), static_cast<int>(trace.kind_sets.size()));
      if (added) trace.kind_sets.push_back(split_kinds(lines.cell(spec)));
      job.kinds = at->second;
    }
    if (qos >= 0) job.queue = queues.index(lines.cell(qos));
    if (created >= 0) {
      job.submit_ms = lines.seconds_as_ms(created);
      const int64_t end =
          deleted < 0 || lines.cell(deleted).empty() ? job.submit_ms : lines.seconds_as_ms(deleted);
      if (end < job.submit_ms) lines.fail("deletion_time is before creation_time");
      job.duration_ms = end - job.submit_ms;
    }
    job.predicted_ms = job.duration_ms;
    trace.jobs.push_back(job);
  }
}

}  // namespace stretto::cluster
