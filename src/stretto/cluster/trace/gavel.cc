// The traces of Gavel (OSDI 2020): a job is a number of steps of a model; its duration follows from
// the matrix of throughputs.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/cluster/trace/formats.h"

namespace stretto::cluster {
namespace {

constexpr int kCells = 7;

std::string rate_key(std::string_view model, std::string_view chips) {
  return fmt::format("{}|{}", model, chips);
}

// "('ResNet-50 (batch size 64)', 1)" -> "ResNet-50 (batch size 64)|1"; empty: it is not like this.
std::string parse_key(std::string_view key) {
  const size_t end = key.rfind("', ");
  if (!key.starts_with("('") || !key.ends_with(")") || end == std::string_view::npos || end < 2) {
    return "";
  }
  return rate_key(key.substr(2, end - 2), key.substr(end + 3, key.size() - end - 4));
}

}  // namespace

double Throughputs::rate(const std::string& kind, std::string_view model, int chips) const {
  const auto of_kind = rates.find(kind);
  if (of_kind == rates.end()) return 0;
  auto found = of_kind->second.find(rate_key(model, std::to_string(chips)));
  if (found == of_kind->second.end()) found = of_kind->second.find(rate_key(model, "1"));
  return found == of_kind->second.end() ? 0 : found->second;
}

Throughputs read_throughputs(const std::string& path) {
  return parse_throughputs(read_file(path), path);
}

Throughputs parse_throughputs(std::string_view text, const std::string& path) {
  const nlohmann::json matrix = nlohmann::json::parse(text, nullptr, false);
  if (!matrix.is_object()) throw FormatError(path, -1, "expected a JSON object by chip kind");
  Throughputs throughputs;
  for (const auto& [kind, models] : matrix.items()) {
    if (!models.is_object()) {
      throw FormatError(path, -1, fmt::format("'{}': expected an object by model", kind));
    }
    for (const auto& [key, values] : models.items()) {
      const std::string name = parse_key(key);
      const auto alone = values.is_object() ? values.find("null") : values.end();
      if (name.empty() || !values.is_object() || alone == values.end() || !alone->is_number() ||
          !(alone->get<double>() >= 0)) {
        throw FormatError(path, -1,
                          fmt::format("'{}', '{}': expected a key like ('model', 1) and steps per "
                                      "second under \"null\"",
                                      kind, key));
      }
      throughputs.rates[kind][name] = alone->get<double>();
    }
  }
  return throughputs;
}

bool is_gavel(std::string_view line) {
  size_t tabs = 0;
  for (const char c : line) tabs += c == '\t';
  return tabs == kCells - 1;
}

void read_gavel(std::string_view text, const TraceOptions& options, Trace& trace) {
  if (options.throughputs == nullptr) {
    throw_invalid(
        "{}: a Gavel trace counts steps: pass --throughputs FILE, a matrix of steps per "
        "second, as simulation_throughputs.json of Gavel",
        trace.file);
  }
  Lines lines(text, trace.file, '\t', false);
  Names models(trace.models);
  while (lines.next()) {
    if (lines.width() != kCells) {
      lines.fail(
          fmt::format("{} cells with tabs between them, expected {}", lines.width(), kCells));
    }
    Job job;
    job.submit_ms = lines.seconds_as_ms(5);
    job.chips = static_cast<int32_t>(lines.whole(6, 1, 1 << 20));
    const double steps = lines.number(4, 0, 1e15);
    const double rate = options.throughputs->rate(options.reference_kind, lines.cell(0), job.chips);
    if (rate <= 0) {
      lines.fail(fmt::format("the matrix has no steps per second of '{}' on {} x {}", lines.cell(0),
                             job.chips, options.reference_kind));
    }
    const double duration_ms = steps / rate * 1000;
    if (!(duration_ms <= static_cast<double>(kLongestTime_ms))) {
      lines.fail(fmt::format("{} steps at {} per second take too long", steps, rate));
    }
    job.duration_ms = job.predicted_ms = std::llround(duration_ms);
    job.model = models.index(lines.cell(0));
    trace.jobs.push_back(job);
  }
}

}  // namespace stretto::cluster
