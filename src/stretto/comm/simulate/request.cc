#include "stretto/comm/simulate/request.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/comm/collective/unit_size.h"
#include "stretto/comm/options.h"
#include "stretto/comm/simulate/negotiation.h"
#include "stretto/comm/simulate/operation.h"
#include "stretto/comm/simulate/tune_steps.h"

namespace stretto::comm {
namespace {

using Json = nlohmann::json;

constexpr int kMostRanks = 1 << 16;

Placement placement_of(const Json& request) {
  const int ranks = request.at("ranks"), per_host = request.value("ranks_per_host", 1),
            per_rack = request.value("hosts_per_rack", 0);
  if (ranks < 1 || ranks > kMostRanks || per_host < 1 || per_rack < 0)
    throw_invalid("simulate: expected 1 to {} ranks and at least 1 per host, got {} and {}",
                  kMostRanks, ranks, per_host);
  std::vector<int> host, rack;
  for (int r = 0; r < ranks; ++r) {
    host.push_back(r / per_host);
    rack.push_back(per_rack == 0 ? 0 : host.back() / per_rack);
  }
  return Placement(host, rack);
}

LinkModel link_of(const Json& request) {
  LinkModel link;
  const Json given = request.value("link", Json::object());
  link.wire_latency_s = given.value("wire_latency_s", link.wire_latency_s);
  link.wire_message_s = given.value("wire_message_s", link.wire_message_s);
  link.wire_byte_s = given.value("wire_byte_s", link.wire_byte_s);
  link.local_latency_s = given.value("local_latency_s", link.local_latency_s);
  link.local_message_s = given.value("local_message_s", link.local_message_s);
  link.local_byte_s = given.value("local_byte_s", link.local_byte_s);
  link.sum_byte_s = given.value("sum_byte_s", link.sum_byte_s);
  return link;
}

Json link_json(const LinkModel& link) {
  return {{"wire_latency_s", link.wire_latency_s},
          {"wire_message_s", link.wire_message_s},
          {"wire_byte_s", link.wire_byte_s},
          {"local_latency_s", link.local_latency_s},
          {"local_message_s", link.local_message_s},
          {"local_byte_s", link.local_byte_s},
          {"sum_byte_s", link.sum_byte_s}};
}

Collective kind_of(const Json& request) {
  const std::string name = request.value("kind", "all_reduce");
  for (int kind = 0; kind <= static_cast<int>(Collective::kBarrier); ++kind)
    if (collective_name(static_cast<Collective>(kind)) == name)
      return static_cast<Collective>(kind);
  throw_invalid("simulate: '{}' is no collective", name);
}

OperationOptions options_of(const Json& request) {
  OperationOptions options{.link = link_of(request)};
  options.most_steps = request.value("most_steps", options.most_steps);
  options.window_bytes = request.value("window_bytes", options.window_bytes);
  const std::string codec = request.value("codec", "none");
  if (codec != "none") options.codec = &find_codec(codec);
  options.codec_byte_s = request.value("codec_byte_s", options.codec_byte_s);
  return options;
}

Json play_operation(const Json& request) {
  const OperationOptions options = options_of(request);
  const int64_t bytes = request.value("bytes", int64_t{0});
  Problem problem{.kind = kind_of(request),
                  .host = placement_of(request),
                  .count = bytes / 4,
                  .exact = request.value("exact", false)};
  ElementBytes sizes;
  if (const Codec* codec = options.codec) {
    problem.coded = true;
    problem.coded_sums = codec->sums;
    problem.align = codec->block;
    sizes.wire = codec->wire_bytes();
  }
  // On links of the model's defaults, as before a job has measured its own.
  set_unit(&problem, 4, Options().chunk_bytes, {}, request.value("unit_bytes", int64_t{0}));
  const std::string name = request.value("algorithm", "");
  const Algorithm* algorithm = nullptr;
  try {
    algorithm = name.empty() ? &choose_algorithm(problem, options.link, sizes)
                             : &find_algorithm(problem, name);
  } catch (const Unsupported& error) {
    return {{"algorithm", name}, {"unfit", error.what()}};
  }
  const OperationRun run = simulate_operation(problem, *algorithm, options);
  return {{"algorithm", run.algorithm},
          {"unit_bytes", 4 * problem.unit},
          {"seconds", run.seconds},
          {"units", run.units},
          {"played_units", run.played_units},
          {"estimate_s", run.estimate_s},
          {"bound_s", run.bound_s},
          {"bound_bytes", run.bound_bytes},
          {"card_bytes", run.card_bytes},
          {"card_messages", run.card_messages},
          {"messages", run.messages},
          {"rank_messages", run.rank_messages},
          {"peers", run.peers}};
}

Json play_negotiation(const Json& request) {
  Json rounds = Json::array();
  for (const NegotiationRound& round :
       simulate_negotiation(placement_of(request), request.value("names", 200),
                            request.value("steps", 2), link_of(request)))
    rounds.push_back({{"seconds", round.seconds},
                      {"rank_messages", round.rank_messages},
                      {"rank_bytes", round.rank_bytes},
                      {"agreed", round.agreed}});
  return {{"rounds", rounds}};
}

Json play_tuning(const Json& request) {
  const int64_t bytes = request.value("bytes", int64_t{64} << 20);
  const Placement placement = placement_of(request);
  int64_t unit = request.value("unit_bytes", int64_t{0});
  if (unit == 0) unit = default_unit_bytes({.host = placement}, Options().chunk_bytes, bytes);
  const StepSetting start{.unit_bytes = unit, .algorithm = request.value("algorithm", "")};
  const TuningRun run = simulate_tuning(placement, bytes, start, options_of(request));
  Json tried = Json::array();
  for (const StepTuner::Tried& t : run.tried)
    tried.push_back({{"setting", setting_text(t.setting)},
                     {"seconds", t.seconds},
                     {"against_seconds", t.against_seconds},
                     {"won", t.won}});
  return {{"start", setting_text(run.start)},
          {"start_s", run.start_s},
          {"best", setting_text(run.best)},
          {"best_s", run.best_s},
          {"fastest", setting_text(run.fastest)},
          {"fastest_s", run.fastest_s},
          {"steps", run.steps},
          {"tried", tried}};
}

}  // namespace

std::string simulate_request(std::string_view text) {
  try {
    const Json request = Json::parse(text);
    const std::string what = request.value("what", "operation");
    if (what == "operation") return play_operation(request).dump();
    if (what == "negotiation") return play_negotiation(request).dump();
    if (what == "tuning") return play_tuning(request).dump();
    if (what == "link") return link_json(link_of(request)).dump();
    throw_invalid("simulate: expected operation, negotiation, tuning or link, got '{}'", what);
  } catch (const Json::exception& error) {
    throw_invalid("simulate: {}", error.what());
  }
}

}  // namespace stretto::comm
