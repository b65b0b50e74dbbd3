#include "stretto/data/sample_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto::data {
namespace {

class ReadFile {
 public:
  // A pipe with the name of a picture is not waited for.
  explicit ReadFile(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) fail("open");
  }
  ~ReadFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  uint64_t size() const {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) fail("read");
    if (!S_ISREG(info.st_mode)) throw FormatError(path_, -1, "expected a regular file");
    return static_cast<uint64_t>(info.st_size);
  }

  void read(uint64_t offset, std::vector<std::byte>& bytes) const {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count =
          ::pread(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno != EINTR) fail("read");
      if (count == 0) {
        throw FormatError(path_, static_cast<int64_t>(offset + done), "became shorter meanwhile");
      }
      if (count > 0) done += static_cast<size_t>(count);
    }
  }

 private:
  [[noreturn]] void fail(std::string_view action) const {
    const int code = errno;
    throw FormatError(path_, -1, fmt::format("cannot {}: {}", action, std::strerror(code)), code);
  }

  const std::string& path_;
  const int fd_;
};

}  // namespace

void read_bytes(const std::string& path, uint64_t offset, uint64_t length,
                std::vector<std::byte>& bytes) {
  const ReadFile file(path);
  const uint64_t size = file.size();
  if (offset > size || length > size - offset) {
    throw FormatError(
        path, static_cast<int64_t>(size),
        fmt::format("expected {} bytes from {}, but the file ends here", length, offset));
  }
  if (length == 0) length = size - offset;
  if (length > kLargestSample) {
    throw FormatError(
        path, -1,
        fmt::format("{} bytes are more than a picture may have ({})", length, kLargestSample));
  }
  bytes.resize(length);
  file.read(offset, bytes);
}

void read_sample(const Dataset& dataset, int64_t index, std::vector<std::byte>& bytes) {
  const Sample sample = dataset.sample(index);
  const uint64_t before = sample.restart_bytes;
  read_bytes(dataset.path(index), sample.offset - before,
             sample.length == 0 ? 0 : sample.length + before, bytes);
}

std::string describe_sample(const Dataset& dataset, int64_t index) {
  if (dataset.one_file_each()) return dataset.path(index);
  return fmt::format("{}: {}", dataset.source(), dataset.name(index));
}

}  // namespace stretto::data
