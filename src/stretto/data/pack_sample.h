// One picture as a pack has it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/data/dataset.h"
#include "stretto/media/picture.h"

namespace stretto::data {

struct PackedSample {
  std::vector<std::byte> bytes;  // the restart table, the picture and its details
  uint64_t source_bytes = 0;
  uint32_t restart_bytes = 0, details_bytes = 0;
  int32_t width = 0, height = 0;
  std::string problem;  // why it cannot be read or decoded; empty: it can

  std::span<const std::byte> restarts() const { return std::span(bytes).first(restart_bytes); }
  std::span<const std::byte> picture() const {
    return std::span(bytes).subspan(restart_bytes, bytes.size() - restart_bytes - details_bytes);
  }
  std::span<const std::byte> details() const { return std::span(bytes).last(details_bytes); }
};

// Reads a sample and decodes it, to know that it can be. A JPEG file is transcoded; if that is not
// possible it stays as it is, as other files do. Throws for what is no fault of the
// sample (is_of_the_sample()).
PackedSample pack_sample(const Dataset& source, int64_t index, const media::DecodeOptions& options);

}  // namespace stretto::data
