#include "stretto/data/fetcher.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/fork.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/thread.h"

namespace stretto::data {
namespace {

// So long waiting threads sleep before they look whether they are to end.
constexpr auto kWaitPeriod = std::chrono::milliseconds(50);
constexpr auto kTakePeriod = std::chrono::milliseconds(250);
// A file that no reader used for so long is closed, so that it can be evicted.
constexpr double kIdle_s = 1;
constexpr size_t kMostIdle = 64;
constexpr double kRoomPeriod_s = 0.1, kLongestRoomPause_s = 16;
// Large files that are fetched at the same time while somebody waits for one of them.
constexpr int kFetchedBesideWaiters = 2;

uint64_t hash_of_url(const std::string& url) { return XXH3_64bits(url.data(), url.size()); }

[[noreturn]] void fail_changed(const std::string& url, const std::string& how) {
  throw FormatError(url, -1,
                    fmt::format("the file was changed in the store since it was read first ({}): "
                                "open the dataset again",
                                how),
                    ESTALE);
}

}  // namespace

Fetcher::Fetcher(FetchOptions options)
    : options_(std::move(options)), forks_(stretto::forks()), cache_(options_.cache) {}
Fetcher::~Fetcher() = default;

void Fetcher::set_check(
    std::function<void(const std::string& url, const std::string& path)> check) {
  check_ = std::move(check);
}

bool Fetcher::fill_in(RemoteFile& file) const {
  if (file.version != 0 && file.bytes != RemoteFile::kUnknown) return true;
  const auto found = found_out_.find(hash_of_url(file.url));
  if (found == found_out_.end()) return false;
  if (file.bytes == RemoteFile::kUnknown) file.bytes = found->second.bytes;
  file.version = found->second.version;
  return true;
}

void Fetcher::check_stop(const std::atomic<bool>* stop) const {
  if (closed_ || (stop != nullptr && stop->load())) {
    throw_unsupported("the loader ends, and files are not fetched any more");
  }
}

// Makes an entry, and opens the file if the cache has it.
Fetcher::Entry& Fetcher::look_on_disk(std::unique_lock<std::mutex>& lock, const RemoteFile& file) {
  Entry& entry = entries_[file.url];  // nobody erases it while it is kLooking
  entry.file = file;
  entry.state = State::kLooking;
  std::shared_ptr<const CachedFile> open;
  if (fill_in(entry.file)) {
    const CacheKey key = cache_key(file.url, entry.file.bytes, entry.file.version);
    const uint64_t bytes = entry.file.bytes;
    lock.unlock();
    open = cache_.find(key, bytes);
    lock.lock();
  }
  if (open != nullptr) {
    entry.state = State::kHere;
    entry.open = std::move(open);
    ++stats_.hits;
  } else {
    entry.state = State::kAsked;
    asked_.push_back(file.url);
    work_.notify_one();
  }
  changed_.notify_all();
  return entry;
}

std::shared_ptr<const CachedFile> Fetcher::open(const RemoteFile& file,
                                                const std::atomic<bool>* stop) {
  if (forks_ != stretto::forks()) {
    throw_unsupported(
        "{}: this process was forked from the one that opened the dataset, and has none of the "
        "threads that fetch: open the dataset here",
        file.url);
  }
  std::unique_lock lock(mutex_);
  double waited_since = 0;
  for (bool first = true;; first = false) {
    const auto at = entries_.find(file.url);
    // What failed while nobody waited is tried again.
    const bool none = at == entries_.end() || (first && at->second.state == State::kFailed);
    if (none) {
      check_stop(stop);
      if (entries_.size() > kMostIdle) drop_idle(0);
    }
    Entry& entry = none ? look_on_disk(lock, file) : at->second;
    if (entry.state == State::kHere) {
      entry.used_s = now_s();
      if (entry.used_s > next_drop_s_) drop_idle(kIdle_s);
      if (waited_since > 0) stats_.wait_seconds += entry.used_s - waited_since;
      return entry.open;
    }
    if (entry.state == State::kFailed) {
      if (waited_since > 0) stats_.wait_seconds += now_s() - waited_since;
      const FormatError error(file.url, -1, entry.problem, entry.code);
      if (entry.waiting == 0) entries_.erase(file.url);
      throw error;
    }
    if (waited_since == 0) {
      waited_since = now_s();
      ++stats_.waits;
    }
    ++entry.waiting;
    ++waiting_;
    changed_.wait_for(lock, kWaitPeriod);
    --waiting_;
    --entry.waiting;  // nobody erases an entry that is waited for
    if (closed_ || (stop != nullptr && stop->load())) {
      stats_.wait_seconds += now_s() - waited_since;
      check_stop(stop);
    }
    lock.unlock();
    check_interrupt();
    lock.lock();
  }
}

void Fetcher::drop_idle(double idle_s) {
  const double now = now_s();
  next_drop_s_ = now + kIdle_s / 2;
  std::erase_if(entries_, [&](const auto& row) {
    const Entry& entry = row.second;
    if (entry.waiting > 0) return false;
    if (entry.state == State::kFailed) return true;
    return entry.state == State::kHere && entry.open.use_count() == 1 &&
           now - entry.used_s >= idle_s;
  });
}

void Fetcher::follow(std::shared_ptr<Lookahead> ahead, Dataset dataset) {
  const std::lock_guard lock(followed_mutex_);
  followed_.push_back({std::move(ahead), std::move(dataset), nullptr});
}

void Fetcher::follow_beside(std::shared_ptr<Lookahead> ahead, Dataset dataset,
                            std::shared_ptr<const Fetcher> other) {
  const std::lock_guard lock(followed_mutex_);
  followed_.push_back({std::move(ahead), std::move(dataset), std::move(other)});
}

void Fetcher::unfollow(const Lookahead* ahead) {
  std::vector<Followed> gone;  // without the lock: another fetcher may end with it
  const std::lock_guard lock(followed_mutex_);
  const auto rest =
      std::stable_partition(followed_.begin(), followed_.end(),
                            [&](const Followed& f) { return f.ahead.get() != ahead; });
  gone.assign(std::move_iterator(rest), std::move_iterator(followed_.end()));
  followed_.erase(rest, followed_.end());
}

void Fetcher::moved() { work_.notify_one(); }

std::optional<RemoteFile> Fetcher::take() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    if (now_s() > next_drop_s_) drop_idle(kIdle_s);
    if (!asked_.empty()) {
      const auto at = entries_.find(asked_.front());
      asked_.pop_front();
      at->second.state = State::kFetching;
      ++fetching_;
      return at->second.file;
    }
    if (auto file = take_ahead(lock)) return file;
    if (!asked_.empty()) continue;
    work_.wait_for(lock, kTakePeriod);
  }
  return std::nullopt;
}

std::optional<RemoteFile> Fetcher::take_ahead(std::unique_lock<std::mutex>& lock) {
  if (looking_ahead_ || ahead_ >= std::max(1, options_.threads - 1)) return std::nullopt;
  if (now_s() < no_room_until_s_) return std::nullopt;
  std::vector<Followed> followed;
  {
    const std::lock_guard other(followed_mutex_);
    followed = followed_;
  }
  looking_ahead_ = true;
  std::optional<RemoteFile> taken;
  for (const Followed& f : followed) {
    if (f.other != nullptr) continue;
    for (bool more = true; more && !taken && asked_.empty() && !closed_;) {
      // They would take their share of the line from the one that is waited for.
      if (waiting_ > 0 && fetching_ >= kFetchedBesideWaiters && !f.dataset.one_file_each()) break;
      lock.unlock();
      const auto next = f.ahead->next(more);
      std::optional<RemoteFile> file;
      if (next) file = f.dataset.remote_file(next->file);
      lock.lock();
      if (!next) continue;
      more = true;
      if (entries_.contains(file->url)) continue;
      if (fill_in(*file)) {
        lock.unlock();
        const bool here = cache_.has(cache_key(file->url, file->bytes, file->version));
        lock.lock();
        if (here || entries_.contains(file->url)) continue;
      }
      Entry& entry = entries_[file->url];
      entry.state = State::kFetching;
      entry.file = *file;
      entry.ahead = next;
      entry.of = f.ahead;
      ++fetching_;
      ++ahead_;
      taken = std::move(file);
      work_.notify_one();  // another thread may take the next one
    }
  }
  looking_ahead_ = false;
  return taken;
}

NextUses Fetcher::next_uses() const {
  std::vector<Followed> followed;
  {
    const std::lock_guard lock(followed_mutex_);
    followed = followed_;
  }
  NextUses uses;
  for (const Followed& f : followed) {
    for (const Lookahead::Next& next : f.ahead->uses()) {
      RemoteFile file = f.dataset.remote_file(next.file);
      {
        const Fetcher& whose = f.other != nullptr ? *f.other : *this;
        const std::lock_guard lock(whose.mutex_);
        if (!whose.fill_in(file)) continue;
      }
      const auto at = uses.try_emplace(cache_key(file.url, file.bytes, file.version), next.use);
      at.first->second = std::min(at.first->second, next.use);
    }
  }
  return uses;
}

void Fetcher::fetch_no_more(Entry& entry) {
  --fetching_;
  if (entry.ahead) --ahead_;
  entry.ahead.reset();
  entry.of.reset();
}

std::optional<std::string> Fetcher::begin(const RemoteFile& file) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_.at(file.url);  // kFetching: nobody erases it
  if (file.bytes == RemoteFile::kUnknown) {
    throw FormatError(file.url, -1,
                      "the store does not say how many bytes it has, so that a broken connection "
                      "could not be noticed",
                      EIO);
  }
  RemoteFile known = entry.file;
  fill_in(known);
  if (known.bytes != RemoteFile::kUnknown && known.bytes != file.bytes) {
    fail_changed(file.url, fmt::format("it has {} bytes, and had {}", file.bytes, known.bytes));
  }
  if (known.version != 0 && file.version != known.version) {
    fail_changed(file.url, "its ETag, checksum or time is another one");
  }
  if (known.version == 0) {
    found_out_[hash_of_url(file.url)] = {.bytes = file.bytes, .version = file.version};
  }
  entry.file = file;
  const CacheKey key = cache_key(file.url, file.bytes, file.version);
  const double begin_s = now_s();
  for (;;) {
    const DiskCache::Wish wish{.url = file.url,
                               .bytes = file.bytes,
                               .use = entry.waiting > 0 || !entry.ahead ? -1 : entry.ahead->use,
                               .waited = entry.waiting > 0 || !entry.ahead};
    lock.unlock();
    DiskCache::Begun begun = cache_.begin(
        key, wish, [this] { return next_uses(); }, [this] { check_stop(nullptr); });
    lock.lock();
    if (begun.part != nullptr) {
      entry.part = std::move(begun.part);
      no_room_pause_s_ = 0;
      return entry.part->path();
    }
    if (begun.file != nullptr) {
      entry.open = std::move(begun.file);
      entry.used_s = now_s();
      entry.state = State::kHere;
      fetch_no_more(entry);
      ++stats_.hits;
      changed_.notify_all();
      return std::nullopt;
    }
    if (entry.waiting == 0 && entry.ahead) {
      // Files that are needed before it fill the cache.
      no_room_pause_s_ = std::clamp(2 * no_room_pause_s_, 1.0, kLongestRoomPause_s);
      no_room_until_s_ = now_s() + no_room_pause_s_;
      entry.of->put_back(*entry.ahead);
      fetch_no_more(entry);
      entries_.erase(file.url);
      return std::nullopt;
    }
    drop_idle(0);
    if (now_s() - begin_s > options_.cache.patience_s) {
      throw FormatError(file.url, -1,
                        fmt::format("there is no room for its {} bytes in the cache {}, which may "
                                    "take {}: all files in it are being read; give it more "
                                    "(disk_bytes)",
                                    file.bytes, options_.cache.folder, cache_.limit()),
                        ENOSPC);
    }
    lock.unlock();
    check_stop(nullptr);
    std::this_thread::sleep_for(std::chrono::duration<double>(kRoomPeriod_s));
    lock.lock();
  }
}

void Fetcher::grew(const std::string& url, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  check_stop(nullptr);
  stats_.fetched_bytes += static_cast<int64_t>(bytes);
  const auto at = entries_.find(url);
  if (at != entries_.end() && at->second.part != nullptr) at->second.part->grew();
}

void Fetcher::retried() {
  const std::lock_guard lock(mutex_);
  ++stats_.retries;
}

void Fetcher::finish(const std::string& url) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_.at(url);
  const std::unique_ptr<DiskCache::Part> part = std::move(entry.part);
  lock.unlock();
  if (check_) check_(url, part->path());
  std::shared_ptr<const CachedFile> file = part->publish();
  lock.lock();
  entry.open = std::move(file);
  entry.used_s = now_s();
  entry.state = State::kHere;
  fetch_no_more(entry);
  ++stats_.fetched;
  changed_.notify_all();
}

void Fetcher::fail(const std::string& url, const std::string& problem, int code) {
  std::unique_ptr<DiskCache::Part> part;  // removed without the lock
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(url);
  if (at == entries_.end() || at->second.state != State::kFetching) return;
  Entry& entry = at->second;
  part = std::move(entry.part);
  entry.state = State::kFailed;
  // An error that names the URL is not to name it twice.
  const std::string prefix = url + ": ";
  entry.problem = problem.starts_with(prefix) ? problem.substr(prefix.size()) : problem;
  entry.code = code;
  fetch_no_more(entry);
  ++stats_.failures;
  changed_.notify_all();
}

void Fetcher::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  work_.notify_all();
  changed_.notify_all();
}

std::string Fetcher::note_path(const RemoteFile& file, std::string_view ending) const {
  return cache_.note_path(cache_key(file.url, file.bytes, file.version), ending);
}

RemoteStats Fetcher::stats() const {
  const std::lock_guard lock(mutex_);
  RemoteStats stats = stats_;
  stats.evicted = cache_.evicted();
  stats.limit_bytes = cache_.limit();
  return stats;
}

StoreThreads::StoreThreads(std::shared_ptr<Fetcher> fetcher, std::shared_ptr<Store> store,
                           int threads)
    : fetcher_(std::move(fetcher)), store_(std::move(store)) {
  const auto work = [this] {
    while (const std::optional<RemoteFile> taken = fetcher_->take()) {
      const std::string& url = taken->url;
      try {
        const RemoteFile file = store_->look(url);
        const auto path = fetcher_->begin(file);
        if (!path) continue;
        store_->fetch(file, *path, [&](uint64_t bytes) { fetcher_->grew(url, bytes); });
        const RemoteFile after = store_->look(url);
        if (after.bytes != file.bytes || after.version != file.version) {
          fail_changed(url, "while it was fetched");
        }
        fetcher_->finish(url);
      } catch (const FormatError& e) {
        fetcher_->fail(url, e.what(), e.code() != 0 ? e.code() : EIO);
      } catch (const std::exception& e) {
        fetcher_->fail(url, e.what(), EIO);
      }
    }
  };
  for (int i = 0; i < threads; ++i) threads_.push_back(start_thread("fetch", work));
}

StoreThreads::~StoreThreads() {
  fetcher_->close();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace stretto::data
