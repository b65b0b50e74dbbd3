// How an engine behaves. Every option has one STRETTO_* variable, read once, here.
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

// What to do about NaN and infinity in what this rank contributes to a reduction.
enum class NanCheck : uint8_t {
  kOff,
  kReport,  // note it (Engine::non_finite) and send it on, so that a loss scaler sees it
  kStop,    // and fail the operation on every rank
};

struct Options {
  // Links.
  std::vector<std::string> interfaces;  // STRETTO_INTERFACES=eth0,eth1: rails; empty: any address
  std::string transports = "shm,tcp";   // STRETTO_TRANSPORTS: which may be used
  int streams = 0;           // STRETTO_STREAMS: TCP connections per peer, over all rails;
                             //   0: as many as are found to pay (link/stream_choice.h)
  std::string congestion;    // STRETTO_CONGESTION: TCP congestion control; empty: system's
  std::string rdma = "off";  // STRETTO_RDMA: off, auto, or ports (mlx5_0:1,mlx5_1): rails over RDMA
                             //   cards beside TCP
  std::string host;          // STRETTO_HOST: overrides which ranks count as one host
  std::string secret;        // STRETTO_SECRET: of the job; empty: rank 0 makes one and
                             //   passes it through the store
  // Schedules. Every rank must have the same.
  std::string algorithm = "auto";   // STRETTO_ALGORITHM: a row of comm/collective
  int64_t chunk_bytes = 256 << 10;  // STRETTO_CHUNK_BYTES: unit that streams pull
  int64_t early_bytes = 256 << 20;  // STRETTO_EARLY_BYTES: of memory for what others send before
                                    //   this rank asks for it, in equal shares per peer
  int64_t fuse_bytes = 4 << 20;     // STRETTO_FUSE_BYTES: small operations join up to this size
  bool tune = true;            // STRETTO_TUNE=on|off: unit, streams and algorithm from real steps
  std::string record;          // STRETTO_RECORD: file of what tuning found; empty: the user's
  std::string codec = "none";  // STRETTO_CODEC: of gradients (comm/gradient), and for
                               //   operations that name none where it is a row of codecs()
  // Gradients. Every rank must have the same.
  double topk_density = 0.001;        // STRETTO_TOPK_DENSITY: share of the values that is sent
  int64_t topk_warmup_steps = 1000;   // STRETTO_TOPK_WARMUP: steps from 1/4 to that
  int powersgd_rank = 2;              // STRETTO_POWERSGD_RANK
  double mixed_error = 0.01;          // STRETTO_MIXED_ERROR: of an encoding, relative to the tensor
  int64_t mixed_every = 500;          // STRETTO_MIXED_EVERY: steps between measurements
  std::string step_policy = "every";  // STRETTO_STEP_POLICY: every, accumulate:K, local:K, gossip:K
  // Checks.
  bool order_check = true;  // STRETTO_ORDER_CHECK=0|1: fingerprint of every operation
  NanCheck nan_check = NanCheck::kReport;  // STRETTO_NAN_CHECK=off|report|stop
  // Times, in seconds.
  double connect_timeout_s = 60;      // STRETTO_CONNECT_TIMEOUT
  double silent_limit_s = 10;         // STRETTO_SILENT_LIMIT: till all know of a silent peer
  double operation_timeout_s = 1800;  // STRETTO_OPERATION_TIMEOUT; 0: none
  double redial_s = 1;                // STRETTO_REDIAL: pause before a broken stream is dialled
                                      //   again, doubled each time; 0: never
  double spin_s = 200e-6;             // STRETTO_SPIN: before who waits for little goes to sleep
  // Looking inside.
  std::string trace;  // STRETTO_TRACE=file: Chrome trace written at the end
  // For tests, without a variable: the RDMA cards there are; null: those of libibverbs.so.1.
  std::shared_ptr<const verbs::Provider> rdma_provider;

  // The defaults, overridden by the environment. Throws InvalidArgument naming the variable.
  static Options from_environment();

  // TCP connections per peer; how many of them are used may change.
  int connected_streams() const;
};

// When gradients or parameters are exchanged. `every` has interval 1.
struct StepPolicy {
  enum class Kind : uint8_t { kEvery, kAccumulate, kLocal, kGossip };
  Kind kind = Kind::kEvery;
  int64_t interval = 1;
};
StepPolicy parse_step_policy(std::string_view text);  // "local:8"; throws InvalidArgument

// One row per option: variable, value in use, meaning. What `stretto` prints and docs/options
// lists.
struct OptionRow {
  std::string variable, value, meaning;
};
std::vector<OptionRow> describe(const Options& options);

}  // namespace stretto::comm
