// Files behind URLs, as they come into the cache on the disk of this host: asked for by readers and
// by the order of samples, fetched by whoever calls take(). Nothing here knows what a URL is.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "stretto/data/dataset.h"
#include "stretto/data/disk_cache.h"
#include "stretto/data/lookahead.h"
#include "stretto/data/remote_stats.h"

namespace stretto::data {

struct FetchOptions {
  CacheOptions cache;
  int threads = 8;  // that call take()
};

// Safe for all threads.
class Fetcher {
 public:
  explicit Fetcher(FetchOptions options);  // throws as DiskCache does
  ~Fetcher();
  Fetcher(const Fetcher&) = delete;
  Fetcher& operator=(const Fetcher&) = delete;

  // For readers. Waits until the file is here, or for `stop`. Throws FormatError naming the URL if
  // it does not come, and Unsupported after close() or `stop`, and in a child of fork(). Calls
  // check_interrupt().
  std::shared_ptr<const CachedFile> open(const RemoteFile& file,
                                         const std::atomic<bool>* stop = nullptr);

  // What `ahead` needs is fetched before it is asked for, as far as the cache reaches; a loader
  // calls moved() when it goes on, and unfollow() before `ahead` ends.
  void follow(std::shared_ptr<Lookahead> ahead, Dataset dataset);
  void unfollow(const Lookahead* ahead);
  // The same order needs files of another fetcher with the same cache: so that neither evicts what
  // the other needs sooner. Until unfollow().
  void follow_beside(std::shared_ptr<Lookahead> ahead, Dataset dataset,
                     std::shared_ptr<const Fetcher> other);
  void moved();

  // For those who fetch, each file in this order: take(), begin(), writing, finish() or fail().
  // take() waits, and returns nothing after close().
  std::optional<RemoteFile> take();
  // With what the store says of the file. Returns the path to write it to; nothing if it need not
  // be fetched, or not now. Throws FormatError if it was changed since it was known first, or as
  // DiskCache::begin(). What it throws is to be given to fail().
  std::optional<std::string> begin(const RemoteFile& file);
  // So many bytes more were written. Throws Unsupported after close().
  void grew(const std::string& url, uint64_t bytes);
  void retried();
  void finish(const std::string& url);  // throws FormatError if it is not what it should be
  void fail(const std::string& url, const std::string& problem, int code);
  // Looks at what was fetched before it is believed; throws FormatError. Set before any open().
  void set_check(std::function<void(const std::string& url, const std::string& path)> check);

  // Waiting calls end. May be called again.
  void close();

  // Where a few bytes about this state of a file are kept.
  std::string note_path(const RemoteFile& file, std::string_view ending) const;
  RemoteStats stats() const;
  const std::string& folder() const { return options_.cache.folder; }  // of the cache

 private:
  enum class State : uint8_t { kLooking, kAsked, kFetching, kHere, kFailed };
  struct Entry {
    State state = State::kLooking;
    RemoteFile file;
    int waiting = 0;
    std::optional<Lookahead::Next> ahead;  // it is fetched ahead, for `of`
    std::shared_ptr<Lookahead> of;
    std::shared_ptr<const CachedFile> open;
    double used_s = 0;
    std::unique_ptr<DiskCache::Part> part;
    std::string problem;  // kFailed
    int code = 0;
  };
  struct Followed {
    std::shared_ptr<Lookahead> ahead;
    Dataset dataset;
    std::shared_ptr<const Fetcher> other;  // who fetches its files; nullptr: this one
  };

  using Entries = std::unordered_map<std::string, Entry>;

  // With the lock: what was found out of a file is filled in; whether its key is known then.
  bool fill_in(RemoteFile& file) const;
  void check_stop(const std::atomic<bool>* stop) const;
  Entry& look_on_disk(std::unique_lock<std::mutex>& lock, const RemoteFile& file);
  std::optional<RemoteFile> take_ahead(std::unique_lock<std::mutex>& lock);
  void fetch_no_more(Entry& entry);
  NextUses next_uses() const;
  void drop_idle(double idle_s);

  const FetchOptions options_;
  const uint64_t forks_;
  DiskCache cache_;
  std::function<void(const std::string& url, const std::string& path)> check_;

  mutable std::mutex mutex_;
  std::condition_variable work_, changed_;
  std::unordered_map<std::string, Entry> entries_;  // files that are open or on their way
  std::deque<std::string> asked_;                   // kAsked, in order
  // What the store said of files of which nothing was known, by a hash of their URL.
  struct FoundOut {
    uint64_t bytes = 0, version = 0;
  };
  std::unordered_map<uint64_t, FoundOut> found_out_;
  // Threads that wait in open(), files that are fetched, and those of them that are fetched ahead.
  int waiting_ = 0, fetching_ = 0, ahead_ = 0;
  bool looking_ahead_ = false;  // a thread is in take_ahead()
  double no_room_until_s_ = 0, no_room_pause_s_ = 0, next_drop_s_ = 0;
  RemoteStats stats_;
  std::atomic<bool> closed_{false};

  mutable std::mutex followed_mutex_;
  std::vector<Followed> followed_;
};

// Where files come from, for programs that have no Python. Called by several threads at once.
class Store {
 public:
  virtual ~Store() = default;
  // The file's size, and its version if the store has such. Throws FormatError naming the URL, with
  // the code ENOENT if there is no such file.
  virtual RemoteFile look(const std::string& url) = 0;
  // Writes the whole file to `path`, which exists, and calls grew() for what came, also while it
  // waits. Does not wait for ever. Throws FormatError naming the URL.
  virtual void fetch(const RemoteFile& file, const std::string& path,
                     const std::function<void(uint64_t bytes)>& grew) = 0;
};

// Threads that fetch, until they are destroyed, which closes the fetcher.
class StoreThreads {
 public:
  StoreThreads(std::shared_ptr<Fetcher> fetcher, std::shared_ptr<Store> store, int threads);
  ~StoreThreads();
  StoreThreads(const StoreThreads&) = delete;
  StoreThreads& operator=(const StoreThreads&) = delete;

 private:
  std::shared_ptr<Fetcher> fetcher_;
  std::shared_ptr<Store> store_;
  std::vector<std::thread> threads_;
};

}  // namespace stretto::data
