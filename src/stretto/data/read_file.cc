#include "stretto/data/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "stretto/base/error.h"

namespace stretto::data {

ReadFile::ReadFile(const std::string& path) : ReadFile(path, path) {}

ReadFile::ReadFile(const std::string& path, std::string name) : path_(std::move(name)), fd_(-1) {
  do fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0) fail("open");
  struct stat info {};
  if (::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode)) {
    size_ = static_cast<uint64_t>(info.st_size);
    return;
  }
  ::close(fd_);
  throw FormatError(path_, -1, "expected a regular file");
}

ReadFile::~ReadFile() { ::close(fd_); }

void ReadFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno != EINTR) fail("read");
    if (count == 0) throw FormatError(path_, static_cast<int64_t>(offset), "the file ends here");
    if (count <= 0) continue;
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += static_cast<uint64_t>(count);
  }
}

void ReadFile::fail(std::string_view action) const {
  const int code = errno;
  throw FormatError(path_, -1, fmt::format("cannot {}: {}", action, std::strerror(code)), code);
}

}  // namespace stretto::data
