// COCO's files of instances as a dataset.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/data/dataset.h"

namespace stretto::data {

// A file called .json.
bool is_coco(const std::string& source);

// instances_NAME.json: `images` (id, file_name) become samples in the order of their ids, and
// `annotations` (image_id, category_id, bbox) those of them. Crowds (iscrowd) have no box here;
// they, outlines (segmentation: polygons or runs) and the ids of images are kept as details, which
// are looked at when label maps are made of them. `categories` (id, name) are labels 0, 1, ... in
// the order of their ids. Samples have no label of their own.
//
// The pictures lie beside the file, in NAME or images/NAME beside it, or in one of these beside the
// file's folder: where the first of them is. Throws FormatError naming the file and what of it is
// wrong.
//
// The file is read by events: what is kept is 24 bytes per annotation, about 2 per coordinate of
// its outlines, and about 100 per picture, beside the text itself. A file of 464 MB, as large as
// that of 118,000 pictures, takes 12 s of one core.
Dataset open_coco(const std::string& source);

// The same of `text` in place of the file's content, with the pictures below `folder`.
Dataset parse_coco(const std::string& source, std::string_view text, const std::string& folder);

// The same, with the pictures below the first of `folders` that holds the first picture.
using HoldsPicture = std::function<bool(const std::string& folder, const std::string& picture)>;
Dataset parse_coco(const std::string& source, std::string_view text,
                   const std::vector<std::string>& folders, const HoldsPicture& holds);

// Where open_coco() would look if the file lay behind this URL, never above its host.
std::vector<std::string> coco_folders_of_url(std::string_view url);

}  // namespace stretto::data
