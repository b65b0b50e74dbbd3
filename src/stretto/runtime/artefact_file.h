// The container of an artefact: header, checksums and four sections, whatever these hold
// (docs/formats/artefact.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/file.h"
#include "stretto/base/pieces.h"

namespace stretto::runtime {

struct SectionPieces {
  const Pieces &description, &constants, &packed, &report;
};

// The bytes of a file, of views of the sections. Sections begin at multiples of `alignment`, itself
// one of kAlignment; files meant for mapping keep to pages.
Pieces arrange_artefact(const SectionPieces& sections, size_t alignment = 4096);

// The same for tests and fuzzing, which change sections.
struct ArtefactSections {
  std::string description, constants, packed, report;
};
std::string assemble_artefact(const ArtefactSections& sections, size_t alignment = 4096);

// A section within the file it was read from.
struct SectionView {
  int64_t offset = 0;
  std::span<const std::byte> bytes;
};
struct ArtefactView {
  SectionView description, constants, packed, report;
};

// Checks magic, version, sizes, bounds, checksums and padding, in that order. Throws FormatError
// naming `file`, offset and expectation. `map` is the mapping in which `bytes` lie, if they do.
// Then the pages of the constants are released after the check and take memory again only when they
// are read, because programs mostly read the packed weights.
ArtefactView open_artefact(std::span<const std::byte> bytes, const std::string& file,
                           const MappedFile* map = nullptr);

// Makes sizes and checksums of a damaged file consistent again as far as its section table is sane.
// For tests and fuzzing of what lies behind the checksums.
void repair_checksums(std::vector<std::byte>& file);

}  // namespace stretto::runtime
