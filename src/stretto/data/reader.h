// The bytes of samples, by pread: a file that was cut short is an error that names it, where a
// memory map would end the process by a signal.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "stretto/data/index.h"
#include "stretto/media/picture.h"

namespace stretto::data {

class CachedFile;   // disk_cache.h
class DirectReads;  // direct_reads.h

struct Encoded {
  media::Bytes restarts;  // of a pack (restarts.h); empty where the file has no table
  media::Bytes file;
};

// Shared by the threads of a loader. Of shards and archives at most kOpenFiles are kept open (twice
// each with DirectReads); a file of one sample is opened, read and closed. Files behind URLs are
// opened by their Fetcher, which knows whether they are what they were.
class Reader {
 public:
  static constexpr int kOpenFiles = 128;

  explicit Reader(Dataset dataset);
  // `direct`: by what samples are read that the system need not keep; nullptr: as all others.
  Reader(Dataset dataset, std::unique_ptr<DirectReads> direct);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // The bytes lie in `buffer`. Throws FormatError naming the file and the sample if the file is
  // gone, cut short, or not what it was when it was read first, by its size and time. What happened
  // to it before that is not seen.
  Encoded read(int64_t sample, media::Buffer& buffer);

  // Reads that wait for a file behind a URL end, by Unsupported.
  void stop() { stopping_ = true; }

  // The sample's details (details.h): those of the table, those behind its picture in a pack, or
  // its label map. Empty where it has none. They lie in `buffer` or in the table. `id_alone`: as
  // many bytes of them as decode_image_id() looks at.
  media::Bytes read_details(int64_t sample, media::Buffer& buffer, bool id_alone = false);

  // What of a sample is read soon.
  struct Soon {
    bool picture = true, details = false;
    bool once = false;  // it goes to a cache of this process
  };
  // Begins to read it, or tells the system to. Errors are left to read().
  void will_read(int64_t sample, Soon soon) noexcept;

  // What an error says of a sample: its file and, where others lie in it too, its name.
  std::string label(int64_t sample) const;
  const DirectReads* direct() const { return direct_.get(); }
  // Its name, or its number where a damaged index has none.
  std::string name(int64_t sample) const;

 private:
  class File;
  // What tells one state of a file from another. Its device and number do not: some network mounts
  // give a file other ones when it is opened again.
  struct State {
    uint64_t bytes = 0;
    int64_t modified_ns = 0;
    bool operator==(const State&) const = default;
  };
  static uint64_t hash_of(const State& state);
  // What a sample is read from, and which of its two parts.
  struct Opened {
    int fd = -1;
    State state;
    bool details = false;
  };
  // Containers whose numbers have the same remainder: threads seldom wait for each other.
  struct Bucket {
    struct Entry {
      uint32_t container = 0;
      uint64_t used = 0;
      std::shared_ptr<const File> file;
    };
    std::mutex mutex;
    uint64_t clock = 0;
    std::vector<Entry> open;
    std::unordered_map<uint32_t, State> first_seen;
  };
  static constexpr size_t kBuckets = 16;

  // Open; `sample` is for errors.
  std::shared_ptr<const File> container(uint32_t number, int64_t sample);
  State state_of(const File& file, int64_t sample) const;
  Encoded read_from(const Opened& from, const Sample& at, int64_t sample,
                    media::Buffer& buffer) const;
  Encoded read_remote(const RemoteSample& remote, const Sample& at, int64_t sample,
                      media::Buffer& buffer) const;
  std::shared_ptr<const CachedFile> remote_file(const RemoteSample& remote) const;
  media::Bytes map_from(const Opened& from, int64_t sample, media::Buffer& buffer) const;
  media::Bytes details_from(const Opened& from, const Sample& at, int64_t sample, bool id_alone,
                            media::Buffer& buffer) const;
  void read_all(const Opened& from, uint64_t begin, uint64_t bytes, uint8_t* data,
                int64_t sample) const;
  void read_soon(const std::shared_ptr<const File>& file, const Opened& from, uint64_t begin,
                 uint64_t bytes, int64_t sample, bool once);
  // Throws if a file of one sample is not what it was.
  void check_unchanged(const State& now, std::atomic<uint32_t>& first, int64_t sample);
  [[noreturn]] void fail(int64_t sample, const std::string& problem, int code = 0) const;

  Dataset dataset_;
  const std::unique_ptr<DirectReads> direct_;
  std::atomic<bool> stopping_{false};
  std::array<Bucket, kBuckets> buckets_;
  // Of files of one sample: a hash of what each was when it was read first; 0: it was not yet.
  std::unique_ptr<std::atomic<uint32_t>[]> first_read_;
  std::unique_ptr<std::atomic<uint32_t>[]> first_read_mask_;  // likewise, of label maps
};

}  // namespace stretto::data
