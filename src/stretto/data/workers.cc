// The threads' side of a loader.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/thread.h"
#include "stretto/data/label_map.h"
#include "stretto/data/loader_impl.h"
#include "stretto/data/sample_bytes.h"

namespace stretto::data {
namespace {

// Samples between being asked of the system and being read. A disk with a queue of 32 is busy
// through it, and 32 pictures are a few megabytes.
constexpr int64_t kReadAhead = 32, kFirstAhead = 4;

constexpr size_t kSkippedNames = 100;

// How often threads look whether a batch came back, besides being told.
constexpr auto kRoomPeriod = std::chrono::milliseconds(10);

// On Linux both calls are of this thread alone. They are wishes: where they are refused, nothing
// but timing differs.
void lower_priority() {
#if defined(__linux__)
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_BATCH, &none);
  const auto self = static_cast<id_t>(::syscall(SYS_gettid));
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, self);
  if (errno == 0) ::setpriority(PRIO_PROCESS, self, nice + Loader::kNice);
#endif
}

// A label map of nothing that counts.
void fill_ignored(void* mask, DType dtype, int64_t count) {
  if (dtype == DType::kUInt8) {
    std::memset(mask, kIgnore, static_cast<size_t>(count));
  } else {
    std::fill_n(static_cast<int64_t*>(mask), count, int64_t{kIgnore});
  }
}

// Changes the seed of crops that belong to a place, which are then not those of the sample of the
// same number.
constexpr uint64_t kByPlace = 0x706C616365000000;

}  // namespace

void LoaderTeam::add(Loader::Impl& loader, int count) {
  join_ended();
  try {
    const std::lock_guard lock(mutex);
    if (stopping.load(std::memory_order_relaxed)) {
      throw_unsupported("loader: the team has ended with its last loader: make another one");
    }
    loaders.push_back(&loader);
    const size_t most = threads.size() + static_cast<size_t>(count);
    threads.reserve(most);
    ended.reserve(ended.size() + most);  // retire() is not to fail
    unused.reserve(counters.size() + static_cast<size_t>(count));
    for (; loader.came_with < count; ++loader.came_with) {
      if (unused.empty()) unused.push_back(&counters.emplace_back());
      Counters& mine = *unused.back();
      threads.push_back(start_thread("loader", [this, &mine] { work(mine); }));
      unused.pop_back();
    }
  } catch (...) {
    remove(loader);
    throw;
  }
}

void LoaderTeam::remove(Loader::Impl& loader) {
  std::unique_lock lock(mutex);
  std::erase(loaders, &loader);
  for (const auto& job : loader.jobs) loader.abandon(*job);
  if (loaders.empty()) {
    stopping.store(true, std::memory_order_relaxed);  // before another one can come
    lock.unlock();
    stop();  // reads that wait for a file behind a URL end by it
    return;
  }
  surplus += std::exchange(loader.came_with, 0);
  work_changed.notify_all();
  left.wait(lock, [&] { return loader.inside == 0; });
  lock.unlock();
  join_ended();
}

void LoaderTeam::retire(Counters& mine) {
  const auto self = std::ranges::find(threads, std::this_thread::get_id(), &std::thread::get_id);
  if (self == threads.end()) return;  // stop() joins it
  ended.push_back(std::move(*self));
  threads.erase(self);
  unused.push_back(&mine);
}

void LoaderTeam::join_ended() {
  std::vector<std::thread> joined;
  {
    const std::lock_guard lock(mutex);
    joined.assign(std::move_iterator(ended.begin()), std::move_iterator(ended.end()));
    ended.clear();  // and keeps its room
  }
  for (std::thread& thread : joined) thread.join();
}

void LoaderTeam::stop() {
  std::vector<std::thread> ending;
  {
    const std::lock_guard lock(mutex);
    stopping.store(true, std::memory_order_relaxed);
    source.reader.stop();
    work_changed.notify_all();
    ending.swap(threads);
  }
  for (std::thread& thread : ending) thread.join();
  join_ended();
}

void LoaderTeam::work(Counters& mine) {
  lower_priority();
  Work work;
  try {
    make_samples(mine, work);
  } catch (...) {  // no memory for a few bytes
    const std::lock_guard lock(mutex);
    broken = std::current_exception();
    for (Loader::Impl* const loader : loaders) loader->batch_ready.notify_all();
  }
  work.job.reset();
  const std::lock_guard lock(mutex);
  leave(work);
  retire(mine);
}

void LoaderTeam::make_samples(Counters& mine, Work& work) {
  SampleWork sample_work(source, options, mine);
  while (!stopping.load(std::memory_order_relaxed)) {
    const bool stays = work.job != nullptr && work.turn == turn.load(std::memory_order_relaxed);
    const int64_t j = stays ? work.job->next.fetch_add(1) : INT64_MAX;
    if (!stays || j >= work.job->plan.cut.batch) {
      if (!take_work(mine, work)) return;
      continue;
    }
    Loader::Impl& loader = *work.loader;
    Job& job = *work.job;
    int64_t made = 1;
    try {
      loader.read_ahead(job, j);
      loader.make_sample(job, j, sample_work);
    } catch (...) {
      const std::lock_guard lock(job.mutex);
      if (j < job.error_at) {
        job.error_at = j;
        job.error = std::current_exception();
      }
      // Samples before this one have been taken already, so that the first error is always the one
      // that stays.
      made += loader.abandon(job);
    }
    // Behind the catch block: the caller of next() is then the last one to hold the error.
    loader.finish(job, made);
  }
}

bool LoaderTeam::take_work(Counters& mine, Work& work) {
  work.job.reset();  // its slot may be waited for
  std::unique_lock lock(mutex);
  leave(work);
  while (!stopping.load(std::memory_order_relaxed)) {
    if (surplus > 0) {
      --surplus;
      return false;
    }
    Loader::Impl* const loader = neediest();
    if (loader == nullptr) {
      const double begin = now_s();
      if (awaits_room()) {
        work_changed.wait_for(lock, kRoomPeriod);
      } else {
        work_changed.wait(lock);
      }
      Counters::add(mine.idle_seconds, now_s() - begin);
      continue;
    }
    if (auto job = loader->open_job()) {
      work = {loader, std::move(job), turn.load(std::memory_order_relaxed)};
      ++loader->inside;
      return true;
    }
    loader->make_job();
  }
  return false;
}

void LoaderTeam::leave(Work& work) {
  if (work.loader == nullptr) return;
  if (--work.loader->inside == 0) left.notify_all();
  work.loader = nullptr;
}

bool LoaderTeam::awaits_room() const {
  return std::ranges::any_of(loaders, [](const Loader::Impl* l) { return l->wants_job(); });
}

Loader::Impl* LoaderTeam::neediest() const {
  // Smaller is needier.
  using Need = std::pair<double, int64_t>;
  Loader::Impl* best = nullptr;
  Need least;
  for (Loader::Impl* const loader : loaders) {
    if (!loader->wants_work()) continue;
    const double since = loader->waits_s.load(std::memory_order_relaxed);
    const Need need{since > 0 ? since : INFINITY,
                    std::ranges::count_if(loader->jobs, [](const auto& j) { return j->done(); })};
    if (best == nullptr || need < least) {
      best = loader;
      least = need;
    }
  }
  return best;
}

std::shared_ptr<Job> Loader::Impl::open_job() const {
  for (const auto& job : jobs) {
    if (job->next.load(std::memory_order_relaxed) < job->plan.cut.batch) return job;
  }
  return nullptr;
}

bool Loader::Impl::wants_work() const {
  return open_job() != nullptr || (wants_job() && pool->has_room());
}

int64_t Loader::Impl::abandon(Job& job) {
  const int64_t count = job.plan.cut.batch;
  return std::max<int64_t>(0, count - job.next.exchange(count));
}

void Loader::Impl::finish(Job& job, int64_t samples) {
  if (mask_pool != nullptr && job.apart.fetch_sub(samples, std::memory_order_acq_rel) == samples) {
    join_masks(job);
  }
  if (job.left.fetch_sub(samples, std::memory_order_acq_rel) != samples) return;
  // next() looks at `left` with the lock held, and then sleeps.
  { const std::lock_guard lock(mutex); }
  batch_ready.notify_all();
}

void Loader::Impl::join_masks(Job& job) noexcept {
  Slot& slot = *job.slot;
  slot.joined_masks.reset();
  {
    const std::lock_guard lock(job.mutex);
    if (job.error != nullptr) return;  // what some of its samples have is of another batch
  }
  try {
    const int64_t each = job.plan.shape->height * job.plan.shape->width;
    int64_t boxes = 0;
    for (const auto& placed : slot.placed) boxes += std::ssize(placed);
    if (boxes == 0) return;
    slot.joined_masks = mask_pool->take(mask_slot_bytes(boxes * each), 0);
    std::byte* to = slot.joined_masks->data;
    for (size_t i = 0; i < slot.placed.size(); ++i) {
      const auto bytes = static_cast<size_t>(std::ssize(slot.placed[i]) * each);
      if (bytes > 0) std::memcpy(to, slot.masks_of_boxes[i].data(), bytes);
      to += bytes;
    }
  } catch (...) {  // there is no memory for them
    const std::lock_guard lock(job.mutex);
    if (job.error == nullptr) job.error = std::current_exception();
  }
}

void Loader::Impl::make_job() {
  auto job = std::make_shared<Job>();
  job->plan = planned;
  job->next_epoch = following = plan_at((planned.epoch + 1) % kEpochs, 0, &following);
  job->since_jump = since_jump;
  job->left.store(planned.cut.batch, std::memory_order_relaxed);
  job->apart.store(planned.cut.batch, std::memory_order_relaxed);
  const int64_t count = planned.cut.batch;
  try {
    job->slot = pool->take(slot_layout(options, *planned.shape, classes, count).bytes, count);
    if (options.boxes) {
      job->slot->placed.resize(static_cast<size_t>(count));
      job->slot->image_ids.resize(static_cast<size_t>(count));
    }
    if (options.masks_of_boxes) job->slot->masks_of_boxes.resize(static_cast<size_t>(count));
    if (classes > 0) {
      job->pairs = std::make_unique<std::atomic<uint8_t>[]>(static_cast<size_t>(count / 2));
    }
  } catch (...) {
    no_slot = std::current_exception();  // the caller may hold too many
    batch_ready.notify_all();
    return;
  }
  since_jump += planned.cut.batch;
  planned = plan_at(planned.epoch, planned.begin + planned.global(), &planned);
  jobs.push_back(std::move(job));
  work_changed.notify_all();
}

void Loader::Impl::read_ahead(const Job& job, int64_t j) {
  // Up to where the system has been asked when sample `i` is taken. After a jump the distance grows
  // step by step, or the first sample would wait behind all that are asked with it.
  const auto reach = [&](int64_t i) {
    const int64_t n = job.since_jump + i;
    return std::min(n + kReadAhead, kFirstAhead * (n + 1)) - job.since_jump;
  };
  for (int64_t later = reach(j - 1) + 1; later <= reach(j); ++later) {
    const int64_t here = job.plan.batches() * job.plan.cut.batch;
    const BatchPlan& plan = later < here ? job.plan : job.next_epoch;
    const int64_t index = later < here ? later : later - here;
    if (index >= plan.batches() * plan.cut.batch) return;
    const int64_t sample = plan.sample(index);
    if (sample < 0) continue;
    source.reader.will_read(sample, source.lacks(sample, options.masks || options.masks_of_boxes));
  }
}

void Loader::Impl::make_sample(Job& job, int64_t j, SampleWork& work) {
  fill_sample(job, j, work);
  if (job.pairs == nullptr) return;
  const SlotLayout layout = slot_layout(options, *job.plan.shape, classes, job.plan.cut.batch);
  float* const row = reinterpret_cast<float*>(job.slot->data + layout.targets) + j * classes;
  std::fill_n(row, classes, 0.0f);
  const int64_t label = job.slot->labels[static_cast<size_t>(j)];
  if (label >= 0) row[label] = 1;
  // The second of a pair sees what the first one's thread wrote.
  if (job.pairs[static_cast<size_t>(j / 2)].fetch_add(1, std::memory_order_acq_rel) == 1) {
    mix_pair(job, j / 2 * 2);
  }
}

void Loader::Impl::mix_pair(Job& job, int64_t j) {
  const BatchPlan& plan = job.plan;
  Slot& slot = *job.slot;
  const auto at = static_cast<size_t>(j);
  if (!slot.real[at] || !slot.real[at + 1]) return;
  // Places of a batch that is filled up with others of the epoch are counted on.
  const auto place = static_cast<uint64_t>(plan.begin + plan.cut.begin() + j);
  const media::Size size{plan.shape->width, plan.shape->height};
  const media::operators::MixPlan mix =
      media::operators::draw_mix(mixing, size,
                                 {.seed = options.order.seed ^ kByPlace,
                                  .epoch = static_cast<uint32_t>(plan.epoch),
                                  .sample = place});
  if (mix.mix == media::operators::Mix::kNone) return;
  const SlotLayout layout = slot_layout(options, *plan.shape, classes, plan.cut.batch);
  std::byte* const first = slot.data + j * layout.picture;
  media::operators::apply_mix(mix, first, first + layout.picture, options.dtype, size,
                              options.layout == PixelLayout::kNchw);
  float* const a = reinterpret_cast<float*>(slot.data + layout.targets) + j * classes;
  float* const b = a + classes;
  const auto mine = static_cast<float>(mix.lambda), theirs = static_cast<float>(1 - mix.lambda);
  for (int64_t c = 0; c < classes; ++c) {
    const float x = a[c], y = b[c];
    a[c] = theirs * y + mine * x;
    b[c] = theirs * x + mine * y;
  }
}

void Loader::Impl::fill_sample(Job& job, int64_t j, SampleWork& work) {
  const BatchPlan& plan = job.plan;
  const Order& order = *plan.order;
  Slot& slot = *job.slot;
  const auto at = static_cast<size_t>(j);
  const SlotLayout layout = slot_layout(options, *plan.shape, classes, plan.cut.batch);
  SampleOut out{.pixels = slot.data + j * layout.picture};
  if (options.masks) out.mask = slot.data + layout.masks + j * layout.mask;
  if (options.boxes) {
    out.boxes = &slot.placed[at];
    out.image_id = &slot.image_ids[at];
  }
  if (options.masks_of_boxes) out.masks_of_boxes = &slot.masks_of_boxes[at];
  const int64_t place = plan.place(j);
  slot.real[at] = place >= 0;
  if (place < 0) {
    std::memset(out.pixels, 0, static_cast<size_t>(layout.picture));
    if (options.masks)
      fill_ignored(out.mask, options.mask_dtype, plan.shape->height * plan.shape->width);
    if (options.boxes) {
      out.boxes->clear();
      *out.image_id = -1;
    }
    slot.labels[at] = slot.samples[at] = -1;
    return;
  }
  const bool skip = options.errors == OnError::kSkip;
  std::exception_ptr first;
  for (int64_t tries = 0; tries <= kMostReplaced; ++tries) {
    const int64_t p = (place + tries) % order.size(), sample = order(p);
    const Draws draws{.seed = order.repeats() ? options.order.seed ^ kByPlace : options.order.seed,
                      .number = static_cast<uint64_t>(order.repeats() ? p : sample),
                      .epoch = static_cast<uint32_t>(plan.epoch)};
    try {
      work.run(sample, *plan.shape, draws, out);
      slot.labels[at] = source.dataset.sample(sample).label;
      slot.samples[at] = sample;
      work.count_sample();
      return;
    } catch (const OutOfMemory&) {
      throw;
    } catch (const FormatError& e) {
      if (!skip || !is_of_the_sample(e, source.dataset, sample)) throw;
      if (first == nullptr) first = std::current_exception();
    } catch (const Unsupported&) {
      if (!skip) throw;
      if (first == nullptr) first = std::current_exception();
    }
    if (tries == 0) note_skipped(sample);
  }
  std::rethrow_exception(first);
}

void Loader::Impl::note_skipped(int64_t sample) {
  const std::string name = source.reader.name(sample);
  const std::lock_guard lock(skipped_mutex);
  ++skipped;
  if (skipped_names.size() >= kSkippedNames) return;
  for (const std::string& known : skipped_names) {
    if (known == name) return;
  }
  skipped_names.push_back(name);
}

}  // namespace stretto::data
