#include "stretto/data/disk_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/log.h"

namespace stretto::data {
namespace {

constexpr const char *kUsageFile = "usage", *kPartsFolder = "parts", *kLocksFolder = "locks";
constexpr auto kLockPoll = std::chrono::milliseconds(20);
// What is freed at once beyond what is needed: looking through the folder takes a while.
constexpr uint64_t kSlackPart = 20;
// A file of another dataset that was used within this time is evicted last.
constexpr double kForeignUse_s = 600;

std::string cause(int code) { return std::generic_category().message(code); }

[[noreturn]] void fail_cache(const std::string& path, std::string_view action, int code) {
  throw FormatError(path, -1, fmt::format("cannot {}: {}", action, cause(code)), code);
}

int open_cached(const std::string& path, int flags) {
  int fd = -1;
  do fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  while (fd < 0 && errno == EINTR);
  return fd;
}

// Locks end with the process, however it ends.
bool try_flock(int fd, int kind) {
  int result = 0;
  do result = ::flock(fd, kind | LOCK_NB);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

// Removes a file that no process has locked.
bool remove_unlocked(const std::string& path) {
  const int fd = open_cached(path, O_RDWR);
  if (fd < 0) return false;
  const bool mine = try_flock(fd, LOCK_EX);
  const bool removed = mine && ::unlink(path.c_str()) == 0;
  ::close(fd);
  return removed;
}

void make_cache_folder(const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  if (problem) fail_cache(path, "make the folder of the cache", problem.value());
}

double wall_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The key that a file's name spells.
bool parse_key(std::string_view name, CacheKey& key) {
  constexpr size_t kDigits = 16;
  if (name.size() != 2 * kDigits) return false;
  const auto half = [&](size_t at, uint64_t& number) {
    const char* const begin = name.data() + at;
    const auto [rest, wrong] = std::from_chars(begin, begin + kDigits, number, 16);
    return wrong == std::errc() && rest == begin + kDigits;
  };
  return half(0, key.high) && half(kDigits, key.low);
}

}  // namespace

std::string CacheKey::text() const { return fmt::format("{:016x}{:016x}", high, low); }

CacheKey cache_key(std::string_view url, uint64_t bytes, uint64_t version) {
  const uint64_t numbers[2] = {bytes, version};
  const uint64_t seed = XXH3_64bits(numbers, sizeof numbers);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(url.data(), url.size(), seed);
  return {.low = hash.low64, .high = hash.high64};
}

CachedFile::~CachedFile() { ::close(fd_); }

// Something in the folder that can be evicted.
struct DiskCache::Stored {
  std::string path;
  CacheKey key;
  uint64_t bytes = 0;
  double used_s = 0;  // when it was last opened
  bool own = false;   // of this dataset
};

// How many bytes are in the cache or promised to files in the making, in a file that whoever reads
// or changes it has locked. It may be too large after a process was killed, until the next scan.
class DiskCache::Usage {
 public:
  Usage(const DiskCache& cache, const std::function<void()>& check) {
    path_ = fmt::format("{}/{}", cache.options_.folder, kUsageFile);
    fd_ = open_cached(path_, O_RDWR | O_CREAT);
    if (fd_ < 0) fail_cache(path_, "open", errno);
    const double begin = now_s();
    while (!try_flock(fd_, LOCK_EX)) {
      const int code = errno;
      if (code != EWOULDBLOCK || now_s() - begin > cache.options_.patience_s) {
        ::close(fd_);
        fail_cache(path_, "lock: the cache needs a file system with locks (flock)", code);
      }
      try {
        if (check) check();
      } catch (...) {
        ::close(fd_);
        throw;
      }
      std::this_thread::sleep_for(kLockPoll);
    }
    if (::pread(fd_, &bytes, sizeof bytes, 0) != sizeof bytes) bytes = 0;
  }
  ~Usage() { ::close(fd_); }
  Usage(const Usage&) = delete;
  Usage& operator=(const Usage&) = delete;

  void write() const {
    if (::pwrite(fd_, &bytes, sizeof bytes, 0) != sizeof bytes) fail_cache(path_, "write", errno);
  }

  uint64_t bytes = 0;

 private:
  std::string path_;
  int fd_ = -1;
};

DiskCache::DiskCache(CacheOptions options) : options_(std::move(options)), limit_(options_.bytes) {
  own_ = fmt::format("{}/{:016x}", options_.folder,
                     XXH3_64bits(options_.dataset.data(), options_.dataset.size()));
  for (const std::string& path : {own_, fmt::format("{}/{}", options_.folder, kPartsFolder),
                                  fmt::format("{}/{}", options_.folder, kLocksFolder)}) {
    make_cache_folder(path);
  }
  // Counted anew, as processes may have been killed.
  Usage usage(*this, {});
  scan(usage.bytes);
  usage.write();
}
DiskCache::~DiskCache() = default;

std::string DiskCache::path_of(const CacheKey& key) const {
  return fmt::format("{}/{}", own_, key.text());
}

std::string DiskCache::note_path(const CacheKey& key, std::string_view ending) const {
  return fmt::format("{}/{}.{}", own_, key.text(), ending);
}

bool DiskCache::has(const CacheKey& key) const { return ::access(path_of(key).c_str(), R_OK) == 0; }

std::shared_ptr<const CachedFile> DiskCache::find(const CacheKey& key, uint64_t bytes) const {
  constexpr int kTries = 50;
  const std::string path = path_of(key);
  for (int i = 0; i < kTries; ++i) {
    const int fd = open_cached(path, O_RDONLY);
    if (fd < 0) return nullptr;
    struct stat info {};
    if (!try_flock(fd, LOCK_SH)) {  // it is being evicted, or was published just now
      ::close(fd);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    if (::fstat(fd, &info) != 0 || info.st_nlink == 0) {  // evicted before it was locked
      ::close(fd);
      continue;
    }
    if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) != bytes) {
      ::unlink(path.c_str());  // cut by somebody else: it is fetched again
      ::close(fd);
      return nullptr;
    }
    const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_NOW},
                               {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
    ::futimens(fd, times);  // a wish: where it is refused, eviction knows less
    return std::make_shared<const CachedFile>(fd, bytes, path);
  }
  return nullptr;
}

int DiskCache::lock(const CacheKey& key, const Wish& wish,
                    const std::function<void()>& check) const {
  const std::string path = fmt::format("{}/{}/{}", options_.folder, kLocksFolder, key.text());
  int64_t seen = 0;
  double changed_s = now_s();
  for (;;) {
    const int fd = open_cached(path, O_RDWR | O_CREAT);
    if (fd < 0) fail_cache(path, "open", errno);
    struct stat mine {
    }, named{};
    const bool held = try_flock(fd, LOCK_EX);
    const bool known = ::fstat(fd, &mine) == 0 && ::stat(path.c_str(), &named) == 0;
    if (held && known && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev) return fd;
    ::close(fd);
    if (held) continue;  // removed by whoever had it before
    // Whoever has it touches it as long as bytes come.
    const int64_t touched = int64_t{mine.st_mtim.tv_sec} * 1'000'000'000 + mine.st_mtim.tv_nsec;
    if (touched != seen) changed_s = now_s();
    seen = touched;
    if (now_s() - changed_s > options_.patience_s) {
      throw FormatError(wish.url, -1,
                        fmt::format("another process of this host has been fetching it, but got "
                                    "nothing for {:.0f} s: end that process, or remove {}",
                                    options_.patience_s, path),
                        ETIMEDOUT);
    }
    if (check) check();
    std::this_thread::sleep_for(kLockPoll);
  }
}

std::vector<DiskCache::Stored> DiskCache::scan(uint64_t& used) const {
  namespace fs = std::filesystem;
  std::vector<Stored> found;
  std::error_code problem;
  used = 0;
  const auto each = [&](const std::string& folder, const auto& visit) {
    std::error_code gone;
    for (fs::directory_iterator at(folder, gone), end; !gone && at != end; at.increment(gone)) {
      visit(at->path());
    }
  };
  const std::string parts = fmt::format("{}/{}", options_.folder, kPartsFolder);
  each(parts, [&](const fs::path& path) {
    if (remove_unlocked(path.string())) return;
    // KEY.BYTES.PROCESS-NUMBER: it counts as what it will be.
    uint64_t bytes = 0;
    const std::string name = path.filename().string();
    const size_t dot = std::min(name.find('.'), name.size() - 1) + 1;
    std::from_chars(name.data() + dot, name.data() + name.size(), bytes);
    used += bytes;
  });
  each(fmt::format("{}/{}", options_.folder, kLocksFolder),
       [](const fs::path& path) { remove_unlocked(path.string()); });
  each(options_.folder, [&](const fs::path& folder) {
    const std::string name = folder.filename().string();
    if (name == kPartsFolder || name == kLocksFolder || name == kUsageFile) return;
    each(folder.string(), [&](const fs::path& path) {
      struct stat info {};
      if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
      used += static_cast<uint64_t>(info.st_size);
      Stored stored{.path = path.string(),
                    .key = {},
                    .bytes = static_cast<uint64_t>(info.st_size),
                    .used_s = static_cast<double>(info.st_atim.tv_sec),
                    .own = folder.string() == own_};
      // Notes are small and outlive their files.
      if (parse_key(path.filename().string(), stored.key)) found.push_back(std::move(stored));
    });
  });
  return found;
}

void DiskCache::evict(const Wish& wish, const NextUses& uses, uint64_t& used, uint64_t target) {
  // From what nobody is known to need to what others used lately.
  enum Rank { kUnneeded, kNeeded, kForeign };
  struct Candidate {
    Rank rank;
    double before;  // the smallest goes first
    Stored stored;
  };
  const double now = wall_s();
  std::vector<Candidate> candidates;
  for (Stored& stored : scan(used)) {
    const auto use = uses.find(stored.key);
    if (use != uses.end()) {
      if (use->second <= wish.use) continue;
      candidates.push_back({kNeeded, -static_cast<double>(use->second), std::move(stored)});
    } else if (stored.own || now - stored.used_s > kForeignUse_s) {
      candidates.push_back({kUnneeded, stored.used_s, std::move(stored)});
    } else if (wish.waited) {
      candidates.push_back({kForeign, stored.used_s, std::move(stored)});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.before < b.before;
  });
  for (const Candidate& candidate : candidates) {
    if (used <= target) return;
    if (!remove_unlocked(candidate.stored.path)) continue;  // it is open
    used -= std::min(used, candidate.stored.bytes);
    evicted_.fetch_add(1, std::memory_order_relaxed);
  }
}

bool DiskCache::make_room(Usage& usage, const Wish& wish, const std::function<NextUses()>& uses) {
  const uint64_t limit = limit_;
  if (wish.bytes > limit) {
    throw FormatError(
        wish.url, -1,
        fmt::format("it has {} bytes, but the cache {} may take {}: give it more (disk_bytes)",
                    wish.bytes, options_.folder, limit),
        ENOSPC);
  }
  if (usage.bytes <= limit && wish.bytes <= limit - usage.bytes) return true;
  const uint64_t room = limit - wish.bytes;
  evict(wish, uses(), usage.bytes, room - std::min(room, limit / kSlackPart));
  return usage.bytes <= room;
}

void DiskCache::give_back(uint64_t bytes) const {
  Usage usage(*this, {});
  usage.bytes -= std::min(usage.bytes, bytes);
  usage.write();
}

bool DiskCache::create(Part& part) {
  static std::atomic<uint64_t> number{0};
  for (;;) {
    part.path_ = fmt::format("{}/{}/{}.{}.{}-{}", options_.folder, kPartsFolder, part.key_.text(),
                             part.bytes_, ::getpid(), ++number);
    part.fd_ = open_cached(part.path_, O_RDWR | O_CREAT | O_EXCL);
    if (part.fd_ < 0 && errno == ENOSPC) return false;
    if (part.fd_ < 0) fail_cache(part.path_, "write", errno);
    struct stat info {};
    if (try_flock(part.fd_, LOCK_EX) && ::fstat(part.fd_, &info) == 0 && info.st_nlink > 0) break;
    // Another process took it for one that was left behind, before it was locked.
    ::close(std::exchange(part.fd_, -1));
  }
#if defined(__linux__)
  // Where the file system cannot promise the room, writing tells that the disk is full.
  if (part.bytes_ > 0 && ::fallocate(part.fd_, 0, 0, static_cast<off_t>(part.bytes_)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT)) {
    ::unlink(part.path_.c_str());
    ::close(part.fd_);
    part.fd_ = -1;
    return false;
  }
#endif
  return true;
}

DiskCache::Begun DiskCache::begin(const CacheKey& key, const Wish& wish,
                                  const std::function<NextUses()>& uses,
                                  const std::function<void()>& check) {
  constexpr int kShrinks = 8;
  std::unique_ptr<Part> part(new Part(*this, key, wish.bytes, lock(key, wish, check)));
  if (auto file = find(key, wish.bytes)) return {.part = nullptr, .file = std::move(file)};
  // One at a time: of files that are made at once on a full disk each takes the room of the others,
  // and the scan below would count those that fail, so that the limit would not fall.
  Usage usage(*this, check);
  for (int i = 0; i < kShrinks; ++i) {
    if (!make_room(usage, wish, uses)) {
      usage.write();
      return {};
    }
    if (create(*part)) {
      usage.bytes += wish.bytes;
      usage.write();
      part->reserved_ = true;
      return {.part = std::move(part), .file = nullptr};
    }
    // The cache shrinks to what it has now, so that room for this file is made by evicting others.
    scan(usage.bytes);
    if (usage.bytes < wish.bytes) break;
    limit_ = std::min(limit_.load(), usage.bytes);
    log_message(LogLevel::kWarning,
                fmt::format("{}: the disk is full; the cache keeps to {} bytes, of {} that it may "
                            "take",
                            options_.folder, usage.bytes, options_.bytes));
  }
  throw FormatError(options_.folder, -1,
                    fmt::format("the disk is full: there is no room for {} ({} bytes); free some, "
                                "or choose another cache_dir",
                                wish.url, wish.bytes),
                    ENOSPC);
}

DiskCache::Part::~Part() {
  if (fd_ >= 0) {
    ::unlink(path_.c_str());
    ::close(fd_);
  }
  try {
    if (reserved_) cache_.give_back(bytes_);
  } catch (const std::exception&) {
    // The next scan counts again.
  }
  if (lock_ >= 0) {
    ::unlink(fmt::format("{}/{}/{}", cache_.options_.folder, kLocksFolder, key_.text()).c_str());
    ::close(lock_);
  }
}

void DiskCache::Part::grew() const { ::futimens(lock_, nullptr); }

std::shared_ptr<const CachedFile> DiskCache::Part::publish() {
  struct stat info {};
  if (::fstat(fd_, &info) != 0 || static_cast<uint64_t>(info.st_size) != bytes_) {
    throw FormatError(path_, -1, fmt::format("expected {} bytes, got {}", bytes_, info.st_size),
                      EIO);
  }
  // A name must never lead to bytes that are not on the disk yet, were the power to fail.
  if (::fdatasync(fd_) != 0) fail_cache(path_, "write", errno);
  const std::string path = cache_.path_of(key_);
  if (::rename(path_.c_str(), path.c_str()) != 0) fail_cache(path, "write", errno);
  try_flock(fd_, LOCK_SH);
  reserved_ = false;  // it counts as a file from here on
  return std::make_shared<const CachedFile>(std::exchange(fd_, -1), bytes_, path);
}

}  // namespace stretto::data
