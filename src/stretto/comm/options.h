// Options of the gradient engine. Every option has a STRETTO_* variable, except those for tests;
// the table in options.cc describes each with its unit, default and allowed values, and
// docs/options.md lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stretto::comm {

namespace verbs {
struct Provider;
}

// How long to look for faster settings of large all-reduces while training runs.
enum class Tuning : uint8_t {
  kOff,    // keep the settings that the other options give
  kQuick,  // use what the tuning cache knows; otherwise try the neighbours of the best setting
  kFull,   // try every setting, twice as often, and ignore what the tuning cache knows
};
std::string_view tuning_name(Tuning tuning);
Tuning parse_tuning(std::string_view text);  // throws InvalidArgument

// What to do about NaN and infinity in what this rank contributes to a reduction.
enum class NanCheck : uint8_t {
  kOff,
  kReport,  // report it (Engine::take_non_finite) and send it, so that a loss scaler sees it
  kStop,    // also fail the job on every rank
};

// Whether frames between hosts carry tags (link/frame_mac.h).
enum class MacUse : uint8_t { kAuto, kOn, kOff };
std::string_view mac_use_name(MacUse use);
MacUse parse_mac_use(std::string_view text);  // throws InvalidArgument

struct Options {
  // Links. Ranks may have different values.
  std::vector<std::string> interfaces;  // empty: any address; link/addresses.h has the forms
  std::string ports;                    // to listen on, "LOW-HIGH"; empty: any
  std::string transports = "shm,tcp";
  int streams = 0;  // per link; 0: auto (link/stream_choice.h)
  std::string congestion;
  std::string rdma = "off";
  std::string host;
  std::string rack;
  std::string secret;  // empty: rank 0 makes one and passes it through the store

  // Schedules. Every rank must have the same values.
  MacUse mac = MacUse::kAuto;
  std::string algorithm = "auto";
  int64_t chunk_bytes = 256 << 10;
  int64_t eager_limit_bytes = 256 << 20;  // all links together; each gets an equal share
  int64_t fuse_bytes = 4 << 20;
  Tuning tuning = Tuning::kQuick;
  std::string tuning_cache;  // a file; empty: the user's; none: no file
  std::string tuning_start;  // as setting_text() writes it; empty: chosen by size

  // Gradients. Every rank must have the same values.
  std::string codec = "none";
  double topk_density = 0.001;
  int64_t topk_warmup_steps = 1000;
  int powersgd_rank = 2;
  double mixed_error = 0.01;
  int64_t mixed_every = 500;
  std::string step_policy = "every";

  // Checks.
  bool order_check = true;
  NanCheck nan_check = NanCheck::kReport;

  // Times.
  double connect_timeout_s = 60;
  double silent_limit_s = 10;
  double operation_timeout_s = 1800;
  double redial_s = 1;
  double spin_s = 200e-6;

  // Diagnosis.
  std::string trace;
  std::string dump;  // a folder; empty: one for temporary files; none: no files

  // For tests: a larger job does not connect all pairs of ranks at the start; the same on all
  // ranks.
  int mesh_ranks = 16;

  // For tests: the RDMA cards to use; null: those of libibverbs.so.1.
  std::shared_ptr<const verbs::Provider> rdma_provider;

  // The defaults, overridden by the environment. Throws InvalidArgument that names the variable and
  // its allowed values.
  static Options from_environment();

  // The most TCP streams of a link; they are connected when large messages need them.
  int connected_streams() const;
};

// Throws InvalidArgument, as from_environment() does, when an option has a value that its variable
// could not have given it.
void check(const Options& options);

// What Options::transports allows. Throws InvalidArgument.
struct Transports {
  bool shm = false, tcp = false;
};
Transports parse_transports(std::string_view text);  // "shm,tcp"

// When gradients or parameters are exchanged: every `interval` steps. kEvery has interval 1.
struct StepPolicy {
  enum class Kind : uint8_t { kEvery, kAccumulate, kLocal, kGossip };
  Kind kind = Kind::kEvery;
  int64_t interval = 1;
  bool overlap = false;  // the exchange of parameters runs during the next step
};
// "local:8", "gossip:4:overlap". Throws InvalidArgument.
StepPolicy parse_step_policy(std::string_view text);

// An option as `stretto run` and docs/options.md show it.
struct OptionRow {
  std::string variable;       // "STRETTO_STREAMS"
  std::string value;          // in use; "(set)" for a secret
  std::string default_value;  // empty: see `allowed`
  std::string allowed;        // "auto, or 1 to 64"
  std::string meaning;        // one sentence
};
std::vector<OptionRow> describe(const Options& options);

}  // namespace stretto::comm
