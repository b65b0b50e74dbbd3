// Tar archives of pictures with their labels, as WebDataset has them.
#pragma once

#include "stretto/data/containers.h"
#include "stretto/data/dataset.h"

namespace stretto::data {

bool is_tar(const std::string& source);

// An archive NAME.tar, a folder of them, or a pattern such as shard-{000..012}.tar. Members that
// follow each other and whose names are the same up to the first dot behind the last slash are a
// sample: a picture (.jpg, .jpeg, .png, .webp) and perhaps its label, as a number in a .cls or as
// "label", a number or a name, in a .json. Others are passed over, but not a label without a
// picture. Archives may follow each other in one file, and no sample is of two. Nothing is
// unpacked. Throws FormatError naming the archive and the member.
Dataset open_tar(const std::string& source);

// The samples of the archive at `path`, which is `name` in errors.
std::vector<Found> find_in_tar(const std::string& path, const std::string& name);
inline std::vector<Found> find_in_tar(const std::string& path) { return find_in_tar(path, path); }

}  // namespace stretto::data
