#include "stretto/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "stretto/base/error.h"

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
  std::ostringstream content;
  content << file.rdbuf();
  if (file.bad()) fail(path, "read");
  return std::move(content).str();
}

namespace {

// Where to write what will be renamed to `path`, whose folder is made if need be.
std::string temporary_beside(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  return fmt::format("{}.{}.tmp", path, ::getpid());
}

}  // namespace

void check_writable(const std::string& path) {
  const std::string temporary = temporary_beside(path);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    errno = EISDIR;
    fail(path, "create");
  }
  if (!std::ofstream(temporary, std::ios::binary | std::ios::trunc)) fail(path, "create");
  std::filesystem::remove(temporary, ignored);
}

void write_file(const std::string& path, std::string_view content) {
  std::error_code ignored;
  const std::string temporary = temporary_beside(path);
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    if (!file) fail(path, "create");
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    file.flush();
    if (!file) {
      std::filesystem::remove(temporary, ignored);
      fail(path, "write");
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::filesystem::remove(temporary, ignored);
    fail(path, "rename into place");
  }
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
