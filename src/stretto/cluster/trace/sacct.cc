// What `sacct -a -X -P -o JobID,User,Partition,Submit,ElapsedRaw,TimelimitRaw,ReqTRES,AllocTRES`
// prints. Rows of steps, and jobs that never ran, are passed over.
#include <fmt/format.h>

#include <charconv>

#include "stretto/cluster/trace/formats.h"

namespace stretto::cluster {
namespace {

// The number behind `name` in "billing=8,cpu=8,gres/gpu=4,mem=64G,node=1"; -1: it is not there.
double count_of(std::string_view resources, std::string_view name) {
  while (!resources.empty()) {
    const size_t end = resources.find(',');
    std::string_view item = resources.substr(0, end);
    resources.remove_prefix(end == std::string_view::npos ? resources.size() : end + 1);
    if (!item.starts_with(name) || item.size() <= name.size() || item[name.size()] != '=') continue;
    item.remove_prefix(name.size() + 1);
    double value = 0;
    const auto [stop, problem] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (problem != std::errc()) return -1;
    const std::string_view unit(stop, static_cast<size_t>(item.data() + item.size() - stop));
    if (unit.empty()) return value;
    const size_t step = std::string_view("KMGTP").find(unit[0]);
    for (size_t i = 2; step != std::string_view::npos && i <= step; ++i) value *= 1024;
    return step == 0 ? value / 1024 : value;  // in M
  }
  return -1;
}

// "1-02:03:04" or "02:03:04" as seconds; -1: it is neither.
int64_t parse_elapsed(std::string_view text) {
  int64_t days = 0;
  const size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto [end, problem] = std::from_chars(text.data(), text.data() + dash, days);
    if (problem != std::errc() || end != text.data() + dash || days < 0 || days > 100000) return -1;
    text.remove_prefix(dash + 1);
  }
  if (text.size() != 8) return -1;
  const int64_t time = parse_date(fmt::format("1970-01-01 {}", text));
  return time < 0 ? -1 : days * 86400 + time;
}

// Whole chips of all kinds: "gres/gpu" counts those of "gres/gpu:v100" too. A site whose
// AccountingStorageTRES names kinds alone has these alone.
double chips_of(std::string_view resources) {
  const double all = count_of(resources, "gres/gpu");
  if (all >= 0) return all;
  double sum = 0;
  while (!resources.empty()) {
    const size_t end = resources.find(',');
    const std::string_view item = resources.substr(0, end);
    resources.remove_prefix(end == std::string_view::npos ? resources.size() : end + 1);
    if (!item.starts_with("gres/gpu:")) continue;
    sum += std::max(0.0, count_of(item, item.substr(0, item.find('='))));
  }
  return sum;
}

// The kind in "gres/gpu:v100=8"; empty: any.
std::string_view kind_of(std::string_view resources) {
  const size_t at = resources.find("gres/gpu:");
  if (at == std::string_view::npos) return "";
  resources.remove_prefix(at + std::string_view("gres/gpu:").size());
  return resources.substr(0, resources.find('='));
}

}  // namespace

bool is_sacct(std::string_view line) {
  return line.find('|') != std::string_view::npos && line.find("JobID") != std::string_view::npos &&
         line.find("Submit") != std::string_view::npos;
}

void read_sacct(std::string_view text, const TraceOptions&, Trace& trace) {
  Lines lines(text, trace.file, '|');
  const int id = lines.needed("JobID"), submit = lines.needed("Submit");
  const int raw = lines.column("ElapsedRaw");
  const int elapsed = raw < 0 ? lines.needed("Elapsed") : raw;
  const int allocated = lines.column("AllocTRES"), asked = lines.column("ReqTRES");
  if (allocated < 0 && asked < 0) lines.needed("AllocTRES");
  const int limit = lines.column("TimelimitRaw"), user = lines.column("User");
  const int partition = lines.column("Partition");
  Names users(trace.users), queues(trace.queues);
  std::unordered_map<std::string, int> sets;
  while (lines.next()) {
    if (lines.cell(id).find('.') != std::string_view::npos) continue;  // a step of a job
    Job job;
    if (raw >= 0) {
      job.duration_ms = lines.seconds_as_ms(raw);
    } else {
      const int64_t time = parse_elapsed(lines.cell(elapsed));
      if (time < 0) lines.fail("Elapsed is not like 1-02:03:04 or 02:03:04");
      job.duration_ms = time * 1000;
    }
    if (job.duration_ms == 0) continue;  // it never ran
    const int64_t time = parse_date(lines.cell(submit));
    if (time < 0) lines.fail("Submit is not like 2024-01-02T03:04:05");
    job.submit_ms = time * 1000;
    std::string_view resources = asked < 0 ? "" : lines.cell(asked);
    if (resources.empty() && allocated >= 0) resources = lines.cell(allocated);
    const auto within = [&](double count, double most, std::string_view what) {
      if (count > most) lines.fail(fmt::format("{} {} are more than {}", count, what, most));
      return std::max(0.0, count);
    };
    job.chips = static_cast<int32_t>(within(chips_of(resources), 1 << 20, "chips"));
    const std::string_view kind = kind_of(resources);
    if (!kind.empty()) {
      const auto [at, added] =
          sets.try_emplace(std::string(kind), static_cast<int>(trace.kind_sets.size()));
      if (added) trace.kind_sets.push_back({std::string(kind)});
      job.kinds = at->second;
    }
    job.cores_milli =
        static_cast<int32_t>(within(count_of(resources, "cpu"), 1 << 20, "cores") * 1000);
    job.memory_mb = static_cast<int64_t>(within(count_of(resources, "mem"), 1e12, "MB"));
    job.predicted_ms = job.duration_ms;
    if (limit >= 0 && !lines.cell(limit).empty() && lines.cell(limit)[0] >= '0' &&
        lines.cell(limit)[0] <= '9') {
      job.predicted_ms = std::max(job.duration_ms, lines.whole(limit, 0, 1 << 28) * 60000);
    }
    if (user >= 0) job.user = users.index(lines.cell(user));
    if (partition >= 0) job.queue = queues.index(lines.cell(partition));
    trace.jobs.push_back(job);
  }
}

}  // namespace stretto::cluster
