// What the two sides of a loader share: threads that make batches, and the caller of next().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "stretto/data/fetcher.h"
#include "stretto/data/loader.h"
#include "stretto/data/sample_work.h"
#include "stretto/data/slots.h"
#include "stretto/media/operators/mix.h"

namespace stretto::data {

// Counters of random numbers hold 32 bits of the epoch (media/random.h).
inline constexpr int64_t kEpochs = int64_t{1} << 32;

// Throws InvalidArgument for the first option that makes no sense.
void check_options(const LoaderOptions& options, int64_t samples);
// Likewise, of what the dataset lacks for it.
void check_dataset(const LoaderOptions& options, const Dataset& dataset);
// Of targets: those of the options or of the dataset's names; 0 where nothing is mixed.
int64_t target_classes(const LoaderOptions& options, const Dataset& dataset);

// Of a loader with these options; throws InvalidArgument for an epoch that there is not.
void check_epoch(int64_t epoch);
// Likewise, for a position that is none of a loader's whose order has that hash and so many places.
void check_position(const Position& position, const LoaderOptions& options, uint64_t order,
                    int64_t places);
int64_t batches_of_epoch(const LoaderOptions& options, int64_t places, int64_t epoch);

// loader_plan.cc: which part of every batch of an epoch a rank has, as long as nobody divides it
// otherwise.
Cut epoch_cut(const LoaderOptions& options, int64_t epoch);
// `cut_at`: with LoaderOptions::divided, how the batch at a place is cut.
std::vector<int64_t> indices_of_epoch(const LoaderOptions& options, int64_t samples, int64_t epoch,
                                      const std::function<Cut(int64_t place)>& cut_at = {});

// Which samples a batch of this rank has.
struct BatchPlan {
  int64_t epoch = 0, begin = 0;  // `begin`: the batch's first place, of all ranks
  std::shared_ptr<const Order> order;
  Cut cut;
  const Shape* shape = nullptr;  // in the options

  int64_t global() const { return cut.global(); }
  int64_t batches() const { return batches_of(order->size(), cut, begin); }  // with this one
  // `j` may go on into the batches after this one. -1: padding.
  int64_t place(int64_t j) const {
    return place_of(order->size(), cut, begin + j / cut.batch * global(), j % cut.batch);
  }
  int64_t sample(int64_t j) const {
    const int64_t p = place(j);
    return p < 0 ? -1 : (*order)(p);
  }
};

// A batch in the making. Threads take its samples by counting `next` up and report by counting
// `left` down: whoever finds it at 0 may read everything else.
struct Job {
  BatchPlan plan, next_epoch;  // whose samples are read ahead at the end of this one
  std::shared_ptr<Slot> slot;
  int64_t since_jump = 0;  // samples of the jobs before it, back to the start or a jump
  std::atomic<int64_t> next{0}, left{0};
  // Masks of boxes for other processes are joined when none of its samples is left to be made, by
  // whoever made the last one, before `left` is 0.
  std::atomic<int64_t> apart{0};
  // Of each pair that is to be mixed, how many of its samples are there: who brings the second one
  // mixes both. Empty: no pairs.
  std::unique_ptr<std::atomic<uint8_t>[]> pairs;

  std::mutex mutex;  // of what follows, until `left` is 0
  int64_t error_at = INT64_MAX;
  std::exception_ptr error;  // of the first sample that failed

  bool done() const { return left.load(std::memory_order_acquire) == 0; }
};

// What the loaders of one process may share: where samples come from, and threads. A thread works
// for the loader whose caller has waited longest, or where none waits for the one with the fewest
// batches ready. Ends with its last loader.
struct LoaderTeam {
  // Throws as Loader does.
  LoaderTeam(Dataset dataset, LoaderOptions options);
  ~LoaderTeam();
  LoaderTeam(const LoaderTeam&) = delete;
  LoaderTeam& operator=(const LoaderTeam&) = delete;

  // workers.cc. `count` more threads come with the loader, and as many end when it has gone.
  void add(Loader::Impl& loader, int count);
  void remove(Loader::Impl& loader);  // returns when no thread works for it

  const LoaderOptions options;  // `rank` and `threads` are those of the first loader
  Source source;
  const uint64_t forks;

  std::mutex mutex;  // of what follows, and of what the loaders say
  std::condition_variable work_changed, left;
  std::atomic<bool> stopping{false};   // written with the lock
  std::vector<Loader::Impl*> loaders;  // in the order in which they came
  std::deque<Counters> counters;       // of each thread, also of those that have ended
  std::vector<Counters*> unused;       // of `counters`, by no thread: the next ones count on
  std::vector<std::thread> threads;    // that have not ended
  std::vector<std::thread> ended;      // to be joined
  int surplus = 0;                     // threads that are to end: their loaders have gone
  std::exception_ptr broken;           // why a thread ended
  // Counts callers that began to wait: threads then look anew for whom they work.
  std::atomic<uint64_t> turn{0};

 private:
  // What a thread has in hands.
  struct Work {
    Loader::Impl* loader = nullptr;
    std::shared_ptr<Job> job;
    uint64_t turn = 0;
  };
  void work(Counters& counters);
  void make_samples(Counters& counters, Work& work);
  bool take_work(Counters& counters, Work& work);  // false: this thread is to end
  void leave(Work& work);                          // with the lock
  Loader::Impl* neediest() const;
  bool awaits_room() const;  // with the lock, where nobody has work: for a batch that comes back
  void retire(Counters& counters);  // with the lock, by a thread that ends
  void join_ended();
  void stop();
};

struct Loader::Impl {
  Impl(std::shared_ptr<LoaderTeam> team, int64_t rank, int threads);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const Shape& shape_of(int64_t epoch) const;
  Cut cut_of(int64_t epoch) const;
  Cut cut_at(int64_t epoch, int64_t place) const;  // with the division there; with `mutex` held
  std::shared_ptr<const Order> order_of(int64_t epoch) const;
  // The batch at a place, or the first one of the next epoch where none is left. `like` is of a
  // batch before, whose order is used again.
  // With `mutex` held, but in the constructor.
  BatchPlan plan_at(int64_t epoch, int64_t place, const BatchPlan* like) const;

  // With `mutex` held. make_job() sets `no_slot` where there is no memory for it: it is tried again
  // when the caller, who may have given a batch back, calls next().
  void drop_jobs(int64_t epoch, int64_t place);  // and go on there
  bool comes_next(int64_t epoch, int64_t place) const;
  void make_job();

  // With `mutex` held: tells those who fetch how far the loader is.
  void tell_position();
  Lookahead::Plan lookahead_plan(int64_t begin) const;
  void follow_order();
  void unfollow_order() noexcept;

  // workers.cc. With `mutex` held: the first job of which samples are left; whether there is one or
  // can be one.
  std::shared_ptr<Job> open_job() const;
  bool wants_work() const;
  // Whether fewer are ahead than there are to be.
  bool wants_job() const {
    return static_cast<int64_t>(jobs.size()) < options.ahead && no_slot == nullptr;
  }
  void make_sample(Job& job, int64_t j, SampleWork& work);
  void fill_sample(Job& job, int64_t j, SampleWork& work);
  void mix_pair(Job& job, int64_t j);
  void note_given(const Slot& slot);  // with `mutex` held
  void read_ahead(const Job& job, int64_t j);
  // Nobody takes a sample of it any more. How many nobody has taken.
  int64_t abandon(Job& job);
  // To be called without `mutex`.
  void finish(Job& job, int64_t samples);
  void join_masks(Job& job) noexcept;
  void note_skipped(int64_t sample);

  const std::shared_ptr<LoaderTeam> team;
  const LoaderOptions options;
  Source& source;  // the team's
  const media::operators::Mixing mixing;
  const int64_t classes;  // of Batch::targets; 0: there are none
  const std::vector<Part> parts;
  const uint64_t order_hash;
  const std::shared_ptr<SlotPool> pool;
  const std::shared_ptr<SlotPool> mask_pool;  // of Slot::joined_masks; nullptr: there are none
  const int64_t places;                       // of every epoch
  // Of each part behind a URL.
  std::vector<std::pair<std::shared_ptr<Fetcher>, std::shared_ptr<Lookahead>>> lookaheads;

  std::mutex& mutex;  // the team's: of what follows, up to the empty line
  std::condition_variable& work_changed;
  std::condition_variable batch_ready;
  int came_with = 0;                      // threads
  int inside = 0;                         // threads that work for it
  std::atomic<double> waits_s{0};         // since when the caller of next() waits; 0: it does not
  std::deque<std::shared_ptr<Job>> jobs;  // in order; the front is what next() gives
  std::vector<Division> divisions;        // of options.divided, in order
  BatchPlan planned, following;           // what make_job() makes, and the epoch behind it
  std::exception_ptr no_slot;             // why there is no memory for `planned`
  int64_t since_jump = 0;                 // samples of the jobs since the last jump
  int64_t given_epoch = 0, given_place = 0;  // behind the last batch that next() gave
  Stats stats;                               // of the caller's side
  double returned_s = 0;
  bool first_wait = true;

  std::mutex skipped_mutex;
  int64_t skipped = 0;
  std::vector<std::string> skipped_names;
};

}  // namespace stretto::data
