// The bytes of a pack's index (docs/formats/pack.md), and how its files are called.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "stretto/data/index.h"

namespace stretto::data {

constexpr std::string_view kPackMagic = "STRPACK\n";
// Version 2 has details behind pictures; a pack without any is of version 1.
constexpr uint32_t kPackVersion = 2;
constexpr const char* kPackIndex = "index";
constexpr uint64_t kPackAlignment = 64;  // of sections

enum PackSectionKind {
  kPackRecords,      // Record[samples]
  kPackChecksums,    // uint64_t[samples]
  kPackAnnotations,  // Annotation[]
  kPackNames,        // one behind the other
  kPackShards,       // uint64_t[shards]: how many bytes each has
  kPackClasses,      // per name: uint32_t bytes, the bytes
  kPackSections
};

struct PackSection {
  uint64_t offset, bytes, checksum;
};

struct PackHeader {
  char magic[8];
  uint32_t version, shards;
  uint64_t samples, bytes, fingerprint;  // bytes: of the index
  PackSection sections[kPackSections];
  uint64_t checksum;  // of everything before it
};
static_assert(sizeof(PackHeader) == 192);
static_assert(sizeof(Annotation) == 24);

// XXH3-64.
uint64_t pack_checksum(std::span<const std::byte> bytes);

std::string shard_path(const std::string& folder, uint32_t shard);

// Smaller indexes are read, larger ones mapped: a map of a file that is cut short while it is used
// ends the process by a signal, and what is read is memory of each process. That of 1.3 million
// pictures has 100 to 140 MB.
constexpr uint64_t kPackIndexToMap = uint64_t{64} << 20;

// Whether unpack() can write a sample of this name: a relative path that goes down only.
bool can_be_unpacked(std::string_view name);

// A pack's index in memory; what open_pack() checks was checked.
struct PackIndex {
  std::string path;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep;  // what they lie in
  PackHeader header;

  std::span<const std::byte> section(PackSectionKind kind) const;
  std::span<const uint64_t> checksums() const;
};
PackIndex read_pack_index(const std::string& folder);
// The index at `path`, which is `name` in errors.
PackIndex read_pack_index_file(const std::string& path, const std::string& name,
                               uint64_t map_from = kPackIndexToMap);
inline PackIndex read_pack_index_file(const std::string& path,
                                      uint64_t map_from = kPackIndexToMap) {
  return read_pack_index_file(path, path, map_from);
}
// Throws FormatError if a shard is missing or has another size.
Dataset dataset_of(const std::string& folder, const PackIndex& index, bool check_shards = true);

// Writes the index of `table`; `checksums` are of its samples, `shards` the sizes of the shards.
void write_pack_index(const std::string& folder, const Dataset::Table& table,
                      std::span<const uint64_t> checksums, std::span<const uint64_t> shards);

}  // namespace stretto::data
