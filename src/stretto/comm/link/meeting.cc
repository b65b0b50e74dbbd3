// How links are made: attempts to connect, and guests that connect.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/link/links.h"
#include "stretto/comm/link/rdma.h"
#include "stretto/comm/link/shm.h"

namespace stretto::comm {
namespace {

constexpr double kHandshakeTimeout_s = 20;
constexpr size_t kMaxGuests = 1024;  // at once; one more closes the oldest

}  // namespace

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
  for (int rank = 0; rank < membership_.size; ++rank) {
    if (rank == membership_.rank) continue;
    const bool local = shares_memory(rank);
    if (!local && !transports.tcp)
      throw_invalid(
          "STRETTO_TRANSPORTS: shm alone does not reach rank {}, which is on another host; add tcp",
          rank);
    if (rank > membership_.rank) continue;  // it connects to this rank
    // RDMA rails come first, because a link that uses few streams uses the first ones.
    std::string reason;
    const int rails = local ? 0 : count_rails(own_.rdma, records_[rank].rdma, rank, &reason);
    const int streams = local ? 1 : rails + options_.connected_streams();
    for (int stream = 0; stream < streams; ++stream) {
      Attempt& attempt = attempts_.emplace_back();
      attempt.rank = rank;
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
  const Record& record = records_[a.rank];
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
    forming_[a.rank].reason = fmt::format("{}: {}", a.target, reason);
    return;
  }
  a.deadline_s = now_s() + kHandshakeTimeout_s;
  const int fd = socket.get();
  a.conversation = Conversation::connector(std::move(socket), secret_,
                                           {.epoch = membership_.epoch,
                                            .from = membership_.rank,
                                            .to = a.rank,
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
      forming_[a.rank].reason = fmt::format("{}: {}", a.target, a.conversation->reason());
      a.conversation.reset();
      a.retry_at_s = now_s() + a.pause_s();
      return;
    case Conversation::State::kDone: {
      std::string reason;
      auto pipe = make_pipe(*a.conversation, Role::kConnector, &reason);
      a.conversation.reset();
      a.done = pipe != nullptr;
      a.connected_s = now_s();
      if (pipe && links_[a.rank]) --redialling_;
      if (pipe) {
        add_stream(a.rank, a.stream, a.streams, std::move(pipe));
      } else {
        forming_[a.rank].reason = fmt::format("{}: {}", a.target, reason);
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
                  now_s() + kHandshakeTimeout_s});
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

// Whether this stream is expected. The remote rank has not proven its identity yet.
bool Links::is_welcome(const Hello& hello) const {
  if (hello.epoch != membership_.epoch || hello.to != membership_.rank ||
      hello.from <= membership_.rank || hello.from >= membership_.size)
    return false;
  std::string reason;
  const int rails = shares_memory(hello.from)
                        ? 0
                        : count_rails(own_.rdma, records_[hello.from].rdma, hello.from, &reason);
  if ((hello.transport == Transport::kRdma) != (hello.stream < rails)) return false;
  if (const auto& link = links_[hello.from])
    return hello.transport == Transport::kTcp && link->may_revive(hello.stream, hello.streams);
  const auto& pipes = forming_[hello.from].pipes;
  return pipes.empty() || pipes.size() == hello.streams;
}

void Links::on_guest(uint64_t id) {
  const auto found = guests_.find(id);
  if (found == guests_.end()) return;
  Conversation& c = found->second.conversation;
  const Conversation::State state = c.advance();
  if (state == Conversation::State::kTalking) return;
  if (state == Conversation::State::kFailed && c.greeted() && !links_[c.hello().from])
    forming_[c.hello().from].reason = fmt::format("a connection failed: {}", c.reason());
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
    if (links_[a.rank] && !links_[a.rank]->misses(a.stream)) {  // it has left, or is lost
      a.conversation.reset();
      a.done = true;
      --redialling_;
      continue;
    }
    if (a.conversation && now > a.deadline_s) {
      forming_[a.rank].reason =
          fmt::format("{}: no answer within {:g} s", a.target, kHandshakeTimeout_s);
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
    if (rank == membership_.rank || links_[rank]) continue;
    ranks.push_back(rank);
    if (reason.empty()) reason = forming_[rank].reason;
  }
  return fmt::format("rank{} {}{}", ranks.size() > 1 ? "s" : "", list_ranks(ranks),
                     reason.empty() ? "" : fmt::format(" ({})", reason));
}

}  // namespace stretto::comm
