// A folder of pictures as a dataset.
#pragma once

#include "stretto/data/dataset.h"

namespace stretto::data {

// Whether a name ends like that of a picture: .jpg, .jpeg, .png or .webp, in any case.
bool is_picture_name(std::string_view name);

bool is_folder(const std::string& source);

// A folder per class: its sub-folders in the order of their names, byte by byte, are the classes 0,
// 1, ..., also those without pictures, and the pictures of a class are at any depth below its
// folder. They are in the order of their folders, then of their names. A folder without pictures in
// sub-folders has those that lie in it, without labels.
//
// Hidden files and folders are left out, so are links to a folder that they lie in. No file is
// looked at: what is one is known by its name. Throws FormatError naming a folder that cannot be
// read, or the source if it has no pictures.
Dataset open_folder(const std::string& source);

}  // namespace stretto::data
