// Microsoft's Philly trace in the short form of the Pollux and Sia papers: when, for how long, on
// how many chips, and in which virtual cluster.
#include "stretto/cluster/trace/formats.h"

namespace stretto::cluster {

bool is_philly(std::string_view line) { return line.starts_with("timestamp,duration,num_gpus"); }

void read_philly(std::string_view text, const TraceOptions&, Trace& trace) {
  Lines lines(text, trace.file, ',');
  const int when = lines.needed("timestamp"), duration = lines.needed("duration");
  const int chips = lines.needed("num_gpus"), cluster = lines.column("cluster");
  Names queues(trace.queues);
  while (lines.next()) {
    Job job;
    const int64_t time = parse_date(lines.cell(when));
    if (time < 0) lines.fail("timestamp is not like 2017-10-09 07:01:55");
    job.submit_ms = time * 1000;
    job.duration_ms = job.predicted_ms = lines.seconds_as_ms(duration);
    job.chips = static_cast<int32_t>(lines.whole(chips, 1, 1 << 20));
    if (cluster >= 0) job.queue = queues.index(lines.cell(cluster));
    trace.jobs.push_back(job);
  }
}

}  // namespace stretto::cluster
