// A folder of pictures with a label map for each as a dataset.
#pragma once

#include "stretto/data/dataset.h"

namespace stretto::data {

// A folder with the folders `images` and `masks`, and no other folder with pictures: else they are
// classes of a folder dataset.
bool is_segmentation(const std::string& source);

// The pictures at any depth below images/, in the order of folders, then of names, without labels.
// The label map of images/NAME.EXT is masks/NAME.png: a grey or palette PNG file whose bytes are
// classes. Throws FormatError naming the first picture that has none.
Dataset open_segmentation(const std::string& source);

// "masks/NAME.png" for "images/NAME.EXT".
std::string mask_name(std::string_view picture);

}  // namespace stretto::data
