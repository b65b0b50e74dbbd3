// The traces of Chronus (SoCC 2021): jobs with a time by which they should end, and jobs without.
#include "stretto/cluster/trace/formats.h"

namespace stretto::cluster {

bool is_chronus(std::string_view line) {
  return line.starts_with("job_id,") && line.find("expect_time_list") != std::string_view::npos;
}

void read_chronus(std::string_view text, const TraceOptions&, Trace& trace) {
  Lines lines(text, trace.file, ',');
  const int chips = lines.needed("num_gpu"), submit = lines.needed("submit_time");
  const int duration = lines.needed("duration"), expected = lines.needed("expect_time_list");
  const int best_effort = lines.needed("best_effort"), model = lines.column("model_name");
  const int user = lines.column("user");
  Names users(trace.users), models(trace.models);
  while (lines.next()) {
    Job job;
    job.submit_ms = lines.seconds_as_ms(submit);
    job.duration_ms = job.predicted_ms = lines.seconds_as_ms(duration);
    job.chips = static_cast<int32_t>(lines.whole(chips, 0, 1 << 20));
    if (lines.whole(best_effort, 0, 1) == 0) {
      job.deadline_ms = job.submit_ms + lines.seconds_as_ms(expected);
    }
    if (user >= 0) job.user = users.index(lines.cell(user));
    if (model >= 0) job.model = models.index(lines.cell(model));
    trace.jobs.push_back(job);
  }
}

}  // namespace stretto::cluster
