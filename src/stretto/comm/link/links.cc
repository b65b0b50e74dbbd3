#include "stretto/comm/link/links.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

constexpr int kEventsPerPoll = 64;
constexpr uint64_t kStreamsPerPeer = 1 << 16;

double beat_interval_s(const Options& options) { return std::min(options.silent_limit_s / 4, 2.5); }

}  // namespace

Links::Links(Store& store, Membership membership, const Options& options)
    : membership_(membership), options_(options) {
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  doorbell_ = Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_ || !doorbell_) throw CommError(-1, "tcp", "no file descriptors left");
  watch(doorbell_.get(), EPOLLIN, about(kDoorbell, 0));
  peers_.resize(membership_.size);
  forming_.resize(membership_.size);
  unformed_ = membership_.size - 1;
  publish(store);
  read_records(store);
  // Only from here on does this rank answer; earlier connections wait in the listener's queue.
  watch(listener_.get(), EPOLLIN, about(kListener, 0));
  if (local_listener_) watch(local_listener_.get(), EPOLLIN, about(kListener, 1));
  begin_attempts();
  last_poll_s_ = now_s();
  next_beat_s_ = last_poll_s_ + beat_interval_s(options_);
}

Links::~Links() = default;

void Links::watch(int fd, uint32_t events, uint64_t what) {
  epoll_event event{.events = events, .data = {.u64 = what}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno == EEXIST)
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Links::interrupt() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(doorbell_.get(), &one, sizeof one);
}

void Links::add_stream(int peer, int stream, int streams, std::unique_ptr<Pipe> pipe) {
  Forming& forming = forming_[peer];
  forming.pipes.resize(streams);
  forming.pipes[stream] = std::move(pipe);
  if (std::any_of(forming.pipes.begin(), forming.pipes.end(), [](const auto& p) { return !p; }))
    return;
  peers_[peer] = std::make_unique<Peer>(
      PeerSettings{.rank = peer,
                   .epoch = membership_.epoch,
                   .chunk_bytes = static_cast<uint64_t>(options_.chunk_bytes),
                   .batch_bytes = static_cast<uint64_t>(options_.fuse_bytes)},
      &events_);
  peers_[peer]->last_heard_s = now_s();
  for (int i = 0; i < streams; ++i) {
    for (int fd : forming.pipes[i]->descriptors()) {
      watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
            about(kStream, static_cast<uint64_t>(peer) * kStreamsPerPeer + i));
    }
    peers_[peer]->attach(i, streams, std::move(forming.pipes[i]));
  }
  --unformed_;
}

void Links::poll(std::unique_lock<std::mutex>& lock, double max_wait_s) {
  double now = now_s();
  // A process that was stopped for a while has heard nothing, and that is nobody's fault.
  if (now - last_poll_s_ > options_.silent_limit_s / 2) {
    for (auto& peer : peers_) {
      if (peer) peer->last_heard_s = now;
    }
  }
  last_poll_s_ = now;
  double until = std::min(now + max_wait_s, next_beat_s_);
  if (unformed_ > 0 || !guests_.empty()) until = std::min(until, meet());
  bool busy = false;
  for (auto& peer : peers_) busy |= peer && peer->prepare_to_sleep();
  const double wait_s = busy || !events_.empty() ? 0 : std::max(until - now, 0.0);

  std::array<epoll_event, kEventsPerPoll> ready;
  lock.unlock();
  const int count = epoll_wait(epoll_.get(), ready.data(), kEventsPerPoll,
                               static_cast<int>(std::ceil(wait_s * 1000)));
  lock.lock();
  for (int i = 0; i < count; ++i) handle(ready[i].data.u64, ready[i].events);
  if (busy) {
    for (auto& peer : peers_) {
      if (peer) peer->run_ready();
    }
  }
  now = now_s();
  if (now >= next_beat_s_) beat(now);
}

void Links::handle(uint64_t what, uint32_t events) {
  const uint64_t index = what & ((uint64_t{1} << kWhatShift) - 1);
  switch (static_cast<What>(what >> kWhatShift)) {
    case kDoorbell: {
      uint64_t rings;
      [[maybe_unused]] const ssize_t got = read(doorbell_.get(), &rings, sizeof rings);
      break;
    }
    case kListener:
      accept_guests(index == 0 ? listener_.get() : local_listener_.get());
      break;
    case kAttempt:
      on_attempt(index);
      break;
    case kGuest:
      on_guest(index);
      break;
    case kStream: {
      Peer& peer = *peers_[index / kStreamsPerPeer];
      const int stream = static_cast<int>(index % kStreamsPerPeer);
      if (events & ~EPOLLOUT)
        peer.on_readable(stream, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
      if (events & EPOLLOUT) peer.on_writable(stream);
      break;
    }
  }
}

void Links::beat(double now) {
  next_beat_s_ = now + beat_interval_s(options_);
  for (auto& peer : peers_) {
    if (!peer || !peer->alive()) continue;
    peer->beat();
    if (now - peer->last_heard_s < options_.silent_limit_s || peer->departed) continue;
    peer->give_up(fmt::format("silent for {:.1f} s", now - peer->last_heard_s));
  }
}

}  // namespace stretto::comm
