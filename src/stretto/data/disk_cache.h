// A folder of files that were fetched from elsewhere, bounded in bytes and shared by the processes
// of a host. Whatever a process that was killed leaves in it is never taken for a file.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stretto::data {

// Names a state of a file: another size or version of the same URL has another key.
struct CacheKey {
  uint64_t low = 0, high = 0;
  bool operator==(const CacheKey&) const = default;
  std::string text() const;  // 32 hexadecimal digits
};
struct HashCacheKey {
  size_t operator()(const CacheKey& key) const { return key.low; }
};
CacheKey cache_key(std::string_view url, uint64_t bytes, uint64_t version);

// When each file is needed next; any unit. A file that is not in it is needed after all others.
// Files of other datasets may be in it.
using NextUses = std::unordered_map<CacheKey, int64_t, HashCacheKey>;

// A file of the cache, open for reading. No process evicts it while any copy of the pointer lives.
class CachedFile {
 public:
  CachedFile(int fd, uint64_t bytes, std::string path)
      : fd_(fd), bytes_(bytes), path_(std::move(path)) {}
  ~CachedFile();
  CachedFile(const CachedFile&) = delete;
  CachedFile& operator=(const CachedFile&) = delete;

  int fd() const { return fd_; }
  uint64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  const int fd_;
  const uint64_t bytes_;
  const std::string path_;
};

struct CacheOptions {
  std::string folder;       // of the cache
  std::string dataset;      // what these files belong to, such as its URL
  uint64_t bytes = 0;       // that the cache may take, with the files of other datasets in it
  double patience_s = 120;  // for a lock that nobody gives back, and for room
};

class DiskCache {
 public:
  // Makes the folder. Throws FormatError naming it if it cannot be made, written or locked.
  explicit DiskCache(CacheOptions options);
  ~DiskCache();

  // The file, if it is there with this size.
  std::shared_ptr<const CachedFile> find(const CacheKey& key, uint64_t bytes) const;
  // The same without opening it.
  bool has(const CacheKey& key) const;

  // A file in the making, which only this process writes. Removed with this object unless it was
  // published. The cache outlives it.
  class Part {
   public:
    ~Part();
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    const std::string& path() const { return path_; }  // to be written
    void grew() const;  // tells those who wait for it that it is being written
    // What was written is on the disk and has its name. Throws FormatError.
    std::shared_ptr<const CachedFile> publish();

   private:
    friend class DiskCache;
    Part(const DiskCache& cache, const CacheKey& key, uint64_t bytes, int lock)
        : cache_(cache), key_(key), bytes_(bytes), lock_(lock) {}
    const DiskCache& cache_;
    const CacheKey key_;
    const uint64_t bytes_;
    std::string path_;
    int lock_, fd_ = -1;
    bool reserved_ = false;
  };
  struct Begun {
    std::unique_ptr<Part> part;              // to be written
    std::shared_ptr<const CachedFile> file;  // or the file, which another process wrote meanwhile
  };

  struct Wish {
    std::string url;  // for errors
    uint64_t bytes = 0;
    int64_t use = 0;      // when it is needed, as in `uses`; files needed before are not evicted
    bool waited = false;  // somebody waits: so are files that others have used lately
  };
  // Waits for a process that fetches the same file, and makes room: the files that are needed
  // farthest in the future go first, but none that is open. Returns neither if there is no room
  // now. Throws FormatError if there never is, if a lock is not given back, or if the disk is full;
  // and whatever `check` throws, which is called while it waits.
  Begun begin(const CacheKey& key, const Wish& wish, const std::function<NextUses()>& uses,
              const std::function<void()>& check);

  // Where a few bytes about a file are kept, such as an index of it.
  std::string note_path(const CacheKey& key, std::string_view ending) const;

  uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  int64_t evicted() const { return evicted_.load(std::memory_order_relaxed); }

 private:
  struct Stored;
  class Usage;
  std::string path_of(const CacheKey& key) const;
  int lock(const CacheKey& key, const Wish& wish, const std::function<void()>& check) const;
  bool make_room(Usage& usage, const Wish& wish, const std::function<NextUses()>& uses);
  void give_back(uint64_t bytes) const;
  std::vector<Stored> scan(uint64_t& used) const;
  void evict(const Wish& wish, const NextUses& uses, uint64_t& used, uint64_t target);
  bool create(Part& part);  // false: the disk is full

  const CacheOptions options_;
  std::string own_;                  // the folder of this dataset
  std::atomic<uint64_t> limit_;      // falls where the disk has less room
  std::atomic<int64_t> evicted_{0};  // files
};

}  // namespace stretto::data
