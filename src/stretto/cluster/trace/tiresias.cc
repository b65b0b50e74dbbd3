// The traces of Tiresias (NSDI 2019).
#include "stretto/cluster/trace/formats.h"

namespace stretto::cluster {

bool is_tiresias(std::string_view line) {
  return line.starts_with("job_id,num_gpu,submit_time,iterations,model_name,duration");
}

void read_tiresias(std::string_view text, const TraceOptions&, Trace& trace) {
  Lines lines(text, trace.file, ',');
  const int chips = lines.needed("num_gpu"), submit = lines.needed("submit_time");
  const int duration = lines.needed("duration"), model = lines.needed("model_name");
  Names models(trace.models);
  while (lines.next()) {
    Job job;
    job.submit_ms = lines.seconds_as_ms(submit);
    job.duration_ms = job.predicted_ms = lines.seconds_as_ms(duration);
    job.chips = static_cast<int32_t>(lines.whole(chips, 1, 1 << 20));
    job.model = models.index(lines.cell(model));
    trace.jobs.push_back(job);
  }
}

}  // namespace stretto::cluster
