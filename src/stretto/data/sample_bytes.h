// Reading one sample at a time, for packing and checking. Loaders read ahead (reader.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/data/index.h"

namespace stretto::data {

// Bytes offset to offset + length - 1 of a file; length 0: up to its end. Throws FormatError naming
// the file if it cannot be read, is no regular file, is too short, or the length is too large.
void read_bytes(const std::string& path, uint64_t offset, uint64_t length,
                std::vector<std::byte>& bytes);

// A file of the dataset where it lies on this host: path() of the sample or, of a file behind a
// URL, what it was fetched to, for as long as `keep` lives.
struct LocalPath {
  std::string path;
  std::shared_ptr<const void> keep;
};
LocalPath local_path(const Dataset& dataset, int64_t index);

// The bytes of a sample, with its restart table before them if it has one.
void read_sample(const Dataset& dataset, int64_t index, std::vector<std::byte>& bytes);

// What Reader::read_details() gives, in memory of its own.
std::vector<std::byte> read_details(const Dataset& dataset, int64_t index);

// Whether an error of reading is of this sample alone: what is in its file, or, where each sample
// has one, that the file is gone from a folder with others, is no file, or may not be read while
// its folder may. All else, such as a disk or a server that does not answer, may be over in a
// minute. So may an empty folder, which is what is left of a store that is not mounted.
bool is_of_the_sample(const FormatError& e, const Dataset& dataset, int64_t index);

// As a person finds it, for errors.
std::string describe_sample(const Dataset& dataset, int64_t index);

}  // namespace stretto::data
