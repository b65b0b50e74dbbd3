#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/data/pack.h"
#include "stretto/data/pack_format.h"
#include "stretto/data/pack_journal.h"
#include "stretto/data/read_file.h"

namespace stretto::data {
namespace {

// What the columns are read as.
template <typename T>
std::span<const T> pack_column(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

void check_section(const std::string& path, const PackHeader& header, int kind, uint64_t at) {
  constexpr uint64_t kElement[kPackSections] = {
      sizeof(Record), sizeof(uint64_t), sizeof(Annotation), 1, sizeof(uint64_t), 1};
  const PackSection& section = header.sections[kind];
  const auto fail = [&](std::string_view what) {
    throw FormatError(path,
                      static_cast<int64_t>(offsetof(PackHeader, sections) +
                                           sizeof(PackSection) * static_cast<size_t>(kind)),
                      fmt::format("section {} {}", kind, what));
  };
  if (section.offset < at || section.offset > header.bytes ||
      section.offset % kPackAlignment != 0 || section.bytes > header.bytes - section.offset) {
    fail("is not inside of the file, behind the one before it");
  }
  if (section.bytes % kElement[kind] != 0) fail("does not hold whole elements");
  const uint64_t count = section.bytes / kElement[kind];
  if ((kind == kPackRecords || kind == kPackChecksums) && count != header.samples) {
    fail(fmt::format("has {} elements, expected {}", count, header.samples));
  }
  if (kind == kPackShards && count != header.shards) {
    fail(fmt::format("has {} elements, expected {}", count, header.shards));
  }
}

PackIndex load_index(const std::string& path, const std::string& name, uint64_t map_from) {
  PackIndex index{.path = name, .bytes = {}, .keep = nullptr, .header = {}};
  const ReadFile file(path, name);
  if (file.size() >= map_from) {
    const std::shared_ptr<const MappedFile> map = MappedFile::open(path);
    index.bytes = map->bytes();
    index.keep = map;
  } else {
    constexpr uint64_t kWord = sizeof(uint64_t);  // which the columns are aligned to
    const std::shared_ptr<uint64_t[]> memory(new uint64_t[(file.size() + kWord - 1) / kWord]);
    const std::span bytes(reinterpret_cast<std::byte*>(memory.get()), file.size());
    file.read(0, bytes);
    index.bytes = bytes;
    index.keep = memory;
  }
  return index;
}

// Of sections that are small.
void check_content(const std::string& path, const PackIndex& index, PackSectionKind kind) {
  const PackSection& section = index.header.sections[kind];
  if (pack_checksum(index.section(kind)) == section.checksum) return;
  throw FormatError(path, static_cast<int64_t>(section.offset), "damaged: the checksum differs");
}

std::vector<std::string> read_class_names(const PackIndex& index) {
  std::vector<std::string> names;
  std::span<const std::byte> bytes = index.section(kPackClasses);
  while (!bytes.empty()) {
    uint32_t size = 0;
    if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
    if (bytes.size() < sizeof size || size > bytes.size() - sizeof size) {
      throw FormatError(index.path, bytes.data() - index.bytes.data(),
                        "expected the name of a class");
    }
    names.emplace_back(reinterpret_cast<const char*>(bytes.data()) + sizeof size, size);
    bytes = bytes.subspan(sizeof size + size);
  }
  return names;
}

void check_shard(const std::string& path, uint64_t bytes) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    const int code = errno;
    throw FormatError(path, -1, fmt::format("cannot find the shard: {}", std::strerror(code)),
                      code);
  }
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) != bytes) {
    throw FormatError(path, -1, fmt::format("expected {} bytes, got {}", bytes, info.st_size));
  }
}

}  // namespace

std::span<const std::byte> PackIndex::section(PackSectionKind kind) const {
  const PackSection& at = header.sections[kind];
  return bytes.subspan(at.offset, at.bytes);
}

std::span<const uint64_t> PackIndex::checksums() const {
  return pack_column<uint64_t>(section(kPackChecksums));
}

PackIndex read_pack_index(const std::string& folder) {
  return read_pack_index_file(fmt::format("{}/{}", folder, kPackIndex));
}

PackIndex read_pack_index_file(const std::string& file, const std::string& path,
                               uint64_t map_from) {
  PackIndex index = load_index(file, path, map_from);
  const std::span<const std::byte> bytes = index.bytes;
  PackHeader& header = index.header;
  if (bytes.size() < sizeof header ||
      std::memcmp(bytes.data(), kPackMagic.data(), kPackMagic.size()) != 0) {
    throw FormatError(path, 0, "expected the index of a pack");
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version < 1 || header.version > kPackVersion) {
    throw FormatError(path, offsetof(PackHeader, version),
                      fmt::format("expected version 1 to {}, got {}: pack again with this version "
                                  "of Stretto",
                                  kPackVersion, header.version));
  }
  if (pack_checksum(bytes.first(offsetof(PackHeader, checksum))) != header.checksum) {
    throw FormatError(path, offsetof(PackHeader, checksum),
                      "damaged: the header's checksum differs");
  }
  if (header.bytes != bytes.size()) {
    throw FormatError(path, offsetof(PackHeader, bytes),
                      fmt::format("expected {} bytes, got {}", header.bytes, bytes.size()));
  }
  uint64_t at = sizeof header;
  for (int kind = 0; kind < kPackSections; ++kind) {
    check_section(path, header, kind, at);
    at = header.sections[kind].offset + header.sections[kind].bytes;
  }
  check_content(path, index, kPackShards);
  check_content(path, index, kPackClasses);
  return index;
}

Dataset dataset_of(const std::string& folder, const PackIndex& index, bool check_shards) {
  auto table = std::make_shared<Dataset::Table>();
  table->source = folder;
  table->kind = "pack";
  table->class_names = read_class_names(index);
  const std::span<const uint64_t> shards = pack_column<uint64_t>(index.section(kPackShards));
  for (uint32_t i = 0; i < index.header.shards; ++i) {
    table->containers.push_back(shard_path(folder, i));
    if (check_shards) check_shard(table->containers.back(), shards[i]);
  }
  table->records = pack_column<Record>(index.section(kPackRecords));
  table->annotations = pack_column<Annotation>(index.section(kPackAnnotations));
  const std::span<const std::byte> names = index.section(kPackNames);
  table->names = {reinterpret_cast<const char*>(names.data()), names.size()};
  table->fingerprint = index.header.fingerprint;
  table->keep = index.keep;
  return Dataset(std::move(table));
}

bool is_pack(const std::string& source) {
  return starts_with_magic(fmt::format("{}/{}", source, kPackIndex), kPackMagic) ||
         starts_with_magic(journal_path(source), kJournalMagic);
}

Dataset open_pack(const std::string& source) {
  if (starts_with_magic(journal_path(source), kJournalMagic)) {
    throw FormatError(source, -1,
                      fmt::format("the pack was interrupted: run `stretto pack SRC {}` again to "
                                  "resume",
                                  source));
  }
  std::error_code unknown;
  using std::filesystem::exists;
  if (exists(source, unknown) && !exists(fmt::format("{}/{}", source, kPackIndex), unknown)) {
    throw FormatError(source, -1, "it is no pack: expected a folder that `stretto pack` wrote");
  }
  return dataset_of(source, read_pack_index(source));
}

}  // namespace stretto::data
