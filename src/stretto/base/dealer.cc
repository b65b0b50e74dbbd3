#include "stretto/base/dealer.h"

#include "stretto/base/clock.h"
#include "stretto/base/fork.h"
#include "stretto/base/wait.h"

namespace stretto {
namespace {

// A word of Place::taken: the tag above, the count below.
constexpr int kCountBits = 16;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;

// About a microsecond: units of others are taken only when these do not end by themselves, because
// to look at them takes their counters out of the others' caches.
constexpr int kSpinsBeforeTaking = 64;

// Between two looks at a thread that is waited for. Much shorter than a time slice of the system,
// and long enough to see whether that thread runs.
constexpr auto kPatience = std::chrono::microseconds(100);

// So often it spins between two looks, and sleeps later. Units last about that long, and to be
// woken takes half of that: sleeping at once would make two threads 4 % slower on ResNet-50. The
// core is not needed by the others, because bring_here() and spread() see to that.
constexpr int kSpinningLooks = 2;

}  // namespace

Dealer::Dealer(int threads, std::vector<int> units, bool has_team)
    : threads_(threads),
      units_(std::move(units)),
      open_(units_.size()),
      places_(std::make_unique<Place[]>(threads < 1 ? 0 : static_cast<size_t>(threads))),
      forks_(forks()),
      team_(has_team ? threads : 1) {}

void Dealer::run(const Job& job) {
  if (team_.size() == 1) return run_alone(job);
  if (forks_ != forks()) {  // in a child: the threads that held units are not here
    forks_ = forks();
    for (int i = 0; i < threads_; ++i) places_[i].occupant.reset();
  }
  const uint64_t stride = units_.size() + 1;
  const uint64_t first = (open_.load(std::memory_order_relaxed) / stride + 1) * stride;
  job_ = &job;
  done_.store(0, std::memory_order_relaxed);
  stop_.store(false, std::memory_order_relaxed);
  failure_ = nullptr;
  places_[0].occupant.set_thread();
  if (!job.seconds.empty()) opened_s_ = now_s();
  run_steps(first);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

// What goes wrong on the caller's thread is stored in failure_.
void Dealer::run_steps(uint64_t first) {
  const uint64_t end = first + units_.size();
  bool invited = false;
  for (uint64_t tag = first; tag != end; tag = open_.load(std::memory_order_acquire)) {
    const int step = step_of(tag);
    try {
      if (!dealt(step)) {
        job_->alone(step);
        job_->check();
      } else if (!invited) {
        // Opened before: a guest that finds nothing open goes back to sleep for the whole run.
        if (tag == first) advance(tag);
        team_.invite(
            [](void* self, const Worker& w) { static_cast<Dealer*>(self)->work(w.thread); }, this);
      }
    } catch (...) {
      failure_ = std::current_exception();
      advance(end);
      return;
    }
    invited = dealt(step);
    if (invited) {
      work(0);
      if (stop_.load(std::memory_order_relaxed)) return advance(end);
    } else {
      count_time(step);
      advance(tag + 1);
    }
  }
}

void Dealer::run_alone(const Job& job) {
  for (int step = 0; step < static_cast<int>(units_.size()); ++step) {
    const double start = job.seconds.empty() ? 0 : now_s();
    if (units_[step] == 0) {
      job.alone(step);
    } else {
      for (int share = 0; share < threads_; ++share) {
        job.unit(step, Worker{.index = share, .count = threads_});
        if (share + 1 < threads_) job.check();
      }
    }
    job.check();
    if (!job.seconds.empty()) job.seconds[step] += now_s() - start;
  }
}

// Until a step that is not dealt, or the pause.
void Dealer::work(int thread) {
  const auto occupant = [&](int i) -> Occupant& { return places_[i].occupant; };
  if (thread != 0) {
    places_[thread].occupant.set_thread();
    spread(thread, threads_, occupant);
  }
  for (;;) {
    const uint64_t tag = open_.load(std::memory_order_acquire);
    const int step = step_of(tag);
    if (!dealt(step)) return;
    take_part(thread, tag, step);
  }
}

void Dealer::take_part(int thread, uint64_t tag, int step) {
  const int units = units_[step];
  int done = 0;
  for (int unit; (unit = take(thread, tag, units)) >= 0; ++done) {
    do_unit(thread, thread, unit, step);
  }
  if (done > 0 && finish(done, tag, step)) return;
  for (int spins = 0; spins < kSpinsBeforeTaking; ++spins) {
    if (open_.load(std::memory_order_acquire) != tag) return;
    relax();
  }
  for (int i = 1; i < threads_; ++i) {
    const int share = (thread + i) % threads_;
    for (int unit; (unit = take(share, tag, units)) >= 0;) {
      do_unit(thread, share, unit, step);
      if (finish(1, tag, step)) return;
    }
  }
  wait(thread, tag);
}

// A unit of that share of the open step, or -1. Nothing is reset between steps: a tag that is lower
// than the open step's means that no unit is taken yet. A thread that comes late, with a tag of a
// step that has ended, finds all units taken: that is why it can end.
int Dealer::take(int share, uint64_t tag, int units) {
  std::atomic<uint64_t>& word = places_[share].taken;
  uint64_t seen = word.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t at = seen >> kCountBits;
    const uint64_t next = at == tag ? seen & kCountMask : 0;
    if (at > tag || next >= static_cast<uint64_t>(units)) return -1;
    if (word.compare_exchange_weak(seen, tag << kCountBits | (next + 1), std::memory_order_relaxed))
      return static_cast<int>(next);
  }
}

void Dealer::do_unit(int thread, int share, int unit, int step) {
  if (stop_.load(std::memory_order_relaxed)) return;
  const Job& job = *job_;
  places_[thread].occupant.enter();
  job.unit(step, Worker{.index = share,
                        .count = threads_,
                        .thread = thread,
                        .unit = unit,
                        .units = units_[step]});
  places_[thread].occupant.leave();
  if (thread != 0 || failure_) return;
  try {
    job.check();
  } catch (...) {
    failure_ = std::current_exception();
    stop_.store(true, std::memory_order_relaxed);
  }
}

// Counts units that are done. Whoever counts the last one opens the next step; true for that one.
bool Dealer::finish(int units, uint64_t tag, int step) {
  const int all = units_[step] * threads_;
  if (done_.fetch_add(units, std::memory_order_acq_rel) + units != all) return false;
  done_.store(0, std::memory_order_relaxed);
  count_time(step);
  advance(tag + 1);
  return true;
}

void Dealer::count_time(int step) {
  if (job_->seconds.empty()) return;
  const double now = now_s();
  job_->seconds[step] += now - opened_s_;
  opened_s_ = now;
}

void Dealer::advance(uint64_t tag) {
  open_.store(tag, std::memory_order_release);
  // Between these two the step may be done by others and further ones be opened, by threads that
  // find it in open_.
  raise_and_wake(bell_, static_cast<uint32_t>(tag));
}

void Dealer::wait(int thread, uint64_t tag) {
  const auto bell = static_cast<uint32_t>(tag);
  if (spin_while(bell_, bell)) return;
  const auto occupant = [&](int i) -> Occupant& { return places_[i].occupant; };
  Look look;
  for (int looks = 1;; ++looks) {
    const bool moved = bring_here(thread, threads_, occupant, look);
    spread(thread, threads_, occupant);
    const bool sleeps = moved || looks > kSpinningLooks;
    if (!sleeps && spin_while(bell_, bell, kPatience)) return;
    if (sleeps && sleep_while(bell_, bell, kPatience)) break;
  }
  spread(thread, threads_, occupant);
}

}  // namespace stretto
