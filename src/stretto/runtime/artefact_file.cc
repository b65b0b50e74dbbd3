#include "stretto/runtime/artefact_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "stretto/base/cpu.h"
#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/parallel.h"
#include "stretto/tensor/tensor.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stretto::runtime {
namespace {

constexpr std::array<char, 8> kMagic{'S', 'T', 'R', 'E', 'T', 'T', 'O', '\n'};
constexpr uint32_t kFormatVersion = 2;

// Checksums are taken over pieces of this size so that several threads can check a big file.
constexpr size_t kPiece = size_t{4} << 20;

enum SectionIndex { kDescription, kConstants, kPacked, kReport, kSectionCount };
constexpr std::array<const char*, kSectionCount> kSectionNames{"description", "constants",
                                                               "packed weights", "report"};

struct Section {
  uint64_t offset, bytes, checksum;
};

// All integers little-endian, as on every machine Stretto runs on.
struct Header {
  std::array<char, 8> magic;
  uint32_t format_version;
  uint32_t section_count;
  uint64_t file_bytes;
  std::array<Section, kSectionCount> sections;
  uint64_t checksum;  // of the header before this field
};
static_assert(sizeof(Header) == 24 + 24 * kSectionCount + 8);

uint64_t hash(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

// Hash of the hashes of `size` bytes in pieces, computed by two threads when there are many:
// checking must not dominate loading. `hash_of`: of the piece that begins at an offset.
template <typename F>
uint64_t hash_in_pieces(size_t size, F&& hash_of) {
  const size_t pieces = (size + kPiece - 1) / kPiece;
  std::vector<uint64_t> hashes(pieces);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < pieces; i = next++) {
      hashes[i] = hash_of(i * kPiece, std::min(kPiece, size - i * kPiece));
    }
  };
  run_parallel(pieces > 2 ? std::min(2, cpu_info().cores) : 1, work);
  return hash(hashes.data(), hashes.size() * sizeof(uint64_t));
}

enum class After { kKeep, kLetGo };
uint64_t section_hash(std::span<const std::byte> data, const MappedFile* map = nullptr,
                      After after = After::kKeep) {
  return hash_in_pieces(data.size(), [&](size_t begin, size_t bytes) {
    const auto piece = data.subspan(begin, bytes);
    if (map != nullptr) map->read_ahead(piece);
    const uint64_t found = hash(piece.data(), piece.size());
    if (map != nullptr && after == After::kLetGo) map->let_go(piece);
    return found;
  });
}

// The same of bytes that do not lie together.
uint64_t section_hash(const Pieces& section) {
  const std::span<const std::string_view> views = section.views();
  std::vector<size_t> ends;  // of the views
  for (std::string_view view : views)
    ends.push_back((ends.empty() ? 0 : ends.back()) + view.size());
  return hash_in_pieces(section.size(), [&](size_t begin, size_t bytes) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    size_t i = std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin();
    for (; bytes > 0; ++i) {
      const std::string_view rest = views[i].substr(begin - (ends[i] - views[i].size()), bytes);
      XXH3_64bits_update(&state, rest.data(), rest.size());
      begin += rest.size();
      bytes -= rest.size();
    }
    return XXH3_64bits_digest(&state);
  });
}

// Between header and sections there is nothing but zeros, so that no byte of a file may change
// unnoticed.
void check_gaps(std::span<const std::byte> bytes, const Header& header, const std::string& file) {
  size_t end = sizeof(Header);
  const auto check = [&](size_t begin) {
    for (size_t i = end; i < begin; ++i) {
      if (bytes[i] != std::byte{0}) {
        throw FormatError(file, static_cast<int64_t>(i), "expected padding, found data");
      }
    }
  };
  for (const Section& s : header.sections) {
    if (s.offset < end) {
      throw FormatError(file, static_cast<int64_t>(s.offset), "sections overlap");
    }
    check(s.offset);
    end = s.offset + s.bytes;
  }
  check(bytes.size());
}

}  // namespace

Pieces arrange_artefact(const SectionPieces& sections, size_t alignment) {
  const std::array<const Pieces*, kSectionCount> content{&sections.description, &sections.constants,
                                                         &sections.packed, &sections.report};
  Header header{.magic = kMagic,
                .format_version = kFormatVersion,
                .section_count = kSectionCount,
                .file_bytes = 0,
                .sections = {},
                .checksum = 0};
  size_t end = sizeof(Header);
  for (int i = 0; i < kSectionCount; ++i) {
    end = (end + alignment - 1) / alignment * alignment;
    header.sections[i] = {end, content[i]->size(), section_hash(*content[i])};
    end += content[i]->size();
    check_interrupt();
  }
  header.file_bytes = end;
  header.checksum = hash(&header, offsetof(Header, checksum));
  Pieces file;
  file.add(std::string(reinterpret_cast<const char*>(&header), sizeof(header)));
  for (const Pieces* section : content) {
    file.align(alignment);
    file.add_views(*section);
  }
  return file;
}

std::string assemble_artefact(const ArtefactSections& sections, size_t alignment) {
  Pieces description, constants, packed, report;
  description.add(sections.description);
  constants.add(sections.constants);
  packed.add(sections.packed);
  report.add(sections.report);
  return arrange_artefact({description, constants, packed, report}, alignment).joined();
}

ArtefactView open_artefact(std::span<const std::byte> bytes, const std::string& file,
                           const MappedFile* map) {
  Header header{};
  if (bytes.size() < sizeof(kMagic) || std::memcmp(bytes.data(), kMagic.data(), 8) != 0) {
    throw FormatError(file, 0,
                      "not a Stretto artefact (those begin with 'STRETTO'); "
                      "make one with `stretto optimize model.onnx -o model.stretto`");
  }
  if (bytes.size() < sizeof(header)) {
    throw FormatError(file, static_cast<int64_t>(bytes.size()), "truncated inside the header");
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.format_version != kFormatVersion) {
    throw FormatError(file, 8,
                      fmt::format("format version {}, this Stretto reads version {}; "
                                  "optimise the ONNX model again with it",
                                  header.format_version, kFormatVersion));
  }
  if (header.checksum != hash(&header, offsetof(Header, checksum)) ||
      header.section_count != kSectionCount) {
    throw FormatError(file, 0, "the header was altered: checksum does not match");
  }
  if (header.file_bytes != bytes.size()) {
    throw FormatError(
        file, static_cast<int64_t>(bytes.size()),
        fmt::format("truncated: expected {} bytes, found {}", header.file_bytes, bytes.size()));
  }
  std::array<std::span<const std::byte>, kSectionCount> sections;
  for (int i = 0; i < kSectionCount; ++i) {
    const Section& s = header.sections[i];
    if (s.offset % kAlignment != 0 || s.offset > bytes.size() ||
        s.bytes > bytes.size() - s.offset) {
      throw FormatError(file, 24 + 24 * i,
                        fmt::format("section '{}' lies outside the file", kSectionNames[i]));
    }
    sections[i] = bytes.subspan(s.offset, s.bytes);
    const After after = i == kConstants ? After::kLetGo : After::kKeep;
    if (section_hash(sections[i], map, after) != s.checksum) {
      throw FormatError(
          file, static_cast<int64_t>(s.offset),
          fmt::format("section '{}' was altered: checksum does not match", kSectionNames[i]));
    }
  }

  check_gaps(bytes, header, file);

  const auto view = [&](SectionIndex i) {
    return SectionView{static_cast<int64_t>(header.sections[i].offset), sections[i]};
  };
  return {view(kDescription), view(kConstants), view(kPacked), view(kReport)};
}

void repair_checksums(std::vector<std::byte>& file) {
  if (file.size() < sizeof(Header)) return;
  Header header{};
  std::memcpy(&header, file.data(), sizeof(header));
  header.magic = kMagic;
  header.format_version = kFormatVersion;
  header.section_count = kSectionCount;
  header.file_bytes = file.size();
  for (Section& s : header.sections) {
    if (s.offset > file.size() || s.bytes > file.size() - s.offset) continue;
    s.checksum = section_hash(std::span(file).subspan(s.offset, s.bytes));
  }
  header.checksum = hash(&header, offsetof(Header, checksum));
  std::memcpy(file.data(), &header, sizeof(header));
}

}  // namespace stretto::runtime
