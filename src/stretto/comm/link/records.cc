// What ranks publish about themselves in the store, and how they compare it.
#include <sys/stat.h>

#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/comm/link/links.h"

namespace stretto::comm {
namespace {

// The booted kernel and the network namespace: ranks with the same text share memory and a loopback
// device.
std::string machine_name() {
  std::string name;
  try {
    name = read_file("/proc/sys/kernel/random/boot_id");
  } catch (const FormatError&) {
    name = "unknown";
  }
  struct stat info {};
  if (stat("/proc/self/ns/net", &info) == 0) name += fmt::format("/{}", info.st_ino);
  std::erase(name, '\n');
  return name;
}

constexpr size_t kMaxSecret = 4096;

// What all ranks must have alike.
constexpr std::string_view kAgreed[] = {
    "STRETTO_ALGORITHM", "STRETTO_CHUNK_BYTES", "STRETTO_EAGER_LIMIT", "STRETTO_FUSE_BYTES",
    "STRETTO_MAC",       "STRETTO_TUNING",      "STRETTO_TUNING_START"};

using Agreement = std::vector<std::pair<std::string, std::string>>;

std::string difference(int a, const Agreement& of_a, int b, const Agreement& of_b) {
  for (size_t i = 0; i < of_a.size() && i < of_b.size(); ++i) {
    if (of_a[i] != of_b[i])
      return fmt::format("{} is {} on rank {} and {} on rank {}", of_a[i].first, of_a[i].second, a,
                         of_b[i].second, b);
  }
  return fmt::format("ranks {} and {} run different versions of Stretto", a, b);
}

std::string key(uint32_t epoch, std::string_view name) {
  return fmt::format("stretto/{}/{}", epoch, name);
}

}  // namespace

std::string list_ranks(const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return text;
}

void Links::publish(Store& store) {
  own_.machine = machine_name();
  own_.host = options_.host.empty() ? own_.machine : options_.host;
  own_.rack = options_.rack;
  own_.addresses = local_addresses(options_);
  own_.agreement = {{"the size of the job", std::to_string(membership_.size)}};
  for (const OptionRow& row : describe(options_)) {
    if (std::find(std::begin(kAgreed), std::end(kAgreed), row.variable) != std::end(kAgreed))
      own_.agreement.emplace_back(row.variable, row.value);
  }
  const Transports transports = parse_transports(options_.transports);
  std::string no_rdma;
  rdma_ports_ = open_rdma_ports(options_, &no_rdma);
  own_.rdma = describe(rdma_ports_, std::move(no_rdma));
  listeners_ = listen_tcp(options_, own_.addresses, membership_.rank, &own_.port);
  own_.listens_everywhere = options_.interfaces.empty();
  check_congestion(options_, listeners_.front().get());
  if (transports.shm && membership_.size > 1) {
    listeners_.push_back(listen_local(&own_.local_name));
    local_listener_ = listeners_.back().get();
  }
  store.set(key(membership_.epoch, fmt::format("rank/{}", membership_.rank)), encode_record(own_));
  if (!options_.secret.empty()) {
    secret_ = options_.secret;
  } else if (membership_.rank == 0) {
    secret_ = random_secret();
    store.set(key(membership_.epoch, "secret"), secret_);
  }
}

void Links::read_records(Store& store) {
  const double deadline = now_s() + options_.connect_timeout_s;
  std::vector<int> absent;
  records_.resize(membership_.size);
  hosts_.resize(membership_.size);
  racks_.resize(membership_.size);
  for (int rank = 0; rank < membership_.size; ++rank) {
    std::string text, reason;
    try {
      const double left = std::max(deadline - now_s(), 0.001);
      text = store.get(key(membership_.epoch, fmt::format("rank/{}", rank)), left);
    } catch (const CommError&) {
      absent.push_back(rank);
      continue;
    }
    auto record = parse_record(text, &reason);
    if (!record)
      throw CommError(
          rank, "store",
          fmt::format("rank {}: what it published in the store is damaged: {}", rank, reason));
    records_[rank] = std::move(*record);
    hosts_[rank] = records_[rank].host;
    racks_[rank] = records_[rank].rack;
  }
  if (!absent.empty())
    throw CommError(
        absent.front(), "store",
        fmt::format(
            "rank{} {} did not start within {:g} s (STRETTO_CONNECT_TIMEOUT); check that {} "
            "with the same address, size and epoch",
            absent.size() > 1 ? "s" : "", list_ranks(absent), options_.connect_timeout_s,
            absent.size() > 1 ? "they run" : "it runs"));
  for (int rank = 0; rank < membership_.size; ++rank) {
    if (records_[rank].agreement != own_.agreement)
      throw_invalid("ranks must have the same options, but {}",
                    difference(membership_.rank, own_.agreement, rank, records_[rank].agreement));
    if (records_[rank].addresses.empty())
      throw CommError(
          rank, "tcp",
          fmt::format("rank {} has no network address: no interface of its host is up", rank));
  }
  for (int rank = 0; rank < membership_.size; ++rank)
    wire_ranks_ += rank != membership_.rank && !shares_memory(rank);
  if (!secret_.empty()) return;
  secret_ = store.get(key(membership_.epoch, "secret"), options_.connect_timeout_s);
  if (secret_.empty() || secret_.size() > kMaxSecret)
    throw CommError(0, "store",
                    fmt::format("rank 0: the secret in the store has {} bytes", secret_.size()));
}

}  // namespace stretto::comm
