#include "stretto/data/found_notes.h"

#include <cstring>

#include "stretto/data/pack_format.h"

namespace stretto::data {
namespace {

// docs/formats/remote-cache.md
constexpr std::string_view kNoteMagic = "STRNOTE1";
constexpr size_t kNoteHeader = 24;  // magic, checksum of what follows it, number of samples

struct NoteRow {
  uint64_t offset, length;
  int64_t label;
  uint32_t name_bytes, label_name_bytes;  // both texts follow
};
static_assert(sizeof(NoteRow) == 32);

template <typename T>
void append_plain(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

std::string write_found(std::span<const Found> samples) {
  std::string body;
  append_plain(body, uint64_t{samples.size()});
  for (const Found& sample : samples) {
    append_plain(body,
                 NoteRow{.offset = sample.offset,
                         .length = sample.length,
                         .label = sample.label,
                         .name_bytes = static_cast<uint32_t>(sample.name.size()),
                         .label_name_bytes = static_cast<uint32_t>(sample.label_name.size())});
    body += sample.name;
    body += sample.label_name;
  }
  std::string note(kNoteMagic);
  append_plain(note, pack_checksum(std::as_bytes(std::span(body))));
  return note + body;
}

std::optional<std::vector<Found>> read_found(std::span<const std::byte> bytes,
                                             uint64_t container_bytes) {
  if (bytes.size() < kNoteHeader ||
      std::memcmp(bytes.data(), kNoteMagic.data(), kNoteMagic.size()) != 0) {
    return std::nullopt;
  }
  uint64_t checksum = 0, count = 0;
  std::memcpy(&checksum, bytes.data() + 8, sizeof checksum);
  std::memcpy(&count, bytes.data() + 16, sizeof count);
  if (pack_checksum(bytes.subspan(16)) != checksum) return std::nullopt;
  std::span<const std::byte> rest = bytes.subspan(kNoteHeader);
  if (count > rest.size() / sizeof(NoteRow)) return std::nullopt;
  std::vector<Found> samples(count);
  for (Found& sample : samples) {
    NoteRow row;
    if (rest.size() < sizeof row) return std::nullopt;
    std::memcpy(&row, rest.data(), sizeof row);
    rest = rest.subspan(sizeof row);
    if (row.name_bytes > rest.size() || row.label_name_bytes > rest.size() - row.name_bytes ||
        row.length == 0 || row.offset > container_bytes ||
        row.length > container_bytes - row.offset || row.label < -1) {
      return std::nullopt;
    }
    const auto* const text = reinterpret_cast<const char*>(rest.data());
    sample = {.name = {text, row.name_bytes},
              .offset = row.offset,
              .length = row.length,
              .label = row.label,
              .label_name = {text + row.name_bytes, row.label_name_bytes}};
    rest = rest.subspan(size_t{row.name_bytes} + row.label_name_bytes);
  }
  if (!rest.empty()) return std::nullopt;
  return samples;
}

}  // namespace stretto::data
