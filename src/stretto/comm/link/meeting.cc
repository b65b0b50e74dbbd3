// How Links come to be: records in the store, attempts, guests.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/comm/link/links.h"
#include "stretto/comm/link/rdma.h"
#include "stretto/comm/link/shm.h"

namespace stretto::comm {
namespace {

constexpr double kPatience_s = 20;   // a conversation takes no longer
constexpr size_t kMaxGuests = 1024;  // at once; the oldest leaves first

// Ranks with equal text share memory and a loopback device: the kernel that was booted, and the
// network namespace in it.
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

struct Transports {
  bool shm = false, tcp = false;
};

Transports parse_transports(std::string_view text) {
  Transports found;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (word != "shm" && word != "tcp")
      throw_invalid("STRETTO_TRANSPORTS: '{}' is neither shm nor tcp", word);
    (word == "shm" ? found.shm : found.tcp) = true;
    begin = end + 1;
  }
  return found;
}

std::string key(uint32_t epoch, std::string_view name) {
  return fmt::format("stretto/{}/{}", epoch, name);
}

std::string list(const std::vector<int>& ranks) {
  std::string text;
  for (int rank : ranks) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return text;
}

}  // namespace

void Links::publish(Store& store) {
  own_.machine = machine_name();
  own_.host = options_.host.empty() ? own_.machine : options_.host;
  own_.addresses = local_addresses(options_);
  own_.agreement =
      fmt::format("size {}, algorithm {}, chunk_bytes {}, early_bytes {}, fuse_bytes {}, tune {}",
                  membership_.size, options_.algorithm, options_.chunk_bytes, options_.early_bytes,
                  options_.fuse_bytes, options_.tune ? "on" : "off");
  const Transports transports = parse_transports(options_.transports);
  std::string no_rdma;
  rdma_ports_ = open_rdma_ports(options_, &no_rdma);
  own_.rdma = describe(rdma_ports_, std::move(no_rdma));
  listener_ = listen_tcp(&own_.port);
  if (transports.shm && membership_.size > 1) local_listener_ = listen_local(&own_.local_name);
  nlohmann::json record{{"port", own_.port},           {"host", own_.host},
                        {"machine", own_.machine},     {"local_name", own_.local_name},
                        {"agreement", own_.agreement}, {"addresses", nlohmann::json::array()},
                        {"no_rdma", own_.rdma.reason}, {"rdma", nlohmann::json::array()}};
  for (const Address& a : own_.addresses) record["addresses"].push_back({a.interface, a.text});
  for (const auto& rail : own_.rdma.rails) record["rdma"].push_back({rail.name, rail.ethernet});
  store.set(key(membership_.epoch, fmt::format("rank/{}", membership_.rank)), record.dump());
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
  for (int rank = 0; rank < membership_.size; ++rank) {
    try {
      const double left = std::max(deadline - now_s(), 0.001);
      const auto json = nlohmann::json::parse(
          store.get(key(membership_.epoch, fmt::format("rank/{}", rank)), left));
      Record& record = records_[rank];
      record.port = json.at("port");
      record.host = json.at("host");
      record.machine = json.at("machine");
      record.local_name = json.at("local_name");
      record.agreement = json.at("agreement");
      for (const auto& a : json.at("addresses")) record.addresses.push_back({a.at(0), a.at(1)});
      record.rdma.reason = json.at("no_rdma");
      for (const auto& r : json.at("rdma")) record.rdma.rails.push_back({r.at(0), r.at(1)});
    } catch (const CommError&) {
      absent.push_back(rank);
    } catch (const nlohmann::json::exception& e) {
      throw CommError(
          rank, "store",
          fmt::format("rank {}: its record in the store is damaged: {}", rank, e.what()));
    }
    hosts_[rank] = records_[rank].host;
  }
  if (!absent.empty())
    throw CommError(
        absent.front(), "store",
        fmt::format("rank{} {} did not come within {:g} s", absent.size() > 1 ? "s" : "",
                    list(absent), options_.connect_timeout_s));
  for (int rank = 0; rank < membership_.size; ++rank) {
    if (records_[rank].agreement != own_.agreement)
      throw_invalid("rank {} has {}; rank {} has {}", membership_.rank, own_.agreement, rank,
                    records_[rank].agreement);
    if (records_[rank].addresses.empty())
      throw CommError(rank, "tcp", fmt::format("rank {} has no network address", rank));
  }
  for (int rank = 0; rank < membership_.size; ++rank)
    wire_ranks_ += rank != membership_.rank && !shares_memory(rank);
  if (secret_.empty())
    secret_ = store.get(key(membership_.epoch, "secret"), options_.connect_timeout_s);
}

bool Links::shares_memory(int rank) const {
  const Record& record = records_[rank];
  return !record.local_name.empty() && !own_.local_name.empty() && record.machine == own_.machine &&
         record.host == own_.host;
}

std::string Links::no_rdma(int rank) const {
  std::string reason;
  if (shares_memory(rank)) return "on the same host";
  count_rails(own_.rdma, records_[rank].rdma, rank, &reason);
  return reason;
}

void Links::begin_attempts() {
  const Transports transports = parse_transports(options_.transports);
  for (int peer = 0; peer < membership_.size; ++peer) {
    if (peer == membership_.rank) continue;
    const bool local = shares_memory(peer);
    if (!local && !transports.tcp)
      throw_invalid("STRETTO_TRANSPORTS: rank {} is on another host, which shm does not reach",
                    peer);
    if (peer > membership_.rank) continue;  // it connects to this rank
    // RDMA first: what may use few streams uses the first ones.
    std::string reason;
    const int rails = local ? 0 : count_rails(own_.rdma, records_[peer].rdma, peer, &reason);
    const int streams = local ? 1 : rails + options_.connected_streams();
    for (int stream = 0; stream < streams; ++stream) {
      Attempt& attempt = attempts_.emplace_back();
      attempt.peer = peer;
      attempt.stream = stream;
      attempt.streams = streams;
      attempt.transport = local            ? Transport::kShm
                          : stream < rails ? Transport::kRdma
                                           : Transport::kTcp;
      attempt.place = stream < rails ? stream : stream - rails;
    }
  }
}

void Links::start(size_t index) {
  Attempt& a = attempts_[index];
  const Record& record = records_[a.peer];
  std::string reason;
  Fd socket;
  if (a.transport == Transport::kShm) {
    a.target = "shm";
    socket = connect_local(record.local_name, &reason);
  } else {
    const Route route = choose_route(own_.addresses, record.addresses, !options_.interfaces.empty(),
                                     record.machine == own_.machine, a.place, a.tries);
    a.target = fmt::format("tcp {}:{}", route.to, record.port);
    socket = connect_tcp(route.from, route.to, record.port, options_, wire_ranks_, &reason);
  }
  ++a.tries;
  a.retry_at_s = now_s() + a.pause_s();
  if (!socket) {
    forming_[a.peer].reason = fmt::format("{}: {}", a.target, reason);
    return;
  }
  a.deadline_s = now_s() + kPatience_s;
  const int fd = socket.get();
  a.conversation = Conversation::connector(std::move(socket), secret_,
                                           {.epoch = membership_.epoch,
                                            .from = membership_.rank,
                                            .to = a.peer,
                                            .stream = static_cast<uint16_t>(a.stream),
                                            .streams = static_cast<uint16_t>(a.streams),
                                            .transport = a.transport,
                                            .nonce = random_nonce()});
  watch(fd, EPOLLIN | EPOLLOUT | EPOLLET, about(kAttempt, index));
}

void Links::on_attempt(size_t index) {
  Attempt& a = attempts_[index];
  if (!a.conversation) return;
  switch (a.conversation->advance()) {
    case Conversation::State::kTalking:
      return;
    case Conversation::State::kFailed:
      forming_[a.peer].reason = fmt::format("{}: {}", a.target, a.conversation->reason());
      a.conversation.reset();
      a.retry_at_s = now_s() + a.pause_s();
      return;
    case Conversation::State::kDone: {
      std::string reason;
      auto pipe = make_pipe(*a.conversation, Role::kConnector, &reason);
      a.conversation.reset();
      a.done = pipe != nullptr;
      a.connected_s = now_s();
      if (pipe && peers_[a.peer]) --redialling_;
      if (pipe) {
        add_stream(a.peer, a.stream, a.streams, std::move(pipe));
      } else {
        forming_[a.peer].reason = fmt::format("{}: {}", a.target, reason);
      }
      return;
    }
  }
}

void Links::accept_guests(int listener) {
  while (true) {
    Fd socket(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    if (guests_.size() >= kMaxGuests) guests_.erase(guests_.begin());
    if (listener == listener_.get()) configure_tcp(socket.get(), options_, wire_ranks_);
    const uint64_t id = next_guest_++;
    const int fd = socket.get();
    guests_.emplace(
        id, Guest{Conversation::acceptor(std::move(socket), secret_,
                                         [this](const Hello& hello) { return is_welcome(hello); }),
                  now_s() + kPatience_s});
    watch(fd, EPOLLIN | EPOLLET, about(kGuest, id));
  }
}

std::unique_ptr<Pipe> Links::make_pipe(Conversation& c, Role role, std::string* reason) {
  const Hello hello = c.hello();
  const int other = role == Role::kConnector ? hello.to : hello.from;
  switch (hello.transport) {
    case Transport::kShm:
      return shm_pipe(c.take_socket(), role == Role::kConnector, reason);
    case Transport::kRdma: {
      const std::string& name = records_[other].rdma.rails[hello.stream].name;
      return rdma_pipe(rdma_ports_[hello.stream], c.take_socket(), c.proof(), role,
                       fmt::format("{} of rank {}", name, other));
    }
    case Transport::kTcp:
      break;
  }
  return tcp_pipe(c.take_socket());
}

// Whether such a stream is wanted; that the other side is who it says is yet to be proven.
bool Links::is_welcome(const Hello& hello) const {
  if (hello.epoch != membership_.epoch || hello.to != membership_.rank ||
      hello.from <= membership_.rank || hello.from >= membership_.size)
    return false;
  std::string reason;
  const int rails = shares_memory(hello.from)
                        ? 0
                        : count_rails(own_.rdma, records_[hello.from].rdma, hello.from, &reason);
  if ((hello.transport == Transport::kRdma) != (hello.stream < rails)) return false;
  if (const auto& peer = peers_[hello.from])
    return hello.transport == Transport::kTcp && peer->may_revive(hello.stream, hello.streams);
  const auto& pipes = forming_[hello.from].pipes;
  return pipes.empty() || pipes.size() == hello.streams;
}

void Links::on_guest(uint64_t id) {
  const auto found = guests_.find(id);
  if (found == guests_.end()) return;
  Conversation& c = found->second.conversation;
  const Conversation::State state = c.advance();
  if (state == Conversation::State::kTalking) return;
  if (state == Conversation::State::kDone && is_welcome(c.hello())) {
    const Hello hello = c.hello();
    std::string reason;
    auto pipe = make_pipe(c, Role::kAcceptor, &reason);
    if (pipe) add_stream(hello.from, hello.stream, hello.streams, std::move(pipe));
  }
  guests_.erase(found);
}

double Links::meet() {
  const double now = now_s();
  double next = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < attempts_.size(); ++i) {
    Attempt& a = attempts_[i];
    if (a.done) continue;
    if (peers_[a.peer] && !peers_[a.peer]->misses(a.stream)) {  // it has left, or is lost
      a.conversation.reset();
      a.done = true;
      --redialling_;
      continue;
    }
    if (a.conversation && now > a.deadline_s) {
      forming_[a.peer].reason = fmt::format("{}: no answer", a.target);
      a.conversation.reset();
    }
    if (!a.conversation && now >= a.retry_at_s) start(i);
    next = std::min(next, a.conversation ? a.deadline_s : a.retry_at_s);
  }
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    if (now > guest->second.deadline_s) {
      guest = guests_.erase(guest);
    } else {
      next = std::min(next, guest->second.deadline_s);
      ++guest;
    }
  }
  return next;
}

std::string Links::missing() const {
  std::vector<int> ranks;
  std::string reason;
  for (int rank = 0; rank < membership_.size; ++rank) {
    if (rank == membership_.rank || peers_[rank]) continue;
    ranks.push_back(rank);
    if (reason.empty()) reason = forming_[rank].reason;
  }
  return fmt::format("rank{} {}{}", ranks.size() > 1 ? "s" : "", list(ranks),
                     reason.empty() ? "" : fmt::format(" ({})", reason));
}

}  // namespace stretto::comm
