#include "stretto/data/list.h"

#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/csv.h"
#include "stretto/data/folder.h"
#include "stretto/data/labels.h"

namespace stretto::data {
namespace {

using nlohmann::json;

constexpr size_t kLongestLine = size_t{16} << 20;  // of JSON: parsed it takes many times as much

void begin_list(TableBuilder& builder, const std::string& source) {
  const std::filesystem::path folder = std::filesystem::path(source).parent_path();
  builder.table().source = source;
  builder.table().kind = "list";
  builder.table().one_file_each_below = folder.empty() ? "." : folder.string();
}

Dataset end_list(TableBuilder builder) {
  if (builder.size() == 0) {
    throw FormatError(builder.table().source, -1, "the list names no pictures");
  }
  return Dataset(std::move(builder).take());
}

void check_path(std::string_view path, const std::string& where) {
  if (path.empty()) throw FormatError(where, -1, "expected a path");
  if (path.size() >= PATH_MAX || path.find('\0') != path.npos) {
    throw FormatError(where, -1, "the path is too long, or has a zero byte");
  }
}

// A first row that is no header: its words may be those of one that is not understood, which would
// then be a sample, and a label that makes all others names.
void check_first_path(const std::string& path, const std::string& folder,
                      const std::string& where) {
  check_path(path, where);
  struct stat info {};
  const std::string file = path.front() == '/' ? path : folder + "/" + path;
  if (is_picture_name(path) || is_url(path) || ::stat(file.c_str(), &info) == 0) return;
  throw FormatError(where, -1,
                    fmt::format("expected a header with a column \"path\", or the path of a "
                                "picture; got \"{}\"",
                                path));
}

// As people put it behind commas: "a.jpg, cat".
std::string_view without_spaces(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

// Which fields of a row are what.
struct Columns {
  size_t path = 0, label = 1;
};

// Whether `row` is the header.
bool read_header(const std::vector<std::string>& row, const std::string& where, Columns& columns) {
  const auto find = [&](std::string_view name) {
    return static_cast<size_t>(
        std::find_if(row.begin(), row.end(),
                     [&](const std::string& field) { return without_spaces(field) == name; }) -
        row.begin());
  };
  columns = {.path = find("path"), .label = find("label")};
  if (columns.path < row.size()) {
    // Labels by another name would be left out.
    if (row.size() == 2 && columns.label == row.size()) {
      throw FormatError(where, -1,
                        fmt::format("expected a column \"label\" beside \"path\", or \"path\" "
                                    "alone; got \"{}\"",
                                    without_spaces(row[1 - columns.path])));
    }
    return true;
  }
  if (columns.label < row.size()) {
    throw FormatError(where, -1, "the header has a column \"label\", but none called \"path\"");
  }
  if (row.size() > 2) {
    throw FormatError(where, -1,
                      fmt::format("expected a header with a column \"path\", or rows of a path and "
                                  "a label; got {} fields",
                                  row.size()));
  }
  columns = {};
  return false;
}

void add_row(const std::vector<std::string>& row, size_t count, const Columns& columns,
             const std::string& where, TableBuilder& builder, Labels& labels) {
  if (row.size() != count) {
    throw FormatError(where, -1, fmt::format("expected {} fields, got {}", count, row.size()));
  }
  const std::string& path = row[columns.path];
  check_path(path, where);
  int64_t label = -1;
  if (columns.label < row.size()) {
    const std::string_view text = without_spaces(row[columns.label]);
    if (!text.empty()) label = labels.add_text(text, where);
  }
  builder.add(path, {.label = label});
}

int64_t label_of(const json& value, const std::string& where, Labels& labels) {
  if (value.is_null()) return -1;
  if (value.is_string()) return labels.add_name(value.get_ref<const std::string&>(), where);
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX});
  if (!fits) throw FormatError(where, -1, "expected a label that is a whole number or a name");
  return labels.add_number(value.get<int64_t>(), where);
}

Annotation box_of(const json& box, const std::string& where, Labels& labels) {
  const auto fail = [&] {
    throw FormatError(where, -1, "expected boxes of [x0, y0, x1, y1, label]");
  };
  if (!box.is_array() || box.size() < 4 || box.size() > 5) fail();
  float corners[4];
  for (size_t i = 0; i < 4; ++i) {
    if (!box[i].is_number()) fail();
    corners[i] = box[i].get<float>();
    if (!std::isfinite(corners[i])) fail();
  }
  return {.x0 = corners[0],
          .y0 = corners[1],
          .x1 = corners[2],
          .y1 = corners[3],
          .label = box.size() == 5 ? label_of(box[4], where, labels) : -1};
}

void add_line(std::string_view line, const std::string& where, TableBuilder& builder,
              Labels& labels) {
  if (line.size() > kLongestLine) {
    throw FormatError(where, -1, fmt::format("the line has more than {} bytes", kLongestLine));
  }
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) throw FormatError(where, -1, "expected a JSON object");
  const auto path = object.find("path");
  if (path == object.end() || !path->is_string()) {
    throw FormatError(where, -1, "expected a \"path\" that is a text");
  }
  const auto& name = path->get_ref<const std::string&>();
  check_path(name, where);
  Record record;
  if (const auto label = object.find("label"); label != object.end()) {
    record.label = label_of(*label, where, labels);
  }
  std::vector<Annotation> annotations;
  if (const auto boxes = object.find("boxes"); boxes != object.end() && !boxes->is_null()) {
    if (!boxes->is_array()) throw FormatError(where, -1, "expected \"boxes\" that are a list");
    for (const json& box : *boxes) annotations.push_back(box_of(box, where, labels));
  }
  builder.add(name, record, annotations);
}

bool has_ending(std::string_view source, std::string_view ending) {
  return source.size() > ending.size() && source.ends_with(ending);
}

}  // namespace

bool is_list(const std::string& source) {
  if (!has_ending(source, ".csv") && !has_ending(source, ".jsonl") &&
      !has_ending(source, ".ndjson")) {
    return false;
  }
  struct stat info {};
  return ::stat(source.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

Dataset parse_csv(const std::string& source, std::string_view text) {
  TableBuilder builder;
  begin_list(builder, source);
  Labels labels;
  CsvReader reader(source, text);
  std::vector<std::string> row;
  Columns columns;
  bool first = true;
  size_t count = 0;
  while (reader.next(row)) {
    const bool header = first && read_header(row, reader.where(), columns);
    if (first && !header) {
      check_first_path(row[columns.path], builder.table().one_file_each_below, reader.where());
    }
    if (first) count = row.size();
    first = false;
    if (header) continue;
    check_interrupt();
    add_row(row, count, columns, reader.where(), builder, labels);
  }
  labels.finish(builder);
  return end_list(std::move(builder));
}

Dataset parse_json_lines(const std::string& source, std::string_view text) {
  TableBuilder builder;
  begin_list(builder, source);
  Labels labels;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t size = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    check_interrupt();
    add_line(line, fmt::format("{}:{}", source, number), builder, labels);
  }
  labels.finish(builder);
  return end_list(std::move(builder));
}

bool is_url(std::string_view path) {
  const size_t scheme = path.find("://");
  return scheme != path.npos && scheme > 0 &&
         std::all_of(path.begin(), path.begin() + static_cast<ptrdiff_t>(scheme), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '+' || c == '.' || c == '-';
         });
}

Dataset open_list(const std::string& source) {
  const std::string text = read_file(source);
  Dataset list =
      has_ending(source, ".csv") ? parse_csv(source, text) : parse_json_lines(source, text);
  for (int64_t i = 0; i < list.size(); ++i) {
    if (!is_url(list.name(i))) continue;
    throw_unsupported(
        "{}: it names URLs, such as {}, which are opened by stretto.data.open() and ImageLoader in "
        "Python where all of its paths are URLs, or by open_remote() with a store of your own in "
        "C++",
        source, list.name(i));
  }
  return list;
}

}  // namespace stretto::data
