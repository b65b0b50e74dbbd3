#include "stretto/comm/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <span>

#include "stretto/base/error.h"
#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/gradient/exchange.h"
#include "stretto/comm/link/addresses.h"
#include "stretto/comm/tuning/tuning.h"

namespace stretto::comm {
namespace {

constexpr int kMostStreams = 8;  // for STRETTO_STREAMS=auto
constexpr std::string_view kTunings[] = {"off", "quick", "full"};
constexpr std::string_view kMacUses[] = {"auto", "on", "off"};
constexpr std::string_view kNanChecks[] = {"off", "report", "stop"};

template <typename T>
T parse_number(std::string_view variable, std::string_view text, T low, T high,
               std::string_view or_word = "") {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool inside = value >= low && value <= high;  // NaN is not
  if (error != std::errc() || end != text.data() + text.size() || !inside)
    throw_invalid("{}: '{}' is not {}a number from {} to {}", variable, text, or_word, low, high);
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

// Reads the name of an enumerator whose value is its place among `names`.
template <typename T>
T parse_word(std::string_view variable, std::span<const std::string_view> names,
             std::string_view text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end())
    throw_invalid("{}: expected one of {}, got '{}'", variable, fmt::join(names, ", "), text);
  return static_cast<T>(found - names.begin());
}

std::vector<std::string_view> algorithm_names() {
  std::vector<std::string_view> names{"auto"};
  for (const Algorithm& a : algorithms(Collective::kAllReduce)) names.push_back(a.name);
  return names;
}

void read_algorithm(Options& options, std::string_view text) {
  const auto names = algorithm_names();
  options.algorithm = names[parse_word<size_t>("STRETTO_ALGORITHM", names, text)];
}

// An option: how to read it from its variable, how to show it, and what it means.
struct Row {
  const char* variable;
  std::string allowed;
  const char* meaning;
  std::function<void(Options&, std::string_view)> read;
  std::function<std::string(const Options&)> show;
};

Row text_row(const char* variable, std::string Options::*member, std::string allowed,
             const char* meaning) {
  return {variable, std::move(allowed), meaning,
          [=](Options& o, std::string_view text) { o.*member = text; },
          [=](const Options& o) { return o.*member; }};
}

// A name that other ranks are told.
Row name_row(const char* variable, std::string Options::*member, std::string_view empty,
             const char* meaning) {
  constexpr size_t kMost = 255;
  return {variable, fmt::format("any text of up to {} bytes; empty: {}", kMost, empty), meaning,
          [=](Options& o, std::string_view text) {
            if (text.size() > kMost)
              throw_invalid("{}: a name has at most {} bytes, this one has {}", variable, kMost,
                            text.size());
            o.*member = text;
          },
          [=](const Options& o) { return o.*member; }};
}

// `unit`: "bytes", "seconds", ...; `zero`: what 0 means, if it is special.
template <typename T>
Row number_row(const char* variable, T Options::*member, T low, T high, std::string_view unit,
               const char* meaning, std::string_view zero = "") {
  std::string allowed = fmt::format("{} to {}{}{}", low, high, unit.empty() ? "" : " ", unit);
  if (!zero.empty()) allowed += fmt::format("; 0: {}", zero);
  return {variable, std::move(allowed), meaning,
          [=](Options& o, std::string_view text) {
            o.*member = parse_number<T>(variable, text, low, high);
          },
          [=](const Options& o) { return fmt::format("{}", o.*member); }};
}

template <typename Names>
std::string alternatives(const Names& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string codec_names() {
  std::vector<std::string_view> names;
  for (const GradientCodec& codec : gradient_codecs()) names.push_back(codec.name);
  return alternatives(names);
}

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows{
      {"STRETTO_CODEC", codec_names(), "Codec that encodes gradients on the wire.",
       [](Options& o, std::string_view text) { o.codec = find_gradient_codec(text).name; },
       [](const Options& o) { return o.codec; }},
      number_row("STRETTO_TOPK_DENSITY", &Options::topk_density, 1e-6, 1.0, "",
                 "Share of a bucket's values that topk sends; of small buckets it sends 2048 "
                 "values, or an eighth."),
      number_row<int64_t>("STRETTO_TOPK_WARMUP", &Options::topk_warmup_steps, 0, 1 << 30, "steps",
                          "Number of steps in which topk goes from a fourth of the values down to "
                          "its density."),
      number_row("STRETTO_POWERSGD_RANK", &Options::powersgd_rank, 1, 1024, "columns",
                 "Columns of the two factors that powersgd sends for each matrix."),
      number_row("STRETTO_MIXED_ERROR", &Options::mixed_error, 0.0, 1.0, "",
                 "Largest error of an encoding that mixed accepts, relative to the tensor's norm."),
      number_row<int64_t>("STRETTO_MIXED_EVERY", &Options::mixed_every, 1, 1 << 30, "steps",
                          "Number of steps after which mixed measures errors and times again."),
      {"STRETTO_STEP_POLICY",
       "every, accumulate:K, local:K, gossip:K, local:K:overlap, gossip:K:overlap",
       "What ranks exchange in a training step.",
       [](Options& o, std::string_view text) {
         parse_step_policy(text);
         o.step_policy = text;
       },
       [](const Options& o) { return o.step_policy; }},
      {"STRETTO_NAN_CHECK", alternatives(kNanChecks),
       "Whether NaN and infinity in gradients are ignored, reported, or end the job.",
       [](Options& o, std::string_view text) {
         o.nan_check = parse_word<NanCheck>("STRETTO_NAN_CHECK", kNanChecks, text);
       },
       [](const Options& o) { return std::string(kNanChecks[static_cast<size_t>(o.nan_check)]); }},
      {"STRETTO_INTERFACES",
       "comma-separated: names (eth0), beginnings of names (eth), networks (10.0.0.0/8); with ^ "
       "before the first: all but these (^docker,lo); empty: any",
       "Network interfaces at whose addresses a rank listens and that TCP streams use in turn.",
       [](Options& o, std::string_view text) {
         std::vector<std::string> interfaces = split_list(text);
         check_interfaces(interfaces);
         o.interfaces = std::move(interfaces);
       },
       [](const Options& o) { return fmt::format("{}", fmt::join(o.interfaces, ",")); }},
      {"STRETTO_PORTS", "LOW-HIGH, such as 20000-20063; empty: any",
       "Ports to listen on; every rank of a host takes one.",
       [](Options& o, std::string_view text) {
         parse_ports(text);
         o.ports = text;
       },
       [](const Options& o) { return o.ports; }},
      {"STRETTO_TRANSPORTS", "shm, tcp, or both, comma-separated",
       "Transports to use: shared memory between ranks of one host, TCP between all others.",
       [](Options& o, std::string_view text) {
         parse_transports(text);
         o.transports = text;
       },
       [](const Options& o) { return o.transports; }},
      text_row("STRETTO_RDMA", &Options::rdma,
               "off; auto: the first active port, where both ranks have one; or ports such as "
               "mlx5_0:1,mlx5_1:1",
               "RDMA rails that carry streams beside TCP."),
      {"STRETTO_STREAMS", "auto, or 1 to 64",
       "Streams of a link that carry large messages: RDMA rails first, then TCP connections, which "
       "are made when they are needed. auto begins with one, or two where there are several rails, "
       "and uses up to 8 while they are faster.",
       [](Options& o, std::string_view text) {
         o.streams = text == "auto" ? 0 : parse_number("STRETTO_STREAMS", text, 1, 64, "auto or ");
       },
       [](const Options& o) { return o.streams == 0 ? "auto" : fmt::format("{}", o.streams); }},
      text_row("STRETTO_CONGESTION", &Options::congestion,
               "a name that the kernel knows, such as bbr, cubic, reno; empty: the system's",
               "TCP congestion control algorithm."),
      name_row("STRETTO_HOST", &Options::host, "one name per machine",
               "Name of this rank's host; ranks with the same name count as one host."),
      name_row("STRETTO_RACK", &Options::rack, "all hosts are in one rack",
               "Name of this rank's rack; the tree algorithms send the sum of each rack once."),
      {"STRETTO_SECRET", "any text; empty: rank 0 makes one and passes it through the store",
       "Secret of the job, which ranks prove to know when they connect.",
       [](Options& o, std::string_view text) { o.secret = text; },
       [](const Options& o) { return o.secret.empty() ? "" : "(set)"; }},
      {"STRETTO_MAC", alternatives(kMacUses),
       "MAC: whether frames over TCP carry a tag that only ranks of the job can compute, so that "
       "nobody else can change or insert any. auto: where they leave the machine over an interface "
       "of at most 1 Gbit/s; never over shared memory or RDMA.",
       [](Options& o, std::string_view text) { o.mac = parse_mac_use(text); },
       [](const Options& o) { return std::string(mac_use_name(o.mac)); }},
      {"STRETTO_ALGORITHM", alternatives(algorithm_names()),
       "Algorithm of every all-reduce, which fails if the algorithm does not fit; auto chooses by "
       "size.",
       read_algorithm, [](const Options& o) { return o.algorithm; }},
      number_row<int64_t>("STRETTO_CHUNK_BYTES", &Options::chunk_bytes, 4 << 10, 64 << 20, "bytes",
                          "Size of the pieces of a message that streams take; up to four times as "
                          "much where one stream takes all and the network sends it at once."),
      number_row<int64_t>("STRETTO_EAGER_LIMIT", &Options::eager_limit_bytes, 1 << 20,
                          int64_t{1} << 50, "bytes",
                          "Eager limit: how much all other ranks together may send before this "
                          "rank asks for it; beyond that they send an RTS and wait for the CTS."),
      number_row<int64_t>("STRETTO_FUSE_BYTES", &Options::fuse_bytes, 0, 1 << 30, "bytes",
                          "Small all-reduces that wait are fused into one of at most this size.",
                          "never"),
      {"STRETTO_TUNING", alternatives(kTunings),
       "How long to search for faster settings of all-reduces of 64 KiB and more, on real steps.",
       [](Options& o, std::string_view text) { o.tuning = parse_tuning(text); },
       [](const Options& o) { return std::string(tuning_name(o.tuning)); }},
      text_row("STRETTO_TUNING_CACHE", &Options::tuning_cache,
               "a file; empty: the user's; none: no file",
               "Tuning cache: file that remembers what tuning found."),
      {"STRETTO_TUNING_START", "unit=BYTES streams=NUMBER algorithm=NAME; empty: chosen by size",
       "Setting from which tuning starts, in the form in which reports show it. With "
       "STRETTO_TUNING=off it stays in use.",
       [](Options& o, std::string_view text) {
         if (!text.empty() && !parse_setting(text))
           throw_invalid(
               "STRETTO_TUNING_START: expected 'unit=BYTES streams=NUMBER algorithm=NAME', got "
               "'{}'",
               text);
         o.tuning_start = text;
       },
       [](const Options& o) { return o.tuning_start; }},
      {"STRETTO_ORDER_CHECK", "0, 1",
       "Whether ranks compare every operation, to find ranks that submit different ones.",
       [](Options& o, std::string_view text) {
         o.order_check = parse_number("STRETTO_ORDER_CHECK", text, 0, 1) == 1;
       },
       [](const Options& o) { return std::string(o.order_check ? "1" : "0"); }},
      number_row("STRETTO_CONNECT_TIMEOUT", &Options::connect_timeout_s, 0.001, 1e6, "seconds",
                 "Time to wait at the start until ranks are connected, and later for a connection "
                 "that becomes necessary."),
      number_row("STRETTO_SILENT_LIMIT", &Options::silent_limit_s, 0.1, 1e6, "seconds",
                 "Time within which every rank knows that one has fallen silent, for example a "
                 "stopped process or a dead network; the same on every rank."),
      number_row("STRETTO_OPERATION_TIMEOUT", &Options::operation_timeout_s, 0.0, 1e9, "seconds",
                 "Time after which an operation that is not over fails the job.", "never"),
      number_row("STRETTO_REDIAL", &Options::redial_s, 0.0, 1e6, "seconds",
                 "Pause before a TCP stream that broke is connected again, while other streams of "
                 "its link work; it doubles up to 60 seconds.",
                 "never"),
      number_row("STRETTO_SPIN", &Options::spin_s, 0.0, 10.0, "seconds",
                 "Time that a thread spins while it waits for an operation of up to 64 KiB, before "
                 "it sleeps; for one of up to 2 MiB from each arrival, five times as long in all, "
                 "where every rank has a core.",
                 "sleep at once"),
      text_row("STRETTO_TRACE", &Options::trace, "a file; empty: none",
               "File for a trace in Chrome's format, written when the engine ends."),
      text_row(
          "STRETTO_DUMP", &Options::dump,
          "a folder; empty: stretto-dump-UID in the folder for temporary files; none: no files",
          "Folder for a file with this rank's last operations, written when the job fails and "
          "on SIGUSR2."),
  };
  return kRows;
}

}  // namespace

std::string_view tuning_name(Tuning tuning) { return kTunings[static_cast<size_t>(tuning)]; }

Tuning parse_tuning(std::string_view text) {
  return parse_word<Tuning>("STRETTO_TUNING", kTunings, text);
}

std::string_view mac_use_name(MacUse use) { return kMacUses[static_cast<size_t>(use)]; }

MacUse parse_mac_use(std::string_view text) {
  return parse_word<MacUse>("STRETTO_MAC", kMacUses, text);
}

Transports parse_transports(std::string_view text) {
  Transports found;
  const std::vector<std::string> words = split_list(text);
  for (const std::string& word : words) {
    if (word != "shm" && word != "tcp")
      throw_invalid("STRETTO_TRANSPORTS: expected shm, tcp or both, got '{}'", word);
    (word == "shm" ? found.shm : found.tcp) = true;
  }
  if (words.empty()) throw_invalid("STRETTO_TRANSPORTS: expected shm, tcp or both, got nothing");
  return found;
}

StepPolicy parse_step_policy(std::string_view text) {
  constexpr std::pair<std::string_view, StepPolicy::Kind> kKinds[] = {
      {"accumulate:", StepPolicy::Kind::kAccumulate},
      {"local:", StepPolicy::Kind::kLocal},
      {"gossip:", StepPolicy::Kind::kGossip}};
  constexpr std::string_view kOverlap = ":overlap";
  if (text == "every") return {};
  for (const auto& [prefix, kind] : kKinds) {
    if (!text.starts_with(prefix)) continue;
    std::string_view number = text.substr(prefix.size());
    const bool overlap = kind != StepPolicy::Kind::kAccumulate && number.ends_with(kOverlap);
    if (overlap) number.remove_suffix(kOverlap.size());
    return {kind, parse_number<int64_t>("STRETTO_STEP_POLICY", number, 1, 1 << 30), overlap};
  }
  throw_invalid(
      "STRETTO_STEP_POLICY: expected every, accumulate:K, local:K or gossip:K (K: steps), got '{}'",
      text);
}

int Options::connected_streams() const {
  return tuning != Tuning::kOff || streams == 0 ? std::max(streams, kMostStreams) : streams;
}

Options Options::from_environment() {
  Options options;
  for (const Row& row : rows()) {
    if (const char* text = std::getenv(row.variable)) row.read(options, text);
  }
  return options;
}

void check(const Options& options) {
  Options copy;
  for (const Row& row : rows()) row.read(copy, row.show(options));
}

std::vector<OptionRow> describe(const Options& options) {
  std::vector<OptionRow> described;
  const Options defaults;
  for (const Row& row : rows())
    described.push_back(
        {row.variable, row.show(options), row.show(defaults), row.allowed, row.meaning});
  return described;
}

}  // namespace stretto::comm
