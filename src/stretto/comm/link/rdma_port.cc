#include "stretto/comm/link/rdma_port.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

constexpr int kMostPorts = 16;  // of a card that are searched for an active one

struct Wanted {
  std::string device;  // empty: any
  int port = 0;        // 0: the first that is active
};

std::vector<Wanted> parse_wanted(std::string_view text) {
  if (text == "auto") return {Wanted{}};
  std::vector<Wanted> wanted;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const size_t colon = std::min(word.find(':'), word.size());
    Wanted one{.device = std::string(word.substr(0, colon))};
    bool fine = !one.device.empty();
    if (colon < word.size()) {
      const auto [at, error] =
          std::from_chars(word.data() + colon + 1, word.data() + word.size(), one.port);
      fine &= error == std::errc() && at == word.data() + word.size() && one.port >= 1 &&
              one.port <= 255;
    }
    if (!fine)
      throw_invalid(
          "STRETTO_RDMA: expected off, auto, or ports like mlx5_0:1, comma-separated, got '{}'",
          text);
    wanted.push_back(std::move(one));
    begin = end + 1;
  }
  return wanted;
}

// Chooses the entry of the port's address table by which remote ranks reach it.
bool choose_gid(RdmaPort* port) {
  int best = 0;
  for (int i = 0; i < port->attributes.gid_count; ++i) {
    verbs::Gid gid;
    if (port->provider->query_gid(port->context, static_cast<uint8_t>(port->number), i, &gid) != 0)
      continue;
    const std::string type =
        port->ethernet() ? port->provider->gid_type(port->device, port->number, i) : "";
    const int rank = gid_rank(gid, port->ethernet(), type);
    if (rank <= best) continue;
    best = rank;
    port->gid = gid;
    port->gid_index = i;
  }
  return best > 0;
}

// Makes the port ready for use, or gives the reason why it cannot be used.
std::string prepare(RdmaPort* port) {
  std::memset(&port->attributes, 0, sizeof port->attributes);
  if (port->provider->query_port(port->context, static_cast<uint8_t>(port->number),
                                 &port->attributes) != 0)
    return "has no such port";
  if (port->attributes.state != verbs::kPortActive) return "is not active";
  if (!choose_gid(port)) return "has no address";
  port->pd = port->provider->alloc_pd(port->context);
  if (!port->pd) return fmt::format("gives no protection domain: {}", std::strerror(errno));
  return "";
}

// Null with a reason when the device has no such port that is active.
std::shared_ptr<RdmaPort> open_port(const std::shared_ptr<const verbs::Provider>& provider,
                                    verbs::Device* device, const Wanted& wanted,
                                    std::string* reason) {
  const std::string name = provider->get_device_name(device);
  const int first = wanted.port == 0 ? 1 : wanted.port;
  const int last = wanted.port == 0 ? kMostPorts : wanted.port;
  std::string first_reason;
  for (int number = first; number <= last; ++number) {
    verbs::Context* context = provider->open_device(device);
    if (!context) {
      *reason = fmt::format("{} cannot be opened: {}", name, std::strerror(errno));
      return nullptr;
    }
    auto port = std::make_shared<RdmaPort>(provider, context);
    port->device = name;
    port->number = number;
    const std::string why = prepare(port.get());
    if (why.empty()) return port;
    if (first_reason.empty()) first_reason = fmt::format("{} {}", port->name(), why);
    if (why == "has no such port") break;
  }
  *reason = first_reason;
  return nullptr;
}

std::shared_ptr<RdmaPort> find_port(const std::shared_ptr<const verbs::Provider>& provider,
                                    verbs::Device** devices, int count, const Wanted& wanted,
                                    std::string* reason) {
  *reason = wanted.device.empty() ? "this machine has no RDMA card"
                                  : fmt::format("this machine has no RDMA card {}", wanted.device);
  for (int i = 0; i < count; ++i) {
    if (!wanted.device.empty() && wanted.device != provider->get_device_name(devices[i])) continue;
    if (auto port = open_port(provider, devices[i], wanted, reason)) return port;
  }
  return nullptr;
}

}  // namespace

RdmaPort::RdmaPort(std::shared_ptr<const verbs::Provider> provider, verbs::Context* context)
    : provider(std::move(provider)), context(context) {}

RdmaPort::~RdmaPort() {
  if (pd) provider->dealloc_pd(pd);
  provider->close_device(context);
}

std::string RdmaPort::name() const { return fmt::format("{}:{}", device, number); }

int gid_rank(const verbs::Gid& gid, bool ethernet, const std::string& type) {
  constexpr verbs::Gid kNone{};
  constexpr std::array<uint8_t, 12> kIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (gid == kNone) return 0;
  if (!ethernet) return 1;
  if (type != "RoCE v2") return 1;
  if (std::equal(kIpv4.begin(), kIpv4.end(), gid.begin())) return 4;
  const bool link_local = gid[0] == 0xfe && gid[1] == 0x80;
  return link_local ? 2 : 3;
}

RdmaRails describe(const std::vector<std::shared_ptr<RdmaPort>>& ports, std::string reason) {
  RdmaRails described{.rails = {}, .reason = std::move(reason)};
  for (const auto& port : ports) described.rails.push_back({port->name(), port->ethernet()});
  return described;
}

int count_rails(const RdmaRails& own, const RdmaRails& theirs, int rank, std::string* reason) {
  if (own.rails.empty()) {
    *reason = own.reason;
    return 0;
  }
  if (theirs.rails.empty()) {
    *reason = fmt::format("rank {}: {}", rank, theirs.reason);
    return 0;
  }
  const size_t most = std::min(own.rails.size(), theirs.rails.size());
  size_t count = 0;
  while (count < most && own.rails[count].ethernet == theirs.rails[count].ethernet) ++count;
  const auto kind = [](const RdmaRails::Rail& rail) {
    return rail.ethernet ? "Ethernet" : "InfiniBand";
  };
  *reason = count > 0 ? ""
                      : fmt::format("{} is {}, {} of rank {} is {}", own.rails[0].name,
                                    kind(own.rails[0]), theirs.rails[0].name, rank,
                                    kind(theirs.rails[0]));
  return static_cast<int>(count);
}

std::vector<std::shared_ptr<RdmaPort>> open_rdma_ports(const Options& options,
                                                       std::string* reason) {
  if (options.rdma == "off") {
    *reason = "STRETTO_RDMA is off";
    return {};
  }
  const std::vector<Wanted> wanted = parse_wanted(options.rdma);
  const bool any = options.rdma == "auto";
  const auto refuse = [&] {
    if (!any) throw_invalid("STRETTO_RDMA={}: {}", options.rdma, *reason);
    return std::vector<std::shared_ptr<RdmaPort>>{};
  };
  std::shared_ptr<const verbs::Provider> provider = options.rdma_provider;
  if (!provider) {
    static const std::pair<std::shared_ptr<const verbs::Provider>, std::string> kLoaded = [] {
      std::string why;
      auto loaded = verbs::load_provider(&why);
      return std::pair{loaded, why};
    }();
    provider = kLoaded.first;
    *reason = kLoaded.second;
  }
  if (!provider) return refuse();
  int count = 0;
  verbs::Device** devices = provider->get_device_list(&count);
  if (!devices) {
    *reason = fmt::format("this machine has no RDMA card: {}", std::strerror(errno));
    return refuse();
  }
  std::vector<std::shared_ptr<RdmaPort>> ports;
  for (const Wanted& one : wanted) {
    auto port = find_port(provider, devices, count, one, reason);
    if (!port) break;
    ports.push_back(std::move(port));
  }
  provider->free_device_list(devices);
  if (ports.size() < wanted.size()) return refuse();
  reason->clear();
  return ports;
}

}  // namespace stretto::comm
