// TFRecord files of pictures.
#pragma once

#include "stretto/data/containers.h"
#include "stretto/data/dataset.h"

namespace stretto::data {

bool is_tfrecord(const std::string& source);

// A file NAME.tfrecord, NAME.tfrecords or NAME-00000-of-01024, a folder of them, or a pattern. Each
// record is a tf.train.Example with the bytes image/encoded and perhaps the number
// image/class/label, which is kept as it is. A sample's name is the number of its record in the
// file. Throws FormatError naming the file and the record.
//
// Reads the heads of the records: checksums of lengths are checked, those of the data are not. The
// file is mapped meanwhile, so whoever cuts it short in that time ends the process by a signal.
Dataset open_tfrecord(const std::string& source);

// The samples of the file at `path`, which is `name` in errors.
std::vector<Found> find_in_tfrecord(const std::string& path, const std::string& name);
inline std::vector<Found> find_in_tfrecord(const std::string& path) {
  return find_in_tfrecord(path, path);
}

// CRC-32C of Castagnoli, as TFRecord stores it: rotated, and a constant added.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace stretto::data
