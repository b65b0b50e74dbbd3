#include "stretto/comm/link/links.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <span>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/link/verdict.h"
#include "stretto/comm/system/children.h"
#include "stretto/comm/system/descriptors.h"

namespace stretto::comm {
namespace {

constexpr int kEventsPerPoll = 64;
constexpr int kFirstStreams = 2;  // used until StreamChoice has measured, where there are rails
// A chunk that takes longer no longer counts, so a slow link does not hold up the others.
constexpr double kPacedChunkTimeout_s = 0.02;
constexpr double kLeftChunks_s = 0.01;  // a slow stream looks again at chunks that it left

// Shares of options.silent_limit_s, within which every rank has to know of a silent rank. They
// leave time for the beat that notices and for agreeing on the reason.
constexpr double kBeatShare = 0.1;
constexpr double kLostShare = 0.75;    // a rank
constexpr double kStreamShare = 0.25;  // a stream, while another of the same rank is heard
constexpr double kMostBeat_s = 1;
// Files of a rank beside its links, and descriptors of a link over shared memory.
constexpr int64_t kOtherFiles = 256, kFilesOfLocalLink = 3;

double beat_interval_s(const Options& options) {
  return std::min(options.silent_limit_s * kBeatShare, kMostBeat_s);
}

// epoll_pwait2, which Linux has since 5.11 and older headers do not name.
constexpr int64_t kEpollPwait2 = 441;

// Like epoll_wait, which rounds up to milliseconds; so does this where the kernel or a container
// does not allow better.
int wait_for_events(int epoll, std::span<epoll_event> ready, double wait_s) {
  static std::atomic<bool> fine{true};
  const auto most = static_cast<int>(ready.size());
  if (fine && wait_s > 0) {
    const auto whole_s = static_cast<int64_t>(wait_s);
    const timespec limit{
        .tv_sec = whole_s,
        .tv_nsec = static_cast<int64_t>((wait_s - static_cast<double>(whole_s)) * 1e9)};
    static_assert(sizeof limit == 16);
    const auto count = static_cast<int>(
        syscall(kEpollPwait2, epoll, ready.data(), most, &limit, nullptr, size_t{0}));
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    fine = false;
  }
  return epoll_wait(epoll, ready.data(), most, static_cast<int>(std::ceil(wait_s * 1000)));
}

}  // namespace

Links::Links(Store& store, Membership membership, const Options& options, const Callers* callers)
    : membership_(membership),
      options_(options),
      callers_(callers),
      choice_(options.streams > 0 ? options.streams : kFirstStreams,
              options.streams > 0 ? options.streams : options.connected_streams()) {
  const int64_t files_of_link = std::max<int64_t>(options.connected_streams(), kFilesOfLocalLink);
  raise_descriptor_limit(kOtherFiles + membership.size * files_of_link);
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  doorbell_ = Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_ || !doorbell_) {
    const int error = errno;
    throw CommError(
        -1, "tcp",
        fmt::format("cannot create epoll and event descriptors: {}{}", std::strerror(error),
                    out_of_descriptors(error) ? "; " + descriptor_advice(4) : ""));
  }
  close_in_children(epoll_.get());
  watch(doorbell_.get(), EPOLLIN, about(kDoorbell, 0));
  links_.resize(membership_.size);
  contacts_.resize(membership_.size);
  publish(store);
  read_records(store);
  check_transports();
  if (options_.streams == 0 && has_one_rail()) choice_ = {1, options_.connected_streams()};
  listen(true);  // earlier connections wait in the listener's queue until here
  connect_to_neighbours();
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
  for (const Link* link : active_) {
    if (!link->waits()) continue;
    interrupt();
    asleep_ = false;
    return;
  }
}

// The place in active_ of the first link to this rank or a higher one; 0 when there is none.
size_t Links::place_of(int rank) const {
  const auto found = std::lower_bound(active_.begin(), active_.end(), rank,
                                      [](const Link* link, int r) { return link->rank() < r; });
  return found == active_.end() ? 0 : static_cast<size_t>(found - active_.begin());
}

// Every rank begins with the next higher rank. If all began with rank 0, its card would be the
// bottleneck at first, and the last rank's card at the end.
void Links::flush() {
  bool wanted = false, more = false;
  const size_t count = active_.size(), first = place_of(membership_.rank);
  for (size_t i = 0; i < count; ++i) {
    Link* link = active_[(first + i) % count];
    if (link->waits()) more |= link->flush();
    wanted |= link->awaits_pacing();
    leaves_chunks_ |= link->leaves_chunks();
  }
  pacing_waits_ = leaves_chunks_ = false;
  if (wanted) pace();
  unwritten_ = more;
  if (more) wake();
}

void Links::defer() {
  for (const Link* link : active_) unwritten_ |= link->waits();
  wake();
}

// When all ranks write to all others at once after a pause, TCP connections that gain speed first
// fill the queues of the network; the acknowledgements of the others wait in these queues, and some
// cards have nothing to send. Beginning a few large chunks at a time, in the order of ranks,
// spreads them over all cards.
void Links::pace() {
  const double since = now_s() - kPacedChunkTimeout_s;
  const bool alone = wire_ranks_ + 1 == membership_.size;
  const int most = (alone ? kPacedChunks : kPacedChunksOnSharedCard) *
                   std::max(choice_.count() / kFirstStreams, 1);
  int taken = 0;
  for (const Link* link : active_) taken += link->paced_chunks_since(since);
  const size_t count = active_.size();
  size_t next = place_of(taken == 0 ? membership_.rank : next_paced_);
  for (size_t passed = 0; passed < count && taken < most; ++passed) {
    Link& link = *active_[next];
    next = (next + 1) % count;
    if (!link.awaits_pacing()) continue;
    const int before = link.paced_chunks_since(since);
    link.begin_paced_chunk();
    taken += link.paced_chunks_since(since) - before;
    passed = 0;
  }
  next_paced_ = active_[next]->rank();
  pacing_waits_ = taken >= most;
}

void Links::watch_pipe(const Pipe& pipe, int rank, int stream) {
  for (int fd : pipe.descriptors()) {
    watch(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
          about(kStream, static_cast<uint64_t>(rank) * kStreamsPerLink + stream));
  }
}

void Links::poll(std::unique_lock<std::mutex>& lock, double max_wait_s) {
  double now = now_s();
  excuse_pause(now - last_poll_s_);
  double until = std::min(now + max_wait_s, next_beat_s_);
  redial();
  if (meets()) until = std::min(until, meet());
  flush();
  if (pacing_waits_) until = std::min(until, now + kPacedChunkTimeout_s);
  if (leaves_chunks_) until = std::min(until, now + kLeftChunks_s);
  choose_streams(now);
  bool busy = false;
  for (Link* link : active_) busy |= link->look(max_wait_s > 0);
  const double wait_s = busy || unwritten_ || !events_.empty() ? 0 : std::max(until - now, 0.0);
  const double slept_from = now;

  std::array<epoll_event, kEventsPerPoll> ready;
  asleep_ = wait_s > 0;
  lock.unlock();
  const int count = wait_for_events(epoll_.get(), ready, wait_s);
  lock.lock();
  asleep_ = false;
  for (int i = 0; i < count; ++i) handle(ready[i].data.u64, ready[i].events);
  if (busy) {
    for (Link* link : active_) link->run_ready();
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
  const bool writes = unwritten_;
  if (writes) flush();
  bool busy = writes || !events_.empty();
  for (Link* link : active_) {
    if (!link->look(false)) continue;
    link->run_ready();
    busy = true;
  }
  std::array<epoll_event, kEventsPerPoll> ready;
  const int count = busy ? 0 : epoll_wait(epoll_.get(), ready.data(), kEventsPerPoll, 0);
  for (int i = 0; i < count; ++i) handle(ready[i].data.u64, ready[i].events);
  return busy || count > 0;
}

// A process that was stopped for a while read nothing; the remote ranks were not silent.
void Links::excuse_pause(double pause_s) {
  if (pause_s < options_.silent_limit_s * kStreamShare / 2) return;
  for (Link* link : active_) link->excuse_silence(pause_s);
  for (int rank : connecting_) contacts_[rank].asked_s += pause_s;
}

bool Links::hears_anyone() const {
  const double since = now_s() - options_.silent_limit_s * kLostShare / 2;
  return std::any_of(active_.begin(), active_.end(), [&](const Link* link) {
    return link->alive() && link->last_heard_s() > since;
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
      accept_guests(static_cast<int>(index));
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
  drop_ended();  // here nobody else goes through active_
  for (Link* link : active_) {
    if (!link->alive()) continue;
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
