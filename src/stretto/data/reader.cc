#include "stretto/data/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/data/details.h"
#include "stretto/data/direct_reads.h"
#include "stretto/data/fetcher.h"
#include "stretto/data/sample_bytes.h"

namespace stretto::data {
namespace {

int open_to_read(const std::string& path) {
  int fd = 0;
  // Without O_NONBLOCK a pipe of a picture's name would wait for whoever writes to it.
  do fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  while (fd < 0 && errno == EINTR);
  return fd;
}

std::string reason(int code) { return std::generic_category().message(code); }

void advise([[maybe_unused]] int fd, [[maybe_unused]] uint64_t offset,
            [[maybe_unused]] uint64_t bytes) {
#if defined(POSIX_FADV_WILLNEED)
  ::posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
#endif
}

// Which read of DirectReads it is.
DirectReads::Part part_of(int64_t sample, bool details, uint64_t state, uint64_t begin,
                          uint64_t bytes) {
  return {.key = static_cast<uint64_t>(sample) * 2 + (details ? 1 : 0),
          .state = state,
          .offset = begin,
          .bytes = bytes};
}

}  // namespace

class Reader::File {
 public:
  // `direct`: past the page cache too.
  explicit File(const std::string& path, bool direct = false)
      : fd_(open_to_read(path)), code_(errno) {
    if (direct && fd_ >= 0) direct_ = open_direct(fd_);
  }
  ~File() {
    if (direct_ >= 0) ::close(direct_);
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  int direct() const { return direct_; }
  int code() const { return code_; }  // why it is not open

  State first_seen;  // of a container: by this reader, which may have closed it meanwhile

 private:
  int fd_, code_, direct_ = -1;
};

Reader::Reader(Dataset dataset) : Reader(std::move(dataset), nullptr) {}

Reader::Reader(Dataset dataset, std::unique_ptr<DirectReads> direct)
    : dataset_(std::move(dataset)), direct_(std::move(direct)) {
  if (!dataset_.has_own_files() || dataset_.fetcher() != nullptr) return;
  const auto count = static_cast<size_t>(dataset_.size());
  first_read_ = std::make_unique<std::atomic<uint32_t>[]>(count);
  if (dataset_.has_masks_beside()) {
    first_read_mask_ = std::make_unique<std::atomic<uint32_t>[]>(count);
  }
}
Reader::~Reader() = default;

std::string Reader::label(int64_t sample) const {
  if (dataset_.one_file_each(sample)) return dataset_.path(sample);
  return fmt::format("{}: sample {}", dataset_.path(sample), name(sample));
}

std::string Reader::name(int64_t sample) const {
  try {
    return dataset_.name(sample);
  } catch (const FormatError&) {  // the name must not hide what is told of the sample
    return std::to_string(sample);
  }
}

void Reader::fail(int64_t sample, const std::string& problem, int code) const {
  if (dataset_.one_file_each(sample)) throw FormatError(dataset_.path(sample), -1, problem, code);
  throw FormatError(dataset_.path(sample), -1, fmt::format("sample {}: {}", name(sample), problem),
                    code);
}

Reader::State Reader::state_of(const File& file, int64_t sample) const {
  struct stat s;
  if (file.fd() < 0) {
    fail(sample, fmt::format("cannot be opened: {}", reason(file.code())), file.code());
  }
  if (::fstat(file.fd(), &s) != 0) {
    const int code = errno;
    fail(sample, fmt::format("cannot be read: {}", reason(code)), code);
  }
  if (!S_ISREG(s.st_mode)) fail(sample, "expected a file, found a folder, a pipe or a device");
#if defined(__APPLE__)
  const timespec& modified = s.st_mtimespec;
#else
  const timespec& modified = s.st_mtim;
#endif
  return {.bytes = static_cast<uint64_t>(s.st_size),
          .modified_ns = int64_t{modified.tv_sec} * 1'000'000'000 + modified.tv_nsec};
}

uint64_t Reader::hash_of(const State& state) {
  const uint64_t hash = state.bytes * 0x9E3779B97F4A7C15 ^ static_cast<uint64_t>(state.modified_ns);
  return (hash ^ hash >> 31) * 0xBF58476D1CE4E5B9;
}

void Reader::check_unchanged(const State& now, std::atomic<uint32_t>& at, int64_t sample) {
  const uint32_t mine = std::max<uint32_t>(1, static_cast<uint32_t>(hash_of(now) >> 32));
  uint32_t first = 0;
  if (at.compare_exchange_strong(first, mine, std::memory_order_relaxed) || first == mine) return;
  fail(sample, "the file was changed or replaced since it was read first");
}

std::shared_ptr<const Reader::File> Reader::container(uint32_t number, int64_t sample) {
  Bucket& bucket = buckets_[number % kBuckets];
  const std::lock_guard lock(bucket.mutex);
  const auto found = std::find_if(bucket.open.begin(), bucket.open.end(),
                                  [&](const auto& e) { return e.container == number; });
  if (found != bucket.open.end()) {
    found->used = ++bucket.clock;
    return found->file;
  }
  const auto file =
      std::make_shared<File>(std::string(dataset_.container_path(number)), direct_ != nullptr);
  const State now = state_of(*file, sample);
  file->first_seen = bucket.first_seen.try_emplace(number, now).first->second;
  Bucket::Entry entry{.container = number, .used = ++bucket.clock, .file = file};
  if (bucket.open.size() < kOpenFiles / kBuckets) {
    bucket.open.push_back(std::move(entry));
  } else {
    *std::min_element(bucket.open.begin(), bucket.open.end(), [](const auto& a, const auto& b) {
      return a.used < b.used;
    }) = std::move(entry);
  }
  return file;
}

Encoded Reader::read(int64_t sample, media::Buffer& buffer) {
  const Sample at = dataset_.sample(sample);
  if (const auto remote = dataset_.remote(sample)) return read_remote(*remote, at, sample, buffer);
  if (dataset_.one_file_each(sample)) {
    const File file(dataset_.path(sample));
    const State now = state_of(file, sample);
    check_unchanged(now, first_read_[static_cast<size_t>(sample)], sample);
    return read_from({.fd = file.fd(), .state = now}, at, sample, buffer);
  }
  const auto file = container(at.container, sample);
  const State now = state_of(*file, sample), &first = file->first_seen;
  if (now.bytes != first.bytes) {
    fail(sample, fmt::format("the file has {} bytes, and had {} when it was read first", now.bytes,
                             first.bytes));
  }
  if (now != first) fail(sample, "the file was changed or replaced since it was read first");
  return read_from({.fd = file->fd(), .state = now}, at, sample, buffer);
}

std::shared_ptr<const CachedFile> Reader::remote_file(const RemoteSample& remote) const {
  const Dataset& from = *remote.dataset;
  return from.fetcher()->open(from.remote_file(file_of(from, remote.index)), &stopping_);
}

Encoded Reader::read_remote(const RemoteSample& remote, const Sample& at, int64_t sample,
                            media::Buffer& buffer) const {
  const auto file = remote_file(remote);
  return read_from({.fd = file->fd(), .state = {.bytes = file->bytes()}}, at, sample, buffer);
}

Encoded Reader::read_from(const Opened& from, const Sample& at, int64_t sample,
                          media::Buffer& buffer) const {
  const uint64_t size = from.state.bytes;
  if (at.offset > size || at.length > size - at.offset) {
    fail(sample, fmt::format("the file ends at byte {}; expected the sample at {} to {}", size,
                             at.offset, at.offset + at.length));
  }
  const uint64_t length = at.length != 0 ? at.length : size - at.offset;
  const uint64_t begin = at.offset - at.restart_bytes, bytes = at.restart_bytes + length;
  if (bytes > kLargestSample) {
    fail(sample, fmt::format("it has {} bytes, expected at most {}", bytes, kLargestSample));
  }
  uint8_t* const data = buffer.get(bytes);
  read_all(from, begin, bytes, data, sample);
  const auto* const first = reinterpret_cast<const std::byte*>(data);
  return {.restarts = {first, at.restart_bytes}, .file = {first + at.restart_bytes, length}};
}

void Reader::read_all(const Opened& from, uint64_t begin, uint64_t bytes, uint8_t* data,
                      int64_t sample) const {
  if (direct_ != nullptr &&
      direct_->take(part_of(sample, from.details, hash_of(from.state), begin, bytes),
                    {data, bytes})) {
    return;
  }
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n = ::pread(from.fd, data + done, bytes - done, static_cast<off_t>(begin + done));
    if (n > 0) {
      done += static_cast<uint64_t>(n);
    } else if (n == 0) {
      fail(sample, fmt::format("the file ends at byte {}, expected {} more: it was cut short while "
                               "it was read",
                               begin + done, bytes - done));
    } else if (errno != EINTR) {
      const int code = errno;
      fail(sample, fmt::format("cannot be read at byte {}: {}", begin + done, reason(code)), code);
    }
  }
}

media::Bytes Reader::read_details(int64_t sample, media::Buffer& buffer, bool id_alone) {
  if (const media::Bytes known = dataset_.details(sample); !known.empty()) return known;
  if (const std::string mask = dataset_.mask_path(sample); !mask.empty()) {
    if (id_alone) return {};
    try {
      if (const auto remote = dataset_.remote(sample)) {
        const Dataset& from = *remote->dataset;
        const auto file =
            from.fetcher()->open(from.remote_file(from.mask_file(remote->index)), &stopping_);
        return map_from({.fd = file->fd(), .state = {.bytes = file->bytes()}, .details = true},
                        sample, buffer);
      }
      const File file(mask);
      const State now = state_of(file, sample);
      check_unchanged(now, first_read_mask_[static_cast<size_t>(sample)], sample);
      return map_from({.fd = file.fd(), .state = now, .details = true}, sample, buffer);
    } catch (const FormatError& e) {
      throw FormatError(mask, -1, fmt::format("the label map of {}", e.what()), e.code());
    }
  }
  const Sample at = dataset_.sample(sample);
  if (at.details_bytes == 0 || dataset_.one_file_each(sample)) return {};
  if (const auto remote = dataset_.remote(sample)) {
    const auto file = remote_file(*remote);
    return details_from({.fd = file->fd(), .state = {.bytes = file->bytes()}, .details = true}, at,
                        sample, id_alone, buffer);
  }
  const auto file = container(at.container, sample);
  const State now = state_of(*file, sample);
  if (now != file->first_seen)
    fail(sample, "the file was changed or replaced since it was read first");
  return details_from({.fd = file->fd(), .state = now, .details = true}, at, sample, id_alone,
                      buffer);
}

media::Bytes Reader::map_from(const Opened& from, int64_t sample, media::Buffer& buffer) const {
  const uint64_t size = from.state.bytes;
  if (size > kLargestDetails) {
    fail(sample, fmt::format("it has {} bytes, expected at most {}", size, kLargestDetails));
  }
  uint8_t* const data = buffer.get(size + 1);
  data[0] = kMaskAlone;
  read_all(from, 0, size, data + 1, sample);
  return {reinterpret_cast<const std::byte*>(data), size + 1};
}

media::Bytes Reader::details_from(const Opened& from, const Sample& at, int64_t sample,
                                  bool id_alone, media::Buffer& buffer) const {
  const uint64_t begin = at.offset + at.length, size = from.state.bytes;
  if (begin > size || at.details_bytes > size - begin) {
    fail(sample, fmt::format("the file ends at byte {}; expected {} more", size, at.details_bytes));
  }
  if (at.details_bytes > kLargestDetails) {
    fail(sample, fmt::format("its details have {} bytes, expected at most {}", at.details_bytes,
                             kLargestDetails));
  }
  const uint64_t bytes =
      id_alone ? std::min<uint64_t>(at.details_bytes, kLongestId) : at.details_bytes;
  uint8_t* const data = buffer.get(bytes);
  read_all(from, begin, bytes, data, sample);
  return {reinterpret_cast<const std::byte*>(data), bytes};
}

void Reader::read_soon(const std::shared_ptr<const File>& file, const Opened& from, uint64_t begin,
                       uint64_t bytes, int64_t sample, bool once) {
  if (bytes == 0) return;
  const DirectReads::Part part = part_of(sample, from.details, hash_of(from.state), begin, bytes);
  if (once && direct_ != nullptr && direct_->begin(part, file->direct(), file)) return;
  advise(file->fd(), begin, bytes);
}

void Reader::will_read(int64_t sample, Soon soon) noexcept {
  if (dataset_.remote(sample)) return;  // its fetcher knows the order (lookahead.h)
  if (!soon.picture && !soon.details) return;
  try {
    const Sample at = dataset_.sample(sample);
    if (dataset_.one_file_each(sample)) {
      const auto whole = [&](const std::string& path, bool details) {
        const auto file = std::make_shared<File>(path, soon.once && direct_ != nullptr);
        if (file->fd() < 0) return;
        const State now = state_of(*file, sample);
        read_soon(file, {.state = now, .details = details}, 0, now.bytes, sample, soon.once);
      };
      if (soon.picture) whole(dataset_.path(sample), false);
      if (!soon.details) return;
      if (const std::string mask = dataset_.mask_path(sample); !mask.empty()) whole(mask, true);
      return;
    }
    const auto file = container(at.container, sample);
    const State& state = file->first_seen;
    const uint64_t begin = at.offset - at.restart_bytes, end = at.offset + at.length;
    if (soon.picture) {
      read_soon(file, {.state = state}, begin, end - begin, sample, soon.once);
    }
    if (soon.details && at.details_bytes <= kLargestDetails) {
      read_soon(file, {.state = state, .details = true}, end, at.details_bytes, sample, soon.once);
    }
  } catch (const std::exception&) {
    // read() will say it, with the batch that the sample is of.
  }
}

}  // namespace stretto::data
