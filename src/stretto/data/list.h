// Lists of pictures with labels: CSV and JSON lines.
#pragma once

#include <string_view>

#include "stretto/data/dataset.h"

namespace stretto::data {

// A file called .csv, .jsonl or .ndjson.
bool is_list(const std::string& source);

// CSV: a header with a column `path` and perhaps a column `label`, others being left out; or no
// header, and a path and perhaps a label in each row. JSON lines: an object per line with `path`,
// perhaps `label` and perhaps `boxes`, a list of [x0, y0, x1, y1, label].
//
// Paths are relative to the list's folder, or absolute. A label is a number of at least 0, or a
// name: the class names are then those of the list, sorted. A field without text, -1 and null are
// no label. CSV does not tell numbers from names: "3" and "3.0" are numbers, also in quotes; spaces
// around a label do not count. A list with both is refused, as is a first row of CSV that is
// neither a header with `path` nor the path of a picture, or a header of `path` and one other word.
// Throws FormatError with "FILE:LINE", and Unsupported for a list that names URLs, which
// open_remote() opens.
Dataset open_list(const std::string& source);

// Whether a path is the URL of a store: SCHEME://...
bool is_url(std::string_view path);

// The same of `text` in place of the file's content.
Dataset parse_csv(const std::string& source, std::string_view text);
Dataset parse_json_lines(const std::string& source, std::string_view text);

}  // namespace stretto::data
