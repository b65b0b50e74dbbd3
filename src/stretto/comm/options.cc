#include "stretto/comm/options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>

#include "stretto/base/error.h"
#include "stretto/comm/gradient/exchange.h"

namespace stretto::comm {
namespace {

constexpr int kMostStreams = 8;  // as many as may be found to pay
constexpr std::string_view kNanChecks[] = {"off", "report", "stop"};

template <typename T>
T parse_number(std::string_view variable, std::string_view text, T low, T high) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    throw_invalid("{}: '{}' is no number from {} to {}", variable, text, low, high);
  return value;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    if (comma > 0) words.emplace_back(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return words;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

NanCheck parse_nan_check(std::string_view text) {
  for (size_t i = 0; i < std::size(kNanChecks); ++i) {
    if (kNanChecks[i] == text) return static_cast<NanCheck>(i);
  }
  throw_invalid("STRETTO_NAN_CHECK: '{}' is none of off, report, stop", text);
}

void read_codec(Options& options, std::string_view text) {
  options.codec = find_gradient_codec(text).name;
}

void read_step_policy(Options& options, std::string_view text) {
  parse_step_policy(text);
  options.step_policy = text;
}

// An option: how to read it from its variable, how to show it, what it means.
struct Row {
  const char* variable;
  const char* meaning;
  std::function<void(Options&, std::string_view)> read;
  std::function<std::string(const Options&)> show;
};

Row text_row(const char* variable, std::string Options::*member, const char* meaning) {
  return {variable, meaning, [=](Options& o, std::string_view text) { o.*member = text; },
          [=](const Options& o) { return o.*member; }};
}

template <typename T>
Row number_row(const char* variable, T Options::*member, T low, T high, const char* meaning) {
  return {variable, meaning,
          [=](Options& o, std::string_view text) {
            o.*member = parse_number<T>(variable, text, low, high);
          },
          [=](const Options& o) { return fmt::format("{}", o.*member); }};
}

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows{
      {"STRETTO_INTERFACES", "network interfaces to use, comma-separated; empty: any",
       [](Options& o, std::string_view text) { o.interfaces = split_list(text); },
       [](const Options& o) { return join(o.interfaces); }},
      text_row("STRETTO_TRANSPORTS", &Options::transports, "which of shm,tcp may be used"),
      {"STRETTO_STREAMS", "TCP connections per peer, over all interfaces; auto: as many as pay",
       [](Options& o, std::string_view text) {
         o.streams = text == "auto" ? 0 : parse_number("STRETTO_STREAMS", text, 1, 64);
       },
       [](const Options& o) { return o.streams == 0 ? "auto" : fmt::format("{}", o.streams); }},
      text_row("STRETTO_CONGESTION", &Options::congestion,
               "TCP congestion control (bbr, cubic, reno); empty: the system's"),
      text_row("STRETTO_RDMA", &Options::rdma,
               "rails over RDMA cards beside TCP: off, auto, or ports like mlx5_0:1,mlx5_1"),
      text_row("STRETTO_HOST", &Options::host,
               "name of this host, when ranks that share a machine shall count as several"),
      {"STRETTO_SECRET", "the job's secret; empty: made by rank 0, passed through the store",
       [](Options& o, std::string_view text) { o.secret = text; },
       [](const Options& o) { return o.secret.empty() ? "" : "(set)"; }},
      text_row("STRETTO_ALGORITHM", &Options::algorithm, "schedule to force; auto: by size"),
      number_row<int64_t>("STRETTO_CHUNK_BYTES", &Options::chunk_bytes, 4 << 10, 64 << 20,
                          "unit that the streams of a link pull"),
      number_row<int64_t>("STRETTO_EARLY_BYTES", &Options::early_bytes, 1 << 20, int64_t{1} << 50,
                          "memory for what other ranks send before this one asks for it"),
      number_row<int64_t>("STRETTO_FUSE_BYTES", &Options::fuse_bytes, 0, 1 << 30,
                          "small all-reduces that wait are joined up to this size; 0: never"),
      {"STRETTO_CODEC",
       "how gradients cross the wire: none, fp16, bf16, int8, topk, powersgd, mixed", read_codec,
       [](const Options& o) { return o.codec; }},
      number_row("STRETTO_TOPK_DENSITY", &Options::topk_density, 1e-6, 1.0,
                 "share of a bucket's values that topk sends"),
      number_row<int64_t>("STRETTO_TOPK_WARMUP", &Options::topk_warmup_steps, 0, 1 << 30,
                          "steps in which topk goes from a fourth of the values to its share"),
      number_row("STRETTO_POWERSGD_RANK", &Options::powersgd_rank, 1, 1024,
                 "columns of powersgd's factors"),
      number_row("STRETTO_MIXED_ERROR", &Options::mixed_error, 0.0, 1.0,
                 "error that mixed allows an encoding, relative to the tensor's norm"),
      number_row<int64_t>("STRETTO_MIXED_EVERY", &Options::mixed_every, 1, 1 << 30,
                          "steps after which mixed measures again"),
      {"STRETTO_STEP_POLICY", "what a step exchanges: every, accumulate:K, local:K, gossip:K",
       read_step_policy, [](const Options& o) { return o.step_policy; }},
      {"STRETTO_TUNE",
       "on or off: find unit, streams and algorithm of large all-reduces on real steps",
       [](Options& o, std::string_view text) {
         if (text != "on" && text != "off")
           throw_invalid("STRETTO_TUNE: '{}' is neither on nor off", text);
         o.tune = text == "on";
       },
       [](const Options& o) { return std::string(o.tune ? "on" : "off"); }},
      text_row("STRETTO_RECORD", &Options::record,
               "file that remembers what tuning found; empty: the user's"),
      {"STRETTO_ORDER_CHECK", "0 or 1: compare every operation's description between ranks",
       [](Options& o, std::string_view text) {
         o.order_check = parse_number("STRETTO_ORDER_CHECK", text, 0, 1) == 1;
       },
       [](const Options& o) { return std::string(o.order_check ? "1" : "0"); }},
      {"STRETTO_NAN_CHECK", "off, report or stop: NaN and infinity in gradients",
       [](Options& o, std::string_view text) { o.nan_check = parse_nan_check(text); },
       [](const Options& o) { return std::string(kNanChecks[static_cast<size_t>(o.nan_check)]); }},
      number_row("STRETTO_CONNECT_TIMEOUT", &Options::connect_timeout_s, 0.001, 1e6,
                 "seconds to wait for the other ranks at the start"),
      number_row("STRETTO_SILENT_LIMIT", &Options::silent_limit_s, 0.1, 1e6,
                 "seconds within which every rank knows that one has fallen silent"),
      number_row("STRETTO_OPERATION_TIMEOUT", &Options::operation_timeout_s, 0.0, 1e9,
                 "seconds an operation may take; 0: any"),
      number_row("STRETTO_REDIAL", &Options::redial_s, 0.0, 1e6,
                 "seconds before a TCP stream that broke is dialled again; 0: never"),
      number_row("STRETTO_SPIN", &Options::spin_s, 0.0, 10.0,
                 "seconds to look for a small operation's end before sleeping; 0: none"),
      text_row("STRETTO_TRACE", &Options::trace, "file for a Chrome trace, written at the end"),
  };
  return kRows;
}

}  // namespace

StepPolicy parse_step_policy(std::string_view text) {
  constexpr std::pair<std::string_view, StepPolicy::Kind> kKinds[] = {
      {"accumulate:", StepPolicy::Kind::kAccumulate},
      {"local:", StepPolicy::Kind::kLocal},
      {"gossip:", StepPolicy::Kind::kGossip}};
  if (text == "every") return {};
  for (const auto& [prefix, kind] : kKinds) {
    if (!text.starts_with(prefix)) continue;
    const std::string_view number = text.substr(prefix.size());
    return {kind, parse_number<int64_t>("STRETTO_STEP_POLICY", number, 1, 1 << 30)};
  }
  throw_invalid("STRETTO_STEP_POLICY: '{}' is none of every, accumulate:K, local:K, gossip:K",
                text);
}

int Options::connected_streams() const {
  return tune || streams == 0 ? std::max(streams, kMostStreams) : streams;
}

Options Options::from_environment() {
  Options options;
  for (const Row& row : rows()) {
    if (const char* text = std::getenv(row.variable)) row.read(options, text);
  }
  return options;
}

std::vector<OptionRow> describe(const Options& options) {
  std::vector<OptionRow> described;
  for (const Row& row : rows()) {
    described.push_back({row.variable, row.show(options), row.meaning});
  }
  return described;
}

}  // namespace stretto::comm
