#include "stretto/data/pack_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/data/pack_format.h"
#include "stretto/data/sample_bytes.h"

namespace stretto::data {
namespace {

constexpr uint32_t kJournalVersion = 2;  // 1: entries without details_bytes
constexpr uint32_t kLongestProblem = 4096;

struct JournalHeader {
  char magic[8];
  uint32_t version, reserved;
  uint64_t fingerprint, samples, shard_bytes;
  uint64_t checksum;  // of everything before it
};
static_assert(sizeof(JournalHeader) == 48);

// Before the text of the problem. The checksum is of the rest and the text.
struct JournalEntry {
  uint64_t checksum;
  uint64_t sample, offset, length, data_checksum, source_bytes;
  uint32_t container, restart_bytes;
  int32_t width, height;
  uint32_t problem_bytes, details_bytes;
};
static_assert(sizeof(JournalEntry) == 72);

[[noreturn]] void fail_file(const std::string& path, std::string_view action) {
  const int code = errno;
  throw FormatError(path, -1, fmt::format("cannot {}: {}", action, std::strerror(code)), code);
}

std::span<const std::byte> bytes_of(const void* data, size_t size) {
  return {static_cast<const std::byte*>(data), size};
}

JournalHeader header_of(const PackPlan& plan) {
  JournalHeader header{.magic = {},
                       .version = kJournalVersion,
                       .reserved = 0,
                       .fingerprint = plan.fingerprint,
                       .samples = plan.samples,
                       .shard_bytes = plan.shard_bytes,
                       .checksum = 0};
  std::memcpy(header.magic, kJournalMagic.data(), sizeof header.magic);
  header.checksum = pack_checksum(bytes_of(&header, offsetof(JournalHeader, checksum)));
  return header;
}

std::string encode_entry(uint64_t sample, const PackEntry& entry) {
  const JournalEntry fixed{.checksum = 0,
                           .sample = sample,
                           .offset = entry.offset,
                           .length = entry.length,
                           .data_checksum = entry.checksum,
                           .source_bytes = entry.source_bytes,
                           .container = entry.container,
                           .restart_bytes = entry.restart_bytes,
                           .width = entry.width,
                           .height = entry.height,
                           .problem_bytes = static_cast<uint32_t>(entry.problem.size()),
                           .details_bytes = entry.details_bytes};
  std::string bytes(reinterpret_cast<const char*>(&fixed), sizeof fixed);
  bytes += entry.problem;
  const uint64_t checksum = pack_checksum(
      bytes_of(bytes.data() + sizeof fixed.checksum, bytes.size() - sizeof fixed.checksum));
  std::memcpy(bytes.data(), &checksum, sizeof checksum);
  return bytes;
}

// The entry that `bytes` begin with and its size, if it is whole and the one of this sample.
std::optional<std::pair<PackEntry, size_t>> decode_entry(std::string_view bytes, uint64_t sample) {
  JournalEntry fixed;
  if (bytes.size() < sizeof fixed) return std::nullopt;
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  if (fixed.problem_bytes > kLongestProblem || fixed.problem_bytes > bytes.size() - sizeof fixed ||
      fixed.sample != sample || fixed.restart_bytes > fixed.offset ||
      fixed.length > UINT64_MAX - fixed.offset ||
      fixed.details_bytes > UINT64_MAX - fixed.offset - fixed.length) {
    return std::nullopt;
  }
  const size_t size = sizeof fixed + fixed.problem_bytes;
  if (pack_checksum(bytes_of(bytes.data() + sizeof fixed.checksum, size - sizeof fixed.checksum)) !=
      fixed.checksum) {
    return std::nullopt;
  }
  return std::pair{
      PackEntry{.offset = fixed.offset,
                .length = fixed.length,
                .checksum = fixed.data_checksum,
                .source_bytes = fixed.source_bytes,
                .container = fixed.container,
                .restart_bytes = fixed.restart_bytes,
                .details_bytes = fixed.details_bytes,
                .width = fixed.width,
                .height = fixed.height,
                .problem = std::string(bytes.substr(sizeof fixed, fixed.problem_bytes))},
      size};
}

void write_all(int fd, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) fail_file(path, "write");
    if (count > 0) bytes.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace

std::string journal_path(const std::string& folder) { return folder + "/journal"; }

bool starts_with_magic(const std::string& path, std::string_view magic) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat info {};
  char begin[8] = {};
  const bool same = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                    ::pread(fd, begin, sizeof begin, 0) == sizeof begin &&
                    std::string_view(begin, sizeof begin) == magic;
  ::close(fd);
  return same;
}

PackJournal::PackJournal(const std::string& folder, const PackPlan& plan)
    : folder_(folder), path_(journal_path(folder)) {
  namespace fs = std::filesystem;
  const bool found = fs::exists(path_);
  const bool others = std::any_of(fs::directory_iterator(folder), fs::directory_iterator(),
                                  [&](const auto& e) { return e.path() != fs::path(path_); });
  if (!found && others) {
    const bool finished = starts_with_magic(fmt::format("{}/{}", folder, kPackIndex), kPackMagic);
    throw_invalid("{}: {}", folder,
                  finished ? "it is a finished pack: remove it to pack again"
                           : "expected a folder that is empty or does not exist");
  }
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_file(path_, "create");
  try {
    start(plan, others);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

PackJournal::~PackJournal() { ::close(fd_); }

void PackJournal::start(const PackPlan& plan, bool others) {
  struct stat info {};
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 || ::fstat(fd_, &info) != 0) {
    if (errno != EWOULDBLOCK) fail_file(path_, "lock");
    throw FormatError(folder_, -1, "another process is packing to this folder");
  }
  if (info.st_nlink == 0) throw FormatError(folder_, -1, "another process has just finished this");
  if (static_cast<size_t>(info.st_size) < sizeof(JournalHeader) && !others) {
    // New, or the end came before the first sample.
    if (!kJournalMagic.starts_with(read_file(path_).substr(0, kJournalMagic.size()))) {
      throw_invalid("{}: it is not of a pack: expected a folder that is empty or does not exist",
                    path_);
    }
    if (::ftruncate(fd_, 0) != 0) fail_file(path_, "write");
    const JournalHeader header = header_of(plan);
    write_all(fd_, path_, {reinterpret_cast<const char*>(&header), sizeof header});
    if (::fsync(fd_) != 0) fail_file(path_, "write");
    return;
  }
  read(plan);
  while (drop_lost()) {
  }
  cut();
}

void PackJournal::read(const PackPlan& plan) {
  const std::string content = read_file(path_);
  JournalHeader header;
  if (content.size() >= sizeof header) std::memcpy(&header, content.data(), sizeof header);
  if (content.size() < sizeof header ||
      std::string_view(header.magic, sizeof header.magic) != kJournalMagic ||
      header.checksum != pack_checksum(bytes_of(&header, offsetof(JournalHeader, checksum))) ||
      header.version != kJournalVersion) {
    throw FormatError(path_, 0,
                      "expected the journal of a pack by this version of Stretto: remove "
                      "the folder to pack again");
  }
  if (PackPlan{header.fingerprint, header.samples, header.shard_bytes} != plan) {
    throw_invalid(
        "{}: it is an interrupted pack of another source, or the source has other files "
        "now: remove it to pack again",
        folder_);
  }
  // The file's end is the last entry that was written whole.
  std::string_view rest = std::string_view(content).substr(sizeof header);
  uint32_t container = 0;
  uint64_t end = 0;
  while (entries_.size() < plan.samples) {
    auto decoded = decode_entry(rest, entries_.size());
    if (!decoded) break;
    PackEntry& entry = decoded->first;
    if (entry.problem.empty()) {
      const bool next = entry.container == container && entry.begin() == end;
      const bool first = end > 0 && entry.container == container + 1 && entry.begin() == 0;
      if (!next && !first) break;
      container = entry.container;
      end = entry.end();
    }
    rest.remove_prefix(decoded->second);
    entries_.push_back(std::move(entry));
    ends_.push_back(content.size() - rest.size());
  }
}

// Drops the entries whose bytes are not in their shard, and says whether there were any. Finished
// shards were forced to the disk before the first entry of the next one; of the last shard,
// everything is read.
bool PackJournal::drop_lost() {
  uint32_t last = 0;
  for (const PackEntry& entry : entries_) {
    if (entry.problem.empty()) last = entry.container;
  }
  std::vector<uint64_t> sizes(last + size_t{1});
  for (uint32_t i = 0; i <= last; ++i) {
    std::error_code missing;
    const uint64_t size = std::filesystem::file_size(shard_path(folder_, i), missing);
    sizes[i] = missing ? 0 : size;
  }
  std::vector<std::byte> bytes;
  const auto is_there = [&](const PackEntry& entry) {
    if (!entry.problem.empty()) return true;
    if (entry.end() > sizes[entry.container]) return false;
    if (entry.container != last) return true;
    read_bytes(shard_path(folder_, last), entry.begin(), entry.end() - entry.begin(), bytes);
    return pack_checksum(bytes) == entry.checksum;
  };
  const auto lost = std::find_if_not(entries_.begin(), entries_.end(), is_there);
  if (lost == entries_.end()) return false;
  ends_.resize(static_cast<size_t>(lost - entries_.begin()));
  entries_.erase(lost, entries_.end());
  return true;
}

void PackJournal::keep(size_t count) {
  entries_.resize(count);
  ends_.resize(count);
  cut();
}

// Removes what lies behind the last entry, and what a killed process left of an index.
void PackJournal::cut() {
  const uint64_t size = ends_.empty() ? sizeof(JournalHeader) : ends_.back();
  if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) fail_file(path_, "cut");
  uint32_t shard = 0;
  uint64_t end = 0;
  for (const PackEntry& entry : entries_) {
    if (!entry.problem.empty()) continue;
    shard = entry.container;
    end = entry.end();
  }
  const std::string path = shard_path(folder_, shard);
  if (::truncate(path.c_str(), static_cast<off_t>(end)) != 0 && errno != ENOENT) {
    fail_file(path, "cut");
  }
  for (uint32_t i = shard + 1; ::unlink(shard_path(folder_, i).c_str()) == 0; ++i) {
  }
  std::vector<std::string> unfinished;  // base/file.h writes to NAME.PID.tmp first
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(fmt::format("{}.", kPackIndex)) && name.ends_with(".tmp")) {
      unfinished.push_back(entry.path().string());
    }
  }
  for (const std::string& path : unfinished) {
    if (::unlink(path.c_str()) != 0) fail_file(path, "remove");
  }
}

void PackJournal::append(PackEntry entry) {
  if (entry.problem.size() > kLongestProblem) entry.problem.resize(kLongestProblem);
  const std::string bytes = encode_entry(entries_.size(), entry);
  with_resume_hint([&] { write_all(fd_, path_, bytes); });
  ends_.push_back((ends_.empty() ? sizeof(JournalHeader) : ends_.back()) + bytes.size());
  entries_.push_back(std::move(entry));
}

void PackJournal::remove() {
  if (::unlink(path_.c_str()) != 0) fail_file(path_, "remove");
}

}  // namespace stretto::data
