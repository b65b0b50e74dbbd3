#include "stretto/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"

namespace stretto {
namespace {

[[noreturn]] void fail(const std::string& path, std::string_view action) {
  const int code = errno;
  throw FormatError(path, -1, fmt::format("cannot {}: {}", action, std::strerror(code)), code);
}

// The pages that `part` touches, or those that hold nothing else.
std::pair<char*, char*> pages(std::span<const std::byte> part, bool whole) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uintptr_t>(part.data());
  auto end = begin + part.size();
  begin = (whole ? begin + page - 1 : begin) / page * page;
  end = (whole ? end : end + page - 1) / page * page;
  return {reinterpret_cast<char*>(begin), reinterpret_cast<char*>(end)};
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path, "open");
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    const int code = S_ISDIR(info.st_mode) ? EISDIR : 0;
    ::close(fd);
    throw FormatError(path, -1, "expected a regular file", code);
  }
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  file->size_ = static_cast<size_t>(info.st_size);
  if (file->size_ > 0) {
    void* data = mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      ::close(fd);
      file->size_ = 0;
      fail(path, "map");
    }
    file->data_ = static_cast<const std::byte*>(data);
  }
  ::close(fd);
  return file;
}

void MappedFile::read_ahead([[maybe_unused]] std::span<const std::byte> part) const {
#if defined(MADV_POPULATE_READ)
  // Older kernels refuse, which costs nothing but the faults.
  const auto [begin, end] = pages(part, false);
  if (begin < end) madvise(begin, static_cast<size_t>(end - begin), MADV_POPULATE_READ);
#endif
}

void MappedFile::let_go(std::span<const std::byte> part) const {
  const auto [begin, end] = pages(part, true);
  if (begin < end) madvise(begin, static_cast<size_t>(end - begin), MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "open");
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {  // which opens, and reads as if empty
    errno = EISDIR;
    fail(path, "read");
  }
  std::ostringstream content;
  content << file.rdbuf();
  if (file.bad()) fail(path, "read");
  return std::move(content).str();
}

namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel follows

// Where what is written to a path goes.
struct Target {
  std::string path;       // behind all links
  bool in_place = false;  // a device, a pipe or a socket: a file renamed to it would replace it
};

// The path behind links, also where the last one leads to no file yet.
fs::path follow_links(fs::path path) {
  std::error_code no_link;
  for (int i = 0; i < kMostLinks; ++i) {
    const fs::path next = fs::read_symlink(path, no_link);
    if (no_link) break;
    path = path.parent_path() / next;  // `next` alone where it is absolute
  }
  return path;
}

// Throws where nothing can be written to.
Target target_of(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      errno = EISDIR;
      fail(path, "create");
    }
    if (!S_ISREG(info.st_mode)) return {path, true};
  } else if (errno != ENOENT) {
    fail(path, "create");
  }
  const fs::path target = follow_links(path);
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) {
    throw FormatError(path, -1,
                      fmt::format("cannot create: there is no folder {}", folder.string()), ENOENT);
  }
  return {target.string(), false};
}

// Files that this process is writing. Whoever ends the process in the midst of that removes them.
struct Unfinished {
  std::mutex lock;
  std::set<std::string> names;
};

Unfinished& unfinished() {
  static auto* const all = new Unfinished;  // other threads may still write when the process ends
  return *all;
}

// A file under a temporary name, removed again unless it is renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string name) : name_(std::move(name)) {
    const std::lock_guard guard(unfinished().lock);
    unfinished().names.insert(name_);
  }
  ~TemporaryFile() {
    const std::lock_guard guard(unfinished().lock);
    std::error_code ignored;
    if (unfinished().names.erase(name_) > 0) fs::remove(name_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  // False leaves errno.
  bool rename_to(const std::string& path) {
    const std::lock_guard guard(unfinished().lock);
    if (std::rename(name_.c_str(), path.c_str()) != 0) return false;
    unfinished().names.erase(name_);
    return true;
  }

 private:
  const std::string name_;
};

std::string temporary_beside(const Target& target) {
  return fmt::format("{}.{}.tmp", target.path, ::getpid());
}

// A file open for writing.
class OutputFile {
 public:
  OutputFile(const std::string& path, int flags)
      : fd_(::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666)) {}
  ~OutputFile() { close(); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  bool is_open() const { return fd_ >= 0; }

  // Writes and closes. False leaves errno. Throws what check_interrupt() throws.
  bool write(std::span<const std::string_view> pieces) {
    for (std::string_view content : pieces) {
      while (!content.empty()) {
        const size_t part = std::min(content.size(), kInterruptiblePiece);
        const ssize_t count = ::write(fd_, content.data(), part);
        if (count < 0 && errno != EINTR) return false;
        if (count > 0) content.remove_prefix(static_cast<size_t>(count));
        if (!content.empty()) check_interrupt();
      }
    }
    return close();
  }

 private:
  bool close() {
    if (fd_ < 0) return true;
    const int code = errno;  // kept where closing succeeds
    const bool closed = ::close(std::exchange(fd_, -1)) == 0;
    if (closed) errno = code;
    return closed;
  }

  int fd_;
};

}  // namespace

void check_writable(const std::string& path) {
  const Target target = target_of(path);
  if (target.in_place) {
    // Opening a pipe would wait for its reader.
    if (::access(path.c_str(), W_OK) != 0) fail(path, "write");
    return;
  }
  const std::string temporary = temporary_beside(target);
  if (!OutputFile(temporary, O_CREAT | O_TRUNC).is_open()) fail(path, "create");
  std::error_code ignored;
  fs::remove(temporary, ignored);
}

void write_file(const std::string& path, std::string_view content) {
  write_file(path, std::span<const std::string_view>(&content, 1));
}

void write_file(const std::string& path, std::span<const std::string_view> pieces) {
  const Target target = target_of(path);
  if (target.in_place) {
    OutputFile file(path, 0);
    if (!file.is_open() || !file.write(pieces)) fail(path, "write");
    return;
  }
  const std::string name = temporary_beside(target);
  TemporaryFile temporary(name);
  {
    OutputFile file(name, O_CREAT | O_TRUNC);
    if (!file.is_open()) fail(path, "create");
    if (!file.write(pieces)) fail(path, "write");
  }
  if (!temporary.rename_to(target.path)) fail(path, "rename into place");
}

void remove_unfinished_files() {
  // Stays locked: no file takes its final name any more, and no name is added.
  unfinished().lock.lock();
  std::error_code ignored;
  for (const std::string& name : unfinished().names) fs::remove(name, ignored);
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  const bool first_exists = ::stat(a.c_str(), &first) == 0;
  const bool second_exists = ::stat(b.c_str(), &second) == 0;
  if (first_exists && second_exists) {
    return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  }
  if (first_exists || second_exists) return false;
  std::error_code unknown;
  const auto whole = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(follow_links(path)), unknown);
  };
  return whole(a) == whole(b) && !unknown;
}

std::string cache_directory() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (std::string own = variable("STRETTO_CACHE_DIR"); !own.empty()) return own;
  if (std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/stretto";
  std::string home = variable("HOME");
  return (home.empty() ? std::string("/tmp") : home) + "/.cache/stretto";
}

}  // namespace stretto
