#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/data/coco.h"
#include "stretto/data/data_fuzz.h"
#include "stretto/data/found_notes.h"
#include "stretto/data/label_map.h"
#include "stretto/data/list.h"
#include "stretto/data/pack_format.h"
#include "stretto/data/restarts.h"
#include "stretto/data/tar.h"
#include "stretto/data/tfrecord.h"
#include "stretto/media/jpeg/splice.h"

namespace stretto::data {
namespace {

using media::Bytes;

// The bytes as a file that nobody else sees.
class MemoryFile {
 public:
  explicit MemoryFile(Bytes bytes) : fd_(::memfd_create("stretto", MFD_CLOEXEC)) {
    STRETTO_CHECK(fd_ >= 0, "memfd_create: {}", std::strerror(errno));
    while (!bytes.empty()) {
      const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
      STRETTO_CHECK(count > 0, "write: {}", std::strerror(errno));
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }

 private:
  const int fd_;
};

std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// All that a loader asks for.
void look_at(const Dataset& dataset) {
  for (int64_t i = 0; i < dataset.size(); ++i) {
    dataset.sample(i);
    dataset.name(i);
    dataset.path(i);
    for (const Annotation& annotation : dataset.annotations(i)) {
      STRETTO_CHECK(annotation.label >= -1, "an annotation has the label {}", annotation.label);
    }
    decode_details(dataset.details(i));  // which were written here
  }
}

// Samples lie in their file.
void look_at(const std::vector<Found>& samples, size_t size) {
  for (const Found& sample : samples) {
    STRETTO_CHECK(
        sample.length > 0 && sample.offset <= size && sample.length <= size - sample.offset,
        "{} does not lie in its file", sample.name);
  }
}

// Sums that any change makes wrong, made right: otherwise nothing behind them would be reached.
std::vector<std::byte> with_tar_sums(Bytes bytes) {
  constexpr size_t kBlock = 512, kSum = 148, kSumBytes = 8, kMagic = 257;
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  for (size_t at = 0; at + kBlock <= repaired.size(); at += kBlock) {
    std::byte* const block = repaired.data() + at;
    if (std::memcmp(block + kMagic, "ustar", 5) != 0) continue;
    std::fill_n(block + kSum, kSumBytes, std::byte{' '});
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += std::to_integer<unsigned>(block[i]);
    const std::string digits = fmt::format("{:06o}", sum);
    std::memcpy(block + kSum, digits.data(), digits.size());
  }
  return repaired;
}

std::vector<std::byte> with_index_sums(Bytes bytes) {
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  PackHeader header;
  if (repaired.size() < sizeof header) return repaired;
  std::memcpy(&header, repaired.data(), sizeof header);
  header.bytes = repaired.size();
  for (PackSection& section : header.sections) {
    if (section.offset > repaired.size() || section.bytes > repaired.size() - section.offset) {
      continue;
    }
    section.checksum = pack_checksum(bytes.subspan(section.offset, section.bytes));
  }
  const Bytes fields = std::as_bytes(std::span(&header, 1));
  header.checksum = pack_checksum(fields.first(offsetof(PackHeader, checksum)));
  std::memcpy(repaired.data(), &header, sizeof header);
  return repaired;
}

void check_csv(Bytes bytes) { look_at(parse_csv("l.csv", as_text(bytes))); }
void check_json_lines(Bytes bytes) { look_at(parse_json_lines("l.jsonl", as_text(bytes))); }
void check_coco(Bytes bytes) { look_at(parse_coco("i.json", as_text(bytes), ".")); }
void check_tar(Bytes bytes) {
  look_at(find_in_tar(MemoryFile(with_tar_sums(bytes)).path()), bytes.size());
}
void check_tfrecord(Bytes bytes) {
  look_at(find_in_tfrecord(MemoryFile(bytes).path()), bytes.size());
}

// An index without shards, whose records lie wherever they say.
void check_index(Bytes bytes) {
  const MemoryFile file(with_index_sums(bytes));
  const PackIndex index = read_pack_index_file(file.path());
  const Dataset dataset = dataset_of("pack", index, false);
  for (int64_t i = 0; i < dataset.size(); ++i) {
    try {
      dataset.sample(i);
      dataset.path(i);
      dataset.name(i);
      for (const Annotation& annotation : dataset.annotations(i)) static_cast<void>(annotation);
    } catch (const FormatError&) {
    }
  }
}

// Two bytes: how long the table is; the table; a picture.
void check_restarts(Bytes bytes) {
  if (bytes.size() < 2) return;
  const size_t size = std::to_integer<size_t>(bytes[0]) | std::to_integer<size_t>(bytes[1]) << 8;
  bytes = bytes.subspan(2);
  if (size > bytes.size()) return;
  const Bytes file = bytes.subspan(size);
  const media::jpeg::RestartTable table = decode_restarts(bytes.first(size), file);
  media::Buffer buffer, scratch;
  const media::Region corner{
      .x0 = table.width - 1, .y0 = table.height - 1, .x1 = table.width, .y1 = table.height};
  media::jpeg::decode_spliced(file, table, corner, {.max_pixels = 1 << 14}, buffer, scratch);
}

// A note of a container of a megabyte.
void check_found_notes(Bytes bytes) {
  constexpr size_t kSumAt = 8, kSummed = 16, kContainer = size_t{1} << 20;
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  if (repaired.size() >= kSummed) {
    const uint64_t sum = pack_checksum(bytes.subspan(kSummed));
    std::memcpy(repaired.data() + kSumAt, &sum, sizeof sum);
  }
  const auto samples = read_found(repaired, kContainer);
  if (!samples) throw FormatError("note", -1, "expected a note");
  look_at(*samples, kContainer);
}

// The details of a picture of 64x48 pixels with two things.
void check_details(Bytes bytes) {
  const Annotation boxes[] = {{.label = 0}, {.label = 253}};
  std::vector<uint8_t> map;
  paint_label_map(decode_details(bytes), boxes, 64, 48, 1 << 14, map);
  STRETTO_CHECK(map.size() == 64 * 48, "a label map of {} bytes", map.size());
}

using SourceCheck = void (*)(Bytes);
constexpr SourceCheck kSourceChecks[] = {check_csv,      check_json_lines, check_coco,
                                         check_tar,      check_tfrecord,   check_index,
                                         check_restarts, check_details,    check_found_notes};

}  // namespace

bool check_any_source(Bytes bytes) {
  if (bytes.empty()) return false;
  const size_t kind = std::to_integer<size_t>(bytes[0]) - 'a';
  if (kind >= std::size(kSourceChecks)) return false;
  try {
    kSourceChecks[kind](bytes.subspan(1));
    return true;
  } catch (const FormatError&) {
  } catch (const Unsupported&) {
  }
  return false;
}

}  // namespace stretto::data
