#include "stretto/data/pack_format.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

// The library's functions are inlined from the header, so that no library has to be linked.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "stretto/base/error.h"
#include "stretto/base/file.h"

namespace stretto::data {
namespace {

template <typename T>
std::string_view raw_text(std::span<const T> column) {
  return {reinterpret_cast<const char*>(column.data()), column.size_bytes()};
}

std::string encode_names(const std::vector<std::string>& names) {
  std::string bytes;
  for (const std::string& name : names) {
    const auto size = static_cast<uint32_t>(name.size());
    bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
    bytes += name;
  }
  return bytes;
}

}  // namespace

uint64_t pack_checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string shard_path(const std::string& folder, uint32_t shard) {
  return fmt::format("{}/shard-{:05}.bin", folder, shard);
}

void write_pack_index(const std::string& folder, const Dataset::Table& table,
                      std::span<const uint64_t> checksums, std::span<const uint64_t> shards) {
  const std::string classes = encode_names(table.class_names);
  const std::string_view content[kPackSections] = {raw_text(table.records),
                                                   raw_text(checksums),
                                                   raw_text(table.annotations),
                                                   table.names,
                                                   raw_text(shards),
                                                   classes};
  PackHeader header{};
  std::memcpy(header.magic, kPackMagic.data(), sizeof header.magic);
  const bool details = std::any_of(table.records.begin(), table.records.end(),
                                   [](const Record& r) { return r.details_bytes > 0; });
  header.version = details ? kPackVersion : kPackVersion - 1;
  header.shards = static_cast<uint32_t>(shards.size());
  header.samples = table.records.size();
  header.fingerprint = table.fingerprint;
  constexpr char kZeros[kPackAlignment] = {};
  std::vector<std::string_view> pieces{{}};
  uint64_t at = sizeof header;
  static_assert(sizeof header % kPackAlignment == 0);
  for (int kind = 0; kind < kPackSections; ++kind) {
    const std::string_view bytes = content[kind];
    const uint64_t padding = -bytes.size() % kPackAlignment;
    header.sections[kind] = {.offset = at,
                             .bytes = bytes.size(),
                             .checksum = pack_checksum(std::as_bytes(std::span(bytes)))};
    pieces.push_back(bytes);
    pieces.emplace_back(kZeros, padding);
    at += bytes.size() + padding;
  }
  header.bytes = at;
  const std::span<const PackHeader> whole(&header, 1);
  header.checksum = pack_checksum(std::as_bytes(whole).first(offsetof(PackHeader, checksum)));
  pieces.front() = raw_text(whole);
  write_file(fmt::format("{}/{}", folder, kPackIndex), pieces);
}

}  // namespace stretto::data
