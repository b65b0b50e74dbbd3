#include "comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stretto/runtime/report.h"
#include "table.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

std::string note(const EngineResult& result) {
  if (!result.failure.empty()) return result.failure;
  return result.version + (result.setting.empty() ? "" : ", " + result.setting);
}

json numbers(const EngineResult& result) {
  json entry{{"median_ms", result.times.median_ms()},
             {"p95_ms", result.times.p95_ms()},
             {"runs", result.times.ms.size()}};
  if (result.peak_bytes > 0) entry["peak_bytes"] = result.peak_bytes;
  if (result.error >= 0) entry["relative_to_max"] = result.error;
  return entry;
}

// Name and setting, and why it failed where it did.
json identity(const EngineResult& result) {
  json entry{{"name", result.name}, {"version", result.version}, {"setting", result.setting}};
  if (!result.failure.empty()) entry["error"] = result.failure;
  if (!result.last_words.empty()) entry["last_words"] = result.last_words;
  return entry;
}

json entry(const EngineResult& result) {
  json entry = identity(result);
  if (result.failure.empty()) entry.update(numbers(result));
  return entry;
}

}  // namespace

void print_comparison(const Comparison& comparison) {
  const std::vector<EngineResult>& results = comparison.engines;
  Table table({"name", ">median ms", ">p95 ms", ">runs/s", ">Stretto is", ">error", ">memory",
               "version and setting"});
  const double ours = results.front().times.median_ms();
  for (const EngineResult& result : results) {
    const bool timed = result.failure.empty(), self = &result == &results.front();
    const double median = result.times.median_ms();
    table.row({result.name, timed ? milliseconds(median) : "-",
               timed ? milliseconds(result.times.p95_ms()) : "-",
               timed ? fmt::format("{:.1f}", 1e3 / median) : "-",
               timed && !self ? fmt::format("{:.2f}x", median / ours) : "-",
               result.error >= 0 ? fmt::format("{:.1e}", result.error) : "-",
               result.peak_bytes > 0 ? mebibytes(static_cast<double>(result.peak_bytes)) : "-",
               note(result)});
  }
  fmt::print("{}", table.text());
  for (const EngineResult& result : results) {
    if (result.last_words.empty()) continue;
    fmt::print("\n{} failed; the last lines it wrote:\n", result.name);
    for (const std::string& line : result.last_words) fmt::print("  {}\n", line);
  }
  if (const std::string busy = describe(comparison.other_work); !busy.empty()) {
    fmt::print("{} meanwhile, so times are noisy: compare again on a quiet machine\n", busy);
  }
}

json to_json(const Comparison& comparison) {
  const std::vector<EngineResult>& results = comparison.engines;
  json peers = json::array();
  for (size_t i = 1; i < results.size(); ++i) peers.push_back(entry(results[i]));
  return {{"stretto", entry(results.front())},
          {"peers", peers},
          {"other_work", runtime::other_work_json(comparison.other_work)}};
}

void add_comparison(json& report, const Comparison& comparison) {
  const std::vector<EngineResult>& results = comparison.engines;
  const EngineResult& ours = results.front();
  json peers = json::array();
  for (size_t i = 1; i < results.size(); ++i) {
    peers.push_back(entry(results[i]));
  }
  const bool timed = std::any_of(peers.begin(), peers.end(),
                                 [](const json& peer) { return peer.contains("median_ms"); });
  if (timed) report["latency"]["after"].update(numbers(ours));
  if (ours.peak_bytes > 0) report["memory"]["serving_peak_bytes"] = ours.peak_bytes;
  report["latency"]["peers"] = std::move(peers);
  report["latency"]["other_work"] = runtime::other_work_json(comparison.other_work);
}

}  // namespace stretto::cli
