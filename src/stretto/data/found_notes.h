// Which samples a container has, as it is kept beside a cache, so that the container need not be
// read for it again.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/data/containers.h"

namespace stretto::data {

std::string write_found(std::span<const Found> samples);

// Nothing if the bytes are no such note, are damaged, or are of another version of it. What they
// say lies in a container of so many bytes.
std::optional<std::vector<Found>> read_found(std::span<const std::byte> bytes,
                                             uint64_t container_bytes);

}  // namespace stretto::data
