#include "stretto/data/loader.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/cpu.h"
#include "stretto/base/error.h"
#include "stretto/base/fork.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/direct_reads.h"
#include "stretto/data/loader_impl.h"
#include "stretto/data/remote.h"

namespace stretto::data {
namespace {

constexpr auto kInterruptPeriod = std::chrono::milliseconds(50);

LoaderOptions checked(LoaderOptions options, const Dataset& dataset) {
  check_options(options, dataset.size());
  check_dataset(options, dataset);
  return options;
}

// Of an epoch of a dataset behind URLs; a larger one is not looked at in advance.
constexpr int64_t kMostPlacesAhead = int64_t{1} << 30;

LoaderOptions options_of_rank(LoaderOptions options, int64_t rank, int threads, int64_t samples) {
  options.rank = rank;
  options.threads = threads;
  check_options(options, samples);
  return options;
}

// One more than there are ahead: the batch that the caller gives back when it asks again. In
// another process the caller gives it back with the call after that.
size_t kept_slots(const LoaderOptions& o) {
  return static_cast<size_t>(o.ahead + (o.memory == BatchMemory::kShared ? 2 : 1));
}

// For a batch that comes back: it may be the one for whose memory threads wait. Batches outlive the
// team. Without the lock, which whoever drops a batch may have: threads that just miss the call
// look again after kRoomPeriod (workers.cc).
std::function<void()> waker(const std::weak_ptr<LoaderTeam>& weak) {
  return [weak] {
    if (const auto team = weak.lock()) team->work_changed.notify_all();
  };
}

// Of masks of boxes in shared memory. Numbers of both pools are told to the other process.
std::shared_ptr<SlotPool> mask_pool_of(const LoaderOptions& o) {
  constexpr uint64_t kFirst = uint64_t{1} << 63;
  if (!o.masks_of_boxes || o.memory != BatchMemory::kShared) return nullptr;
  return std::make_shared<SlotPool>(kept_slots(o), o.memory, std::function<void()>(), kFirst);
}

// Tells those who choose for whom to work, until the end of the scope.
class Waiting {
 public:
  explicit Waiting(std::atomic<double>& since) : since_s_(since) {}
  ~Waiting() {
    if (begun_) since_s_ = 0;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // Whether this is the first call.
  bool begin() {
    if (begun_) return false;
    begun_ = true;
    since_s_ = now_s();
    return true;
  }

 private:
  std::atomic<double>& since_s_;
  bool begun_ = false;
};

}  // namespace

void check_epoch(int64_t epoch) {
  if (epoch < 0 || epoch >= kEpochs) {
    throw_invalid("loader: epoch {}, expected 0 to {}", epoch, kEpochs - 1);
  }
}

void check_position(const Position& position, const LoaderOptions& options, uint64_t order,
                    int64_t places) {
  check_epoch(position.epoch);
  if (position.seed != options.order.seed) {
    throw_invalid("loader: the position is of seed {}, and this loader has seed {}", position.seed,
                  options.order.seed);
  }
  if (position.order != 0 && position.order != order) {
    throw_invalid(
        "loader: the position is of another order than this loader's: expected the same kind of "
        "order (sampler), weights, sources and size of an epoch");
  }
  if (position.place < 0 || position.place > places) {
    throw_invalid("loader: place {} of epoch {}, which has {}", position.place, position.epoch,
                  places);
  }
}

int64_t batches_of_epoch(const LoaderOptions& options, int64_t places, int64_t epoch) {
  check_epoch(epoch);
  return batches_of(places, epoch_cut(options, epoch));
}

std::vector<int64_t> indices_of_epoch(const LoaderOptions& options, int64_t samples, int64_t epoch,
                                      const std::function<Cut(int64_t place)>& cut_at) {
  check_epoch(epoch);
  BatchPlan plan{.epoch = epoch,
                 .order = std::make_shared<const Order>(options.order, samples, epoch),
                 .cut = epoch_cut(options, epoch)};
  const int64_t count = batches_of(plan.order->size(), plan.cut);
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(count * plan.cut.batch));
  for (int64_t b = 0; b < count; ++b, plan.begin += plan.global()) {
    if (cut_at) plan.cut = cut_at(plan.begin);
    for (int64_t j = 0; j < plan.cut.batch; ++j) indices.push_back(plan.sample(j));
  }
  return indices;
}

LoaderTeam::LoaderTeam(Dataset dataset, LoaderOptions o)
    : options(checked(std::move(o), dataset)),
      source(std::move(dataset), options),
      forks(stretto::forks()) {}

LoaderTeam::~LoaderTeam() { stop(); }

std::shared_ptr<LoaderTeam> make_team(Dataset dataset, LoaderOptions options) {
  return std::make_shared<LoaderTeam>(std::move(dataset), std::move(options));
}

Loader::Impl::Impl(std::shared_ptr<LoaderTeam> shared, int64_t rank, int threads)
    : team(std::move(shared)),
      options(options_of_rank(team->options, rank, threads, team->source.dataset.size())),
      source(team->source),
      mixing(media::operators::mixing_of(options.transforms)),
      classes(target_classes(options, source.dataset)),
      parts(source.dataset.parts()),
      order_hash(hash_of(options.order, source.dataset.size())),
      pool(std::make_shared<SlotPool>(kept_slots(options), options.memory, waker(team))),
      mask_pool(mask_pool_of(options)),
      places(order_of(0)->size()),
      mutex(team->mutex),
      work_changed(team->work_changed) {
  planned = following = plan_at(0, 0, nullptr);
  if (options.pin && options.memory == BatchMemory::kOwn) pool->pin(options.cuda);
  try {
    if (places < kMostPlacesAhead) follow_order();
    team->add(*this, options.threads > 0 ? options.threads : std::max(1, cpu_info().cores - 1));
  } catch (...) {
    unfollow_order();
    throw;
  }
}

Loader::Impl::~Impl() {
  team->remove(*this);
  unfollow_order();
  jobs.clear();
  pool->close();
  if (mask_pool != nullptr) mask_pool->close();
}

void Loader::Impl::drop_jobs(int64_t epoch, int64_t place) {
  for (const auto& job : jobs) abandon(*job);
  jobs.clear();
  planned = plan_at(epoch, place, &planned);
  no_slot = nullptr;
  since_jump = 0;
  first_wait = true;
  tell_position();
  work_changed.notify_all();
}

bool Loader::Impl::comes_next(int64_t epoch, int64_t place) const {
  const BatchPlan& next = jobs.empty() ? planned : jobs.front()->plan;
  return next.epoch == epoch && next.begin == place;
}

Loader::Loader(Dataset dataset, LoaderOptions options) {
  const int64_t rank = options.rank;
  const int threads = options.threads;
  impl_ = std::make_unique<Impl>(make_team(std::move(dataset), std::move(options)), rank, threads);
}

Loader::Loader(std::shared_ptr<LoaderTeam> team, int64_t rank, int threads)
    : impl_(std::make_unique<Impl>(std::move(team), rank, threads)) {}

Loader::~Loader() {
  // A child of fork() has no copy of the threads, and locks may be held for ever.
  if (impl_->team->forks != forks()) static_cast<void>(impl_.release());
}

Loader::Impl& Loader::impl() const {
  if (impl_->team->forks != forks()) {
    throw_unsupported(
        "loader: this process was forked from the one that made it, and has none of "
        "its threads: make a loader here");
  }
  return *impl_;
}

std::optional<Batch> Loader::next() {
  Impl& m = impl();
  const double called = now_s();
  std::unique_lock lock(m.mutex);
  if (m.returned_s > 0) m.stats.asked_seconds += called - std::exchange(m.returned_s, 0);
  if (batches_of(m.places, m.cut_of(m.given_epoch), m.given_place) == 0) {
    m.given_epoch = (m.given_epoch + 1) % kEpochs;
    m.given_place = 0;
    m.returned_s = now_s();
    return std::nullopt;
  }
  if (std::exchange(m.no_slot, nullptr) != nullptr) m.work_changed.notify_all();  // try it again
  if (m.wants_job() && !m.pool->has_room()) {  // the caller keeps more batches than one
    m.pool->grow();
    m.work_changed.notify_all();
  }
  const auto ready = [&] { return !m.jobs.empty() && m.jobs.front()->done(); };
  const bool at_once = ready();
  Waiting waiting(m.waits_s);
  while (!ready()) {
    if (m.team->broken != nullptr) std::rethrow_exception(m.team->broken);
    if (m.jobs.empty() && m.no_slot != nullptr) std::rethrow_exception(m.no_slot);
    if (waiting.begin() && m.team->loaders.size() > 1) {
      m.team->turn.fetch_add(1, std::memory_order_relaxed);
    }
    m.batch_ready.wait_for(lock, kInterruptPeriod);
    if (ready()) break;
    lock.unlock();
    check_interrupt();
    lock.lock();
  }
  const std::shared_ptr<Job> job = std::move(m.jobs.front());
  m.jobs.pop_front();
  const BatchPlan& plan = job->plan;
  STRETTO_CHECK(plan.epoch == m.given_epoch && plan.begin == m.given_place,
                "loader: place {} of epoch {} follows place {} of epoch {}", plan.begin, plan.epoch,
                m.given_place, m.given_epoch);
  m.given_place = std::min(plan.begin + plan.global(), plan.order->size());
  m.tell_position();
  m.work_changed.notify_all();
  const double now = now_s();
  m.stats.waited_seconds += now - called;
  if (std::exchange(m.first_wait, false)) m.stats.first_wait_seconds += now - called;
  m.stats.ready += at_once;
  ++m.stats.batches;
  m.returned_s = now;
  // A thread that stands still may hold the job for a while, and is not to hold its memory.
  const std::shared_ptr<Slot> hold = std::move(job->slot);
  if (job->error != nullptr) std::rethrow_exception(std::exchange(job->error, nullptr));
  Slot& slot = *hold;
  m.note_given(slot);
  if (m.options.boxes) slot.join_boxes();
  const SlotLayout layout = slot_layout(m.options, *plan.shape, m.classes, plan.cut.batch);
  const BoxColumns& columns = slot.columns;
  const bool boxes = m.options.boxes;
  return Batch{
      .data = slot.data,
      .dtype = m.options.dtype,
      .layout = m.options.layout,
      .count = plan.cut.batch,
      .height = plan.shape->height,
      .width = plan.shape->width,
      .labels = slot.labels.data(),
      .real = slot.real.get(),
      .samples = slot.samples.data(),
      .targets = m.classes > 0 ? reinterpret_cast<float*>(slot.data + layout.targets) : nullptr,
      .classes = m.classes,
      .boxes = boxes ? columns.boxes.data() : nullptr,
      .box_labels = boxes ? columns.labels.data() : nullptr,
      .box_areas = boxes ? columns.areas.data() : nullptr,
      .box_starts = boxes ? columns.starts.data() : nullptr,
      .image_ids = boxes ? slot.image_ids.data() : nullptr,
      .masks_of_boxes = m.options.masks_of_boxes ? columns.masks.data() : nullptr,
      .masks = m.options.masks ? slot.data + layout.masks : nullptr,
      .mask_dtype = m.options.mask_dtype,
      .epoch = plan.epoch,
      .number = plan.begin / plan.global(),
      .hold = hold};
}

void Loader::Impl::note_given(const Slot& slot) {
  stats.part_samples.resize(parts.size());
  for (const int64_t sample : slot.samples) {
    if (sample < 0) continue;
    const auto after = std::upper_bound(parts.begin(), parts.end(), sample,
                                        [](int64_t s, const Part& part) { return s < part.begin; });
    ++stats.part_samples[static_cast<size_t>(after - parts.begin()) - 1];
  }
}

void Loader::set_epoch(int64_t epoch) {
  check_epoch(epoch);
  load({.seed = impl().options.order.seed, .epoch = epoch, .place = 0});
}

int64_t Loader::epoch() const {
  Impl& m = impl();
  const std::lock_guard lock(m.mutex);
  return m.given_epoch;
}

int64_t Loader::batches(int64_t epoch) const {
  return batches_of_epoch(impl().options, impl().places, epoch);
}

std::vector<int64_t> Loader::indices(int64_t epoch) const {
  const Impl& m = impl();
  std::function<Cut(int64_t)> cut_at;
  if (m.options.divided) {
    cut_at = [&](int64_t place) {
      const std::lock_guard lock(m.mutex);
      return m.cut_at(epoch, place);
    };
  }
  return indices_of_epoch(m.options, m.source.dataset.size(), epoch, cut_at);
}

void Loader::divide(std::vector<Division> divisions) {
  Impl& m = impl();
  if (!m.options.divided) throw_invalid("loader: its batches are not divided");
  for (const Division& each : divisions) {
    check_epoch(each.epoch);
    const int64_t all = m.cut_of(each.epoch).all;
    if (each.first < 0 || each.count < 1 || each.count > all - each.first) {
      throw_invalid("loader: {} samples from the {}-th on: a batch has {} on all ranks", each.count,
                    each.first, all);
    }
  }
  const auto in_order = [](const Division& a, const Division& b) {
    return std::pair(a.epoch, a.place) < std::pair(b.epoch, b.place);
  };
  if (!std::is_sorted(divisions.begin(), divisions.end(), in_order)) {
    throw_invalid("loader: divisions have to be in the order of their places");
  }
  const std::lock_guard lock(m.mutex);
  m.divisions = std::move(divisions);
  const auto other = [&m](const std::shared_ptr<Job>& job) {
    return job->plan.cut != m.cut_at(job->plan.epoch, job->plan.begin);
  };
  const auto first = std::find_if(m.jobs.begin(), m.jobs.end(), other);
  const BatchPlan next = first == m.jobs.end() ? m.planned : (*first)->plan;
  for (auto job = first; job != m.jobs.end(); ++job) m.abandon(**job);
  m.jobs.erase(first, m.jobs.end());
  m.planned = m.plan_at(next.epoch, next.begin, &next);
  m.tell_position();
  m.work_changed.notify_all();
}

Position Loader::position() const {
  Impl& m = impl();
  const std::lock_guard lock(m.mutex);
  return {.seed = m.options.order.seed,
          .epoch = m.given_epoch,
          .place = m.given_place,
          .order = m.order_hash};
}

void Loader::load(const Position& position) {
  Impl& m = impl();
  check_position(position, m.options, m.order_hash, m.places);
  const std::lock_guard lock(m.mutex);
  const BatchPlan next = m.plan_at(position.epoch, position.place, &m.planned);
  m.given_epoch = position.epoch;
  m.given_place = position.place;
  m.returned_s = 0;
  if (!m.comes_next(next.epoch, next.begin)) m.drop_jobs(next.epoch, next.begin);
}

Stats Loader::stats() const {
  Impl& m = impl();
  std::unique_lock lock(m.mutex);
  Stats s = m.stats;
  for (const Impl* const loader : m.team->loaders) {
    const Stats& of = loader->stats;
    s.ranks.push_back({.rank = loader->options.rank,
                       .batches = of.batches,
                       .waited_seconds = of.waited_seconds,
                       .first_wait_seconds = of.first_wait_seconds,
                       .asked_seconds = of.asked_seconds});
  }
  for (const Counters& c : m.team->counters) {
    s.samples += c.samples.load(std::memory_order_relaxed);
    s.read_bytes += c.read_bytes.load(std::memory_order_relaxed);
    s.cache_hits += c.cache_hits.load(std::memory_order_relaxed);
    s.read_seconds += c.read_seconds.load(std::memory_order_relaxed);
    s.decode_seconds += c.decode_seconds.load(std::memory_order_relaxed);
    s.transform_seconds += c.transform_seconds.load(std::memory_order_relaxed);
    s.idle_seconds += c.idle_seconds.load(std::memory_order_relaxed);
  }
  s.threads = static_cast<int>(std::ssize(m.team->threads));
  s.pinned_bytes = m.pool->pinned_bytes();
  lock.unlock();
  const auto* const encoded = m.source.encoded.get();
  const auto* const decoded = m.source.decoded.get();
  if (encoded != nullptr || decoded != nullptr) {
    const FillOnce& store = encoded != nullptr ? encoded->store() : decoded->store();
    s.cache_bytes = store.used();
    s.cached_samples = encoded != nullptr ? encoded->published() : decoded->published();
  }
  if (const DirectReads* const direct = m.source.reader.direct()) {
    s.io_uring = true;
    s.ring_reads = direct->taken();
  }
  s.remote = remote_stats(m.source.dataset);
  const std::lock_guard skipped_lock(m.skipped_mutex);
  s.skipped = m.skipped;
  s.skipped_names = m.skipped_names;
  return s;
}

std::string_view verdict(const Stats& s) {
  if (s.batches < 2) return {};
  const double waited = s.waited_seconds - s.first_wait_seconds;
  if (waited < 0.01 * (waited + s.asked_seconds)) return "device";
  if (s.read_seconds > std::max(s.decode_seconds, s.transform_seconds)) return "reading";
  return s.decode_seconds > s.transform_seconds ? "decoding" : "transforms";
}

const Dataset& Loader::dataset() const { return impl_->source.dataset; }
const LoaderOptions& Loader::options() const { return impl_->options; }

}  // namespace stretto::data
