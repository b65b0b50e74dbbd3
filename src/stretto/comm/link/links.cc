#include "stretto/comm/link/links.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/link/fork.h"
#include "stretto/comm/link/verdict.h"

namespace stretto::comm {
namespace {

constexpr int kEventsPerPoll = 64;
constexpr uint64_t kStreamsPerLink = 1 << 16;
constexpr int kFirstStreams = 2;             // used until StreamChoice has measured
constexpr uint64_t kPressedBytes = 1 << 20;  // with more under way, the links are the bottleneck
// How many paced chunks may be in the middle of being written, for each kFirstStreams streams of a
// link. Several keep the network card busy while one connection still gains speed; ranks that share
// a card need fewer. docs/design/gradient-engine.md has the measurements.
constexpr int kPacedChunks = 4, kPacedChunksOnSharedCard = 2;
// A chunk that takes longer no longer counts, so a slow link does not hold up the others.
constexpr double kPacedChunkTimeout_s = 0.02;

// Shares of options.silent_limit_s, within which every rank has to know of a silent rank. They
// leave time for the beat that notices and for agreeing on the reason.
constexpr double kBeatShare = 0.1;
constexpr double kLostShare = 0.75;    // a rank
constexpr double kStreamShare = 0.25;  // a stream, while another of the same rank is heard
constexpr double kMostBeat_s = 1;
// Pauses before a broken stream is connected again double up to this. They start again from
// options.redial_s for a stream that worked for this long.
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
  if (!epoll_ || !doorbell_)
    throw CommError(-1, "tcp",
                    fmt::format("cannot create epoll and event descriptors: {} (raise the limit on "
                                "open files: ulimit -n)",
                                std::strerror(errno)));
  close_in_children(epoll_.get());
  watch(doorbell_.get(), EPOLLIN, about(kDoorbell, 0));
  links_.resize(membership_.size);
  chooses_.resize(membership_.size, true);
  forming_.resize(membership_.size);
  unformed_ = membership_.size - 1;
  publish(store);
  read_records(store);
  // This rank answers only from here on; earlier connections wait in the listener's queue.
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
  for (const auto& link : links_) {
    if (!link || !link->waits()) continue;
    interrupt();
    asleep_ = false;
    return;
  }
}

// Every rank begins with the next higher rank. If all began with rank 0, its card would be the
// bottleneck at first, and the last rank's card at the end.
void Links::flush() {
  const size_t size = links_.size();
  bool wanted = false;
  for (size_t i = 1; i < size; ++i) {
    Link* link = links_[(static_cast<size_t>(membership_.rank) + i) % size].get();
    if (!link) continue;
    if (link->waits()) link->flush();
    wanted |= link->awaits_pacing();
  }
  pacing_waits_ = false;
  if (wanted) pace();
}

// When all ranks write to all others at once after a pause, TCP connections that gain speed first
// fill the queues of the network; the acknowledgements of the others wait in these queues, and some
// cards have nothing to send. Beginning a few large chunks at a time, in the order of ranks,
// spreads them over all cards.
void Links::pace() {
  const size_t size = links_.size();
  const double since = now_s() - kPacedChunkTimeout_s;
  const bool alone = wire_ranks_ + 1 == membership_.size;
  const int most = (alone ? kPacedChunks : kPacedChunksOnSharedCard) *
                   std::max(choice_.count() / kFirstStreams, 1);
  int taken = 0;
  for (const auto& link : links_) taken += link ? link->paced_chunks_since(since) : 0;
  if (taken == 0) next_paced_ = (static_cast<size_t>(membership_.rank) + 1) % size;
  for (size_t passed = 0; passed < size && taken < most; ++passed) {
    Link* link = links_[next_paced_].get();
    next_paced_ = (next_paced_ + 1) % size;
    if (!link || !link->awaits_pacing()) continue;
    const int before = link->paced_chunks_since(since);
    link->begin_paced_chunk();
    taken += link->paced_chunks_since(since) - before;
    passed = 0;
  }
  pacing_waits_ = taken >= most;
}

void Links::watch_pipe(const Pipe& pipe, int rank, int stream) {
  for (int fd : pipe.descriptors()) {
    watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
          about(kStream, static_cast<uint64_t>(rank) * kStreamsPerLink + stream));
  }
}

void Links::add_stream(int rank, int stream, int streams, std::unique_ptr<Pipe> pipe) {
  if (links_[rank]) {
    watch_pipe(*pipe, rank, stream);
    links_[rank]->revive(stream, std::move(pipe));
    return;
  }
  Forming& forming = forming_[rank];
  forming.pipes.resize(streams);
  forming.pipes[stream] = std::move(pipe);
  if (std::any_of(forming.pipes.begin(), forming.pipes.end(), [](const auto& p) { return !p; }))
    return;
  links_[rank] = std::make_unique<Link>(
      LinkSettings{.rank = rank,
                   .epoch = membership_.epoch,
                   .chunk_bytes = static_cast<uint64_t>(options_.chunk_bytes),
                   // A larger batch would keep data on a slow stream that a faster one could take.
                   .batch_bytes = static_cast<uint64_t>(options_.chunk_bytes),
                   .eager_limit_bytes = static_cast<uint64_t>(options_.eager_limit_bytes /
                                                              std::max(membership_.size - 1, 1)),
                   .paced = wire_ranks_ > kPacedChunks && !shares_memory(rank)},
      &events_);
  links_[rank]->use_streams(choice_.count());
  for (int i = 0; i < streams; ++i) {
    watch_pipe(*forming.pipes[i], rank, i);
    links_[rank]->attach(i, streams, std::move(forming.pipes[i]));
  }
  --unformed_;
}

void Links::use_streams(int rank, int count) {
  chooses_[rank] = count == 0;
  links_[rank]->use_streams(count > 0 ? count : choice_.count());
}

void Links::choose_streams(double now) {
  uint64_t under_way = 0, acknowledged = 0;
  for (const auto& link : links_) {
    if (!link || !chooses_[link->rank()]) continue;
    under_way += link->under_way_bytes();
    acknowledged += link->acknowledged_bytes();
  }
  if (!choice_.observe(under_way >= kPressedBytes, static_cast<int64_t>(acknowledged), now)) return;
  for (const auto& link : links_) {
    if (link && chooses_[link->rank()]) link->use_streams(choice_.count());
  }
}

void Links::poll(std::unique_lock<std::mutex>& lock, double max_wait_s) {
  double now = now_s();
  excuse_pause(now - last_poll_s_);
  double until = std::min(now + max_wait_s, next_beat_s_);
  redial();
  if (unformed_ > 0 || redialling_ > 0 || !guests_.empty()) until = std::min(until, meet());
  flush();
  if (pacing_waits_) until = std::min(until, now + kPacedChunkTimeout_s);
  choose_streams(now);
  bool busy = false;
  for (auto& link : links_) busy |= link && link->look(max_wait_s > 0);
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
    for (auto& link : links_) {
      if (link) link->run_ready();
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
  for (auto& link : links_) {
    if (!link || !link->look(false)) continue;
    link->run_ready();
    busy = true;
  }
  std::array<epoll_event, kEventsPerPoll> ready;
  const int count = busy ? 0 : epoll_wait(epoll_.get(), ready.data(), kEventsPerPoll, 0);
  for (int i = 0; i < count; ++i) handle(ready[i].data.u64, ready[i].events);
  return busy || count > 0;
}

// Schedules new connections for broken streams that this rank had opened.
void Links::redial() {
  int lost = 0;
  for (const auto& link : links_) lost += link ? link->lost_streams() : 0;
  if (lost == lost_streams_ || options_.redial_s <= 0) return;
  lost_streams_ = lost;
  const double now = now_s();
  for (Attempt& a : attempts_) {
    if (!a.done || a.transport != Transport::kTcp || !links_[a.rank] ||
        !links_[a.rank]->misses(a.stream))
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

// A process that was stopped for a while read nothing; the remote ranks were not silent.
void Links::excuse_pause(double pause_s) {
  if (pause_s < options_.silent_limit_s * kStreamShare / 2) return;
  for (auto& link : links_) {
    if (link) link->excuse_silence(pause_s);
  }
}

bool Links::hears_anyone() const {
  const double since = now_s() - options_.silent_limit_s * kLostShare / 2;
  return std::any_of(links_.begin(), links_.end(), [&](const auto& link) {
    return link && link->alive() && link->last_heard_s() > since;
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
      Link& link = *links_[index / kStreamsPerLink];
      const int stream = static_cast<int>(index % kStreamsPerLink);
      if (events & ~EPOLLOUT)
        link.on_readable(stream, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
      if (events & EPOLLOUT) link.on_writable(stream);
      break;
    }
  }
}

void Links::beat(double now) {
  next_beat_s_ = now + beat_interval_s(options_);
  for (auto& link : links_) {
    if (!link || !link->alive()) continue;
    link->beat(options_.silent_limit_s * kStreamShare);
    const double silence_s = now - link->last_heard_s();
    if (silence_s < options_.silent_limit_s * kLostShare || link->departed) continue;
    const std::string reason = fmt::format("silent for {:.1f} s", silence_s);
    const Verdict verdict{.origin = link->rank(),
                          .finder = membership_.rank,
                          .link{},
                          .text = fmt::format("rank {} was {}; rank {} gave it up", link->rank(),
                                              reason, membership_.rank)};
    link->send_control(FrameType::kAbort, abort_key(verdict), verdict.origin, abort_text(verdict));
    link->give_up(reason);
  }
}

}  // namespace stretto::comm
