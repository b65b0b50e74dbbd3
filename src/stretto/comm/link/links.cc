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
#include "stretto/comm/link/fork.h"
#include "stretto/comm/link/verdict.h"

namespace stretto::comm {
namespace {

constexpr int kEventsPerPoll = 64;
constexpr uint64_t kStreamsPerPeer = 1 << 16;
constexpr int kFirstStreams = 2;             // before it is known how many pay
constexpr uint64_t kPressedBytes = 1 << 20;  // under way: the links are what limits them
// Chunks that may be in the middle of being written, per kFirstStreams of streams to a peer: some
// keep the card busy while the connection of another gains speed. Fewer where ranks share a card.
constexpr int kTurns = 4, kSharedTurns = 2;
constexpr double kLongestTurn_s = 0.02;  // then it is another's, so that slow ones hold up nobody

// Shares of options.silent_limit_s, within which every rank has to know: time is left for the beat
// that notices and for agreeing on the reason.
constexpr double kBeatShare = 0.1;
constexpr double kLostShare = 0.75;    // a peer
constexpr double kStreamShare = 0.25;  // a stream, while another of the same peer is heard
constexpr double kMostBeat_s = 1;
// Pauses before a broken stream is dialled again double up to this, and begin anew for one that
// held so long.
constexpr double kMostRedialPause_s = 60;

double beat_interval_s(const Options& options) {
  return std::min(options.silent_limit_s * kBeatShare, kMostBeat_s);
}

}  // namespace

Links::Links(Store& store, Membership membership, const Options& options)
    : membership_(membership),
      options_(options),
      choice_(options.streams > 0 ? options.streams : kFirstStreams,
              options.streams > 0 ? options.streams : options.connected_streams()) {
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  doorbell_ = Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_ || !doorbell_) throw CommError(-1, "tcp", "no file descriptors left");
  close_in_children(epoll_.get());
  watch(doorbell_.get(), EPOLLIN, about(kDoorbell, 0));
  peers_.resize(membership_.size);
  chooses_.resize(membership_.size, true);
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
  close_in_children(fd);
  epoll_event event{.events = events, .data = {.u64 = what}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 && errno == EEXIST)
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Links::interrupt() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(doorbell_.get(), &one, sizeof one);
}

void Links::wake() {
  if (!asleep_) return;
  for (const auto& peer : peers_) {
    if (!peer || !peer->waits()) continue;
    interrupt();
    asleep_ = false;
    return;
  }
}

// Every rank begins with the one after it: if all began with rank 0, its card would be the limit at
// first and at the end the others would wait for rank 7's.
void Links::flush() {
  const size_t size = peers_.size();
  bool wanted = false;
  for (size_t i = 1; i < size; ++i) {
    Peer* peer = peers_[(static_cast<size_t>(membership_.rank) + i) % size].get();
    if (!peer) continue;
    if (peer->waits()) peer->flush();
    wanted |= peer->wants_turn();
  }
  turns_end_ = false;
  if (wanted) give_turns();
}

// Ranks that all write to all others at once ruin one another's connections after a pause, when
// each gains speed anew: those that are first fill the queues, the acknowledgements of the others
// wait in them, and some cards have nothing to send. So large chunks are begun a few at a time, in
// the order of ranks, which spreads them over all cards.
void Links::give_turns() {
  const size_t size = peers_.size();
  const double since = now_s() - kLongestTurn_s;
  const bool alone = wire_ranks_ + 1 == membership_.size;
  const int most = (alone ? kTurns : kSharedTurns) * std::max(choice_.count() / kFirstStreams, 1);
  int taken = 0;
  for (const auto& peer : peers_) taken += peer ? peer->turns_since(since) : 0;
  if (taken == 0) next_turn_ = (static_cast<size_t>(membership_.rank) + 1) % size;
  for (size_t passed = 0; passed < size && taken < most; ++passed) {
    Peer* peer = peers_[next_turn_].get();
    next_turn_ = (next_turn_ + 1) % size;
    if (!peer || !peer->wants_turn()) continue;
    const int before = peer->turns_since(since);
    peer->give_turn();
    taken += peer->turns_since(since) - before;
    passed = 0;
  }
  turns_end_ = taken >= most;
}

void Links::watch_pipe(const Pipe& pipe, int peer, int stream) {
  for (int fd : pipe.descriptors()) {
    watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
          about(kStream, static_cast<uint64_t>(peer) * kStreamsPerPeer + stream));
  }
}

void Links::add_stream(int peer, int stream, int streams, std::unique_ptr<Pipe> pipe) {
  if (peers_[peer]) {
    watch_pipe(*pipe, peer, stream);
    peers_[peer]->revive(stream, std::move(pipe));
    return;
  }
  Forming& forming = forming_[peer];
  forming.pipes.resize(streams);
  forming.pipes[stream] = std::move(pipe);
  if (std::any_of(forming.pipes.begin(), forming.pipes.end(), [](const auto& p) { return !p; }))
    return;
  peers_[peer] = std::make_unique<Peer>(
      PeerSettings{.rank = peer,
                   .epoch = membership_.epoch,
                   .chunk_bytes = static_cast<uint64_t>(options_.chunk_bytes),
                   // More would let a slow stream sit on what a faster one could take.
                   .batch_bytes = static_cast<uint64_t>(options_.chunk_bytes),
                   .early_bytes = static_cast<uint64_t>(options_.early_bytes /
                                                        std::max(membership_.size - 1, 1)),
                   .takes_turns = wire_ranks_ > kTurns && !shares_memory(peer)},
      &events_);
  peers_[peer]->use_streams(choice_.count());
  for (int i = 0; i < streams; ++i) {
    watch_pipe(*forming.pipes[i], peer, i);
    peers_[peer]->attach(i, streams, std::move(forming.pipes[i]));
  }
  --unformed_;
}

void Links::use_streams(int rank, int count) {
  chooses_[rank] = count == 0;
  peers_[rank]->use_streams(count > 0 ? count : choice_.count());
}

void Links::choose_streams(double now) {
  uint64_t under_way = 0, acknowledged = 0;
  for (const auto& peer : peers_) {
    if (!peer || !chooses_[peer->rank()]) continue;
    under_way += peer->under_way_bytes();
    acknowledged += peer->acknowledged_bytes();
  }
  if (!choice_.observe(under_way >= kPressedBytes, static_cast<int64_t>(acknowledged), now)) return;
  for (const auto& peer : peers_) {
    if (peer && chooses_[peer->rank()]) peer->use_streams(choice_.count());
  }
}

void Links::poll(std::unique_lock<std::mutex>& lock, double max_wait_s) {
  double now = now_s();
  excuse_pause(now - last_poll_s_);
  double until = std::min(now + max_wait_s, next_beat_s_);
  redial();
  if (unformed_ > 0 || redialling_ > 0 || !guests_.empty()) until = std::min(until, meet());
  flush();
  if (turns_end_) until = std::min(until, now + kLongestTurn_s);
  choose_streams(now);
  bool busy = false;
  for (auto& peer : peers_) busy |= peer && peer->look(max_wait_s > 0);
  const double wait_s = busy || !events_.empty() ? 0 : std::max(until - now, 0.0);
  const double slept_from = now;

  std::array<epoll_event, kEventsPerPoll> ready;
  asleep_ = wait_s > 0;
  lock.unlock();
  const int count = epoll_wait(epoll_.get(), ready.data(), kEventsPerPoll,
                               static_cast<int>(std::ceil(wait_s * 1000)));
  lock.lock();
  asleep_ = false;
  for (int i = 0; i < count; ++i) handle(ready[i].data.u64, ready[i].events);
  if (busy) {
    for (auto& peer : peers_) {
      if (peer) peer->run_ready();
    }
  }
  now = last_poll_s_ = now_s();
  excuse_pause(now - slept_from - wait_s);
  if (now >= next_beat_s_) beat(now);
}

bool Links::glance() {
  const double now = now_s();
  excuse_pause(now - last_poll_s_);
  last_poll_s_ = now;
  if (now >= next_beat_s_) {
    redial();
    beat(now);
  }
  bool busy = !events_.empty();
  for (auto& peer : peers_) {
    if (!peer || !peer->look(false)) continue;
    peer->run_ready();
    busy = true;
  }
  std::array<epoll_event, kEventsPerPoll> ready;
  const int count = busy ? 0 : epoll_wait(epoll_.get(), ready.data(), kEventsPerPoll, 0);
  for (int i = 0; i < count; ++i) handle(ready[i].data.u64, ready[i].events);
  return busy || count > 0;
}

// Notices streams that broke and that this rank had opened.
void Links::redial() {
  int lost = 0;
  for (const auto& peer : peers_) lost += peer ? peer->lost_streams() : 0;
  if (lost == lost_streams_ || options_.redial_s <= 0) return;
  lost_streams_ = lost;
  const double now = now_s();
  for (Attempt& a : attempts_) {
    if (!a.done || a.transport != Transport::kTcp || !peers_[a.peer] ||
        !peers_[a.peer]->misses(a.stream))
      continue;
    if (a.first_pause_s != options_.redial_s || now - a.connected_s > kMostRedialPause_s)
      a.tries = 0;
    a.first_pause_s = options_.redial_s;
    a.most_pause_s = kMostRedialPause_s;
    a.retry_at_s = now + a.pause_s();
    a.done = false;
    ++redialling_;
  }
}

// A process that was stopped for a while has heard nothing, and that is nobody's fault.
void Links::excuse_pause(double pause_s) {
  if (pause_s < options_.silent_limit_s * kStreamShare / 2) return;
  for (auto& peer : peers_) {
    if (peer) peer->excuse_silence(pause_s);
  }
}

bool Links::hears_anyone() const {
  const double since = now_s() - options_.silent_limit_s * kLostShare / 2;
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
    return peer && peer->alive() && peer->last_heard_s() > since;
  });
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
    peer->beat(options_.silent_limit_s * kStreamShare);
    const double silence_s = now - peer->last_heard_s();
    if (silence_s < options_.silent_limit_s * kLostShare || peer->departed) continue;
    const std::string reason = fmt::format("silent for {:.1f} s", silence_s);
    const Verdict told{.origin = peer->rank(),
                       .finder = membership_.rank,
                       .link{},
                       .text = fmt::format("rank {} was {} and is given up by rank {}",
                                           peer->rank(), reason, membership_.rank)};
    peer->send_control(FrameType::kAbort, abort_key(told), told.origin, abort_text(told));
    peer->give_up(reason);
  }
}

}  // namespace stretto::comm
