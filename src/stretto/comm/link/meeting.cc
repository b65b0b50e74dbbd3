// How streams are connected: attempts of this rank, and guests, whose attempts others are.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/link/links.h"
#include "stretto/comm/link/rdma.h"
#include "stretto/comm/link/shm.h"
#include "stretto/comm/link/speed.h"
#include "stretto/comm/system/descriptors.h"

namespace stretto::comm {
namespace {

constexpr double kHandshakeTimeout_s = 20;
constexpr size_t kMaxGuests = 1024;  // at once; one more closes the oldest
constexpr int kMostStreamsOfLink = 256;

// When descriptors run out, the listeners rest for a while. If that does not help for so long, the
// job ends.
constexpr double kListenPause_s = 0.1, kShortage_s = 5;
constexpr int64_t kDescriptorsOfLink = 4;  // shared memory: 3, and one while its memory is passed

}  // namespace

void Links::start(uint64_t key) {
  Attempt& a = attempts_.at(key);
  const RankRecord& record = records_[a.rank];
  Refusal refusal;
  Fd socket;
  if (shares_memory(a.rank)) {
    a.target = "shm";
    socket = connect_local(record.local_name, &refusal);
  } else {
    const bool loopback = record.machine == own_.machine && record.listens_everywhere;
    const Route route = choose_route(own_.addresses, record.addresses, names_rails(options_),
                                     loopback, a.place, a.tries);
    a.target = fmt::format("tcp {}", with_port(route.to, record.port));
    socket = connect_tcp(route.from, route.to, record.port, options_, wire_ranks_, &refusal);
  }
  ++a.tries;
  a.retry_at_s = now_s() + a.pause_s();
  if (!socket) {
    note_failure(a, refusal.error, refusal.text);
    return;
  }
  short_since_s_ = 0;
  a.deadline_s = now_s() + kHandshakeTimeout_s;
  const int fd = socket.get();
  const bool calls = a.transport == Transport::kCall;
  const Contact& contact = contacts_[a.rank];
  const bool tags =
      wants_tags(options_, a.transport, record.machine == own_.machine, socket_speed_mbit(fd));
  a.conversation = Conversation::connector(
      std::move(socket), secret_,
      {.epoch = membership_.epoch,
       .from = membership_.rank,
       .to = a.rank,
       .stream = static_cast<uint16_t>(calls ? 0 : a.stream),
       .streams = static_cast<uint16_t>(calls ? contact.opened : contact.most),
       .transport = a.transport,
       .tags = tags,
       .nonce = random_nonce()});
  watch(fd, EPOLLIN | EPOLLOUT | EPOLLET, about(kAttempt, key));
}

void Links::on_attempt(uint64_t key) {
  const auto found = attempts_.find(key);
  if (found == attempts_.end() || !found->second.conversation) return;
  Attempt& a = found->second;
  const Conversation::State state = a.conversation->advance();
  if (state == Conversation::State::kTalking) return;
  std::optional<Conversation> conversation = std::exchange(a.conversation, std::nullopt);
  a.retry_at_s = now_s() + a.pause_s();
  if (state == Conversation::State::kFailed) {
    note_failure(a, conversation->error(), conversation->reason());
    return;
  }
  a.refused_since_s = 0;
  if (a.transport == Transport::kCall) return;  // meet() calls again if the rank does not connect
  std::string reason;
  errno = 0;
  auto pipe = make_pipe(*conversation, Role::kConnector, &reason);
  if (!pipe) {
    note_failure(a, errno, reason);
    return;
  }
  a.connected_s = now_s();
  pending_.erase(key);
  add_stream(a.rank, a.stream, contacts_[a.rank].most, std::move(pipe));
}

// A rank listens before anybody can know its address, and until it leaves. So where nobody listens
// for some time it has left, or it died and its neighbours end the job.
void Links::note_failure(Attempt& a, int error, std::string_view reason) {
  Contact& contact = contacts_[a.rank];
  contact.target = a.target;
  contact.reason = reason;
  note_shortage(error);
  const double now = now_s();
  if (error != ECONNREFUSED) {
    a.refused_since_s = 0;
  } else if (a.refused_since_s == 0) {
    a.refused_since_s = now;
  } else if (now - a.refused_since_s > options_.silent_limit_s / 2 && is_connecting(a.rank) &&
             !is_neighbour(a.rank)) {
    end_contact(a.rank, reason, true);
  }
}

void Links::accept_guests(int listener) {
  while (true) {
    Fd socket(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (note_shortage(errno)) listen(false);
      return;
    }
    short_since_s_ = 0;
    if (guests_.size() >= kMaxGuests) guests_.erase(guests_.begin());
    if (listener != local_listener_) configure_tcp(socket.get(), options_, wire_ranks_);
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
    case Transport::kCall:
      break;
  }
  auto pipe = tcp_pipe(c.take_socket());
  if (hello.tags) pipe->keys = frame_keys(c.proof(), role);
  return pipe;
}

// Whether this stream or call is expected. The remote rank has not proven its identity yet.
bool Links::is_welcome(const Hello& hello) const {
  const int from = hello.from;
  if (hello.epoch != membership_.epoch || hello.to != membership_.rank ||
      from >= membership_.size || from == membership_.rank)
    return false;
  if (hello.transport == Transport::kCall) return from < membership_.rank;
  if (from < membership_.rank || hello.streams > kMostStreamsOfLink) return false;
  const bool rail = hello.stream < rails_to(from);
  if (hello.transport != (shares_memory(from) ? Transport::kShm
                          : rail              ? Transport::kRdma
                                              : Transport::kTcp))
    return false;
  const Contact& contact = contacts_[from];
  if (contact.lost) return false;
  if (contact.stands)
    return hello.transport == Transport::kTcp &&
           links_[from]->may_revive(hello.stream, hello.streams);
  return contact.pipes.empty() || contact.pipes.size() == hello.streams;
}

void Links::on_guest(uint64_t id) {
  const auto found = guests_.find(id);
  if (found == guests_.end()) return;
  Conversation& c = found->second.conversation;
  const Conversation::State state = c.advance();
  if (state == Conversation::State::kTalking) return;
  const Hello hello = c.hello();
  std::string reason;
  if (state == Conversation::State::kFailed) {
    if (c.greeted()) reason = c.reason();
  } else if (is_welcome(hello)) {
    if (hello.transport == Transport::kCall) {
      open_streams(hello.from, hello.streams);
    } else {
      errno = 0;
      auto pipe = make_pipe(c, Role::kAcceptor, &reason);
      if (pipe) {
        add_stream(hello.from, hello.stream, hello.streams, std::move(pipe));
      } else {
        note_shortage(errno);
      }
    }
  }
  if (!reason.empty() && !contacts_[hello.from].stands)
    contacts_[hello.from].reason = fmt::format("a connection failed: {}", reason);
  guests_.erase(id);
}

bool Links::meets() const {
  return !pending_.empty() || !guests_.empty() || !connecting_.empty() || listen_again_s_ > 0;
}

double Links::meet() {
  const double now = now_s();
  double next = expire_contacts(now);
  for (uint64_t key : std::vector<uint64_t>(pending_.begin(), pending_.end())) {
    Attempt& a = attempts_.at(key);
    if (!is_needed(a)) {
      a.conversation.reset();
      pending_.erase(key);
      continue;
    }
    if (a.conversation && now > a.deadline_s) {
      a.conversation.reset();
      note_failure(a, 0, fmt::format("no answer within {:g} s", kHandshakeTimeout_s));
    }
    if (!a.conversation && now >= a.retry_at_s) start(key);
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
  if (listen_again_s_ > 0) {
    if (now >= listen_again_s_) listen(true);
    if (listen_again_s_ > 0) next = std::min(next, listen_again_s_);
  }
  check_shortage(now);
  return next;
}

// Watches the listeners or lets them rest. While no descriptor is left, they would be readable all
// the time, and nothing could be read.
void Links::listen(bool on) {
  listen_again_s_ = on ? 0 : now_s() + kListenPause_s;
  const uint32_t events = on ? uint32_t{EPOLLIN} : 0;
  for (const Fd& listener : listeners_)
    watch(listener.get(), events, about(kListener, static_cast<uint64_t>(listener.get())));
}

bool Links::note_shortage(int error) {
  if (!out_of_descriptors(error)) return false;
  if (short_since_s_ == 0) short_since_s_ = now_s();
  return true;
}

void Links::check_shortage(double now) {
  if (short_since_s_ == 0 ||
      now - short_since_s_ < std::min(kShortage_s, options_.connect_timeout_s / 2))
    return;
  short_since_s_ = 0;
  int64_t links = 0;
  for (const Link* link : active_) links += !contacts_[link->rank()].stands;
  throw CommError(membership_.rank, "tcp",
                  fmt::format("rank {} cannot open another connection: {}", membership_.rank,
                              descriptor_advice(kDescriptorsOfLink * std::max<int64_t>(links, 1))));
}

}  // namespace stretto::comm
