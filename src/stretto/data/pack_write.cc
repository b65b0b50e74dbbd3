#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/log.h"
#include "stretto/data/in_order.h"
#include "stretto/data/pack.h"
#include "stretto/data/pack_format.h"
#include "stretto/data/pack_journal.h"
#include "stretto/data/pack_sample.h"
#include "stretto/data/sample_bytes.h"

namespace stretto::data {
namespace {

[[noreturn]] void fail_shard(const std::string& path, std::string_view action) {
  const int code = errno;
  throw FormatError(
      path, -1, fmt::format("cannot {}: {} {}", action, std::strerror(code), kResumeHint), code);
}

// The shards, written one behind the other.
class ShardWriter {
 public:
  ShardWriter(const std::string& folder, uint64_t most) : folder_(folder), most_(most) {}
  ~ShardWriter() {
    if (fd_ >= 0) ::close(fd_);
  }
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Behind what an earlier call wrote.
  void resume(uint32_t shard, uint64_t end) {
    open(shard);
    end_ = end;
  }

  // Where the bytes are.
  std::pair<uint32_t, uint64_t> append(std::span<const std::byte> bytes) {
    const uint64_t size = bytes.size();
    if (fd_ < 0) open(0);
    if (end_ > 0 && size > most_ - std::min(end_, most_)) {
      finish();
      open(shard_ + 1);
    }
    const uint64_t begin = end_;
    write(bytes, begin);
    end_ = begin + size;
    return {shard_, begin};
  }

  // The last shard is on the disk.
  void finish() {
    if (fd_ < 0) return;
    if (::fsync(fd_) != 0) fail_shard(path_, "write");
    if (::close(std::exchange(fd_, -1)) != 0) fail_shard(path_, "write");
  }

 private:
  void open(uint32_t shard) {
    shard_ = shard;
    end_ = 0;
    path_ = shard_path(folder_, shard);
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) fail_shard(path_, "create");
  }

  void write(std::span<const std::byte> bytes, uint64_t at) {
    while (!bytes.empty()) {
      const ssize_t count = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
      if (count < 0 && errno != EINTR) fail_shard(path_, "write");
      if (count <= 0) continue;
      bytes = bytes.subspan(static_cast<size_t>(count));
      at += static_cast<uint64_t>(count);
    }
  }

  const std::string& folder_;
  const uint64_t most_;
  std::string path_;
  int fd_ = -1;
  uint32_t shard_ = 0;
  uint64_t end_ = 0;
};

// `out` may not lie in the source: a folder would find the shards, and it is not to be changed.
void check_apart(const std::string& source, const std::string& out) {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const auto whole = [&](const std::string& path) {
    const fs::path found = fs::weakly_canonical(fs::absolute(path), unknown);
    return found.has_filename() ? found : found.parent_path();  // without a slash at its end
  };
  const fs::path inner = whole(out), outer = whole(source);
  for (fs::path p = inner; !p.empty(); p = p.parent_path()) {
    if (p == outer) throw_invalid("{}: it lies in the source {}", out, source);
    if (p == p.parent_path()) break;
  }
}

void make_folder(const std::string& out) {
  if (::mkdir(out.c_str(), 0777) == 0) return;
  const int code = errno;
  if (code == EEXIST && std::filesystem::is_directory(out)) return;
  throw FormatError(out, -1, fmt::format("cannot make the folder: {}", std::strerror(code)), code);
}

// The file's name, and what it leads to, are on the disk.
void sync_path(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_shard(path, "open");
  const bool done = ::fsync(fd) == 0 || errno == EINVAL;  // some file systems sync no folders
  const int code = errno;
  ::close(fd);
  errno = code;
  if (!done) fail_shard(path, "write");
}

void write_index(const Dataset& source, const std::string& out,
                 const std::vector<PackEntry>& entries, PackResult& result) {
  TableBuilder builder;
  builder.table().source = out;
  builder.table().class_names = source.class_names();
  std::vector<uint64_t> checksums, shards;
  for (size_t i = 0; i < entries.size(); ++i) {
    const PackEntry& entry = entries[i];
    const auto index = static_cast<int64_t>(i);
    result.source_bytes += entry.source_bytes;
    if (!entry.problem.empty()) {
      result.left_out.push_back({describe_sample(source, index), entry.problem});
      continue;
    }
    builder.add(source.name(index),
                {.offset = entry.offset,
                 .length = entry.length,
                 .label = source.sample(index).label,
                 .container = entry.container,
                 .width = entry.width,
                 .height = entry.height,
                 .restart_bytes = entry.restart_bytes,
                 .details_bytes = entry.details_bytes},
                source.annotations(index));
    checksums.push_back(entry.checksum);
    shards.resize(entry.container + size_t{1});
    shards.back() = entry.end();
  }
  if (builder.size() == 0) {
    throw FormatError(source.source(), -1, "none of its samples can be read and decoded");
  }
  result.samples = builder.size();
  result.shards = static_cast<int64_t>(shards.size());
  for (const uint64_t size : shards) result.bytes += size;
  const auto table = std::move(builder).take();
  with_resume_hint([&] { write_pack_index(out, *table, checksums, shards); });
  sync_path(fmt::format("{}/{}", out, kPackIndex));
  sync_path(out);
}

void warn_of_names(const Dataset& source) {
  int64_t count = 0, first = 0;
  for (int64_t i = 0; i < source.size(); ++i) {
    if (can_be_unpacked(source.name(i))) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return;
  log_message(
      LogLevel::kWarning,
      fmt::format("{}: {} names lead out of a folder, such as {}: the pack can be used, but "
                  "`stretto unpack` will refuse it",
                  source.source(), count, source.name(first)));
}

// A sample that an earlier call left out may have been repaired, or may be there again: the pack is
// then made anew from it on. Throws for one that is not if none may be left out.
void drop_repaired(const Dataset& source, const PackOptions& options, PackJournal& journal) {
  for (size_t i = 0; i < journal.entries().size(); ++i) {
    if (journal.entries()[i].problem.empty()) continue;
    check_interrupt();
    const auto index = static_cast<int64_t>(i);
    const PackedSample now = pack_sample(source, index, options.decode);
    if (now.problem.empty()) {
      log_message(
          LogLevel::kWarning,
          fmt::format("{} was left out and can be read now: it and the {} samples behind it "
                      "are packed again",
                      describe_sample(source, index), journal.entries().size() - i - 1));
      return journal.keep(i);
    }
    if (!options.skip_bad) throw FormatError(describe_sample(source, index), -1, now.problem);
  }
}

}  // namespace

PackResult pack(const Dataset& source, const std::string& out, const PackOptions& options) {
  if (options.shard_bytes < 1 || options.shard_bytes > kLargestSample) {
    throw_invalid("pack: expected shard_bytes between 1 and {}, got {}", kLargestSample,
                  options.shard_bytes);
  }
  for (const Part& part : source.parts()) check_apart(part.source, out);
  make_folder(out);
  PackJournal journal(out, {.fingerprint = source.fingerprint(),
                            .samples = static_cast<uint64_t>(source.size()),
                            .shard_bytes = options.shard_bytes});
  warn_of_names(source);
  drop_repaired(source, options, journal);
  PackResult result;
  result.resumed_at = static_cast<int64_t>(journal.entries().size());
  ShardWriter shards(out, options.shard_bytes);
  const bool any = std::any_of(journal.entries().begin(), journal.entries().end(),
                               [](const PackEntry& e) { return e.problem.empty(); });
  if (any) {
    const auto& entries = journal.entries();
    const auto last = std::find_if(entries.rbegin(), entries.rend(),
                                   [](const PackEntry& e) { return e.problem.empty(); });
    shards.resume(last->container, last->end());
  }

  const auto write = [&](int64_t index, PackedSample sample) {
    if (!sample.problem.empty() && !options.skip_bad) {
      throw FormatError(describe_sample(source, index), -1, sample.problem);
    }
    PackEntry entry{.source_bytes = sample.source_bytes, .problem = std::move(sample.problem)};
    if (entry.problem.empty()) {
      const auto [shard, begin] = shards.append(sample.bytes);
      entry.container = shard;
      entry.restart_bytes = sample.restart_bytes;
      entry.offset = begin + entry.restart_bytes;
      entry.length = sample.picture().size();
      entry.details_bytes = sample.details_bytes;
      entry.width = sample.width;
      entry.height = sample.height;
      entry.checksum = pack_checksum(sample.bytes);
    }
    journal.append(std::move(entry));
    if (options.progress) options.progress(index + 1, source.size());
  };
  in_order<PackedSample>(
      result.resumed_at, source.size(), options.threads,
      [&](int64_t index) { return pack_sample(source, index, options.decode); }, write);
  shards.finish();
  write_index(source, out, journal.entries(), result);
  journal.remove();
  sync_path(out);
  return result;
}

}  // namespace stretto::data
