#include "stretto/data/coco.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/details.h"
#include "stretto/data/index.h"

namespace stretto::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct CocoPicture {
  int64_t id;
  std::string name;
};

struct CocoBox {
  int64_t picture, category;
  std::array<double, 4> corner_and_size;
  bool crowd;
  std::vector<std::byte> outline;  // encode_outline(); empty: none
};

struct CocoParts {
  std::vector<CocoPicture> pictures;
  std::vector<CocoBox> boxes;
  std::map<int64_t, std::string> categories;
};

// Receives the file's events. The place of a value is {"SECTION": [{"FIELD": value}]}, or one list
// deeper, as bbox is; whatever lies elsewhere is passed over.
class CocoReader {
 public:
  using number_integer_t = json::number_integer_t;
  using number_unsigned_t = json::number_unsigned_t;
  using number_float_t = json::number_float_t;
  using string_t = json::string_t;
  using binary_t = json::binary_t;

  explicit CocoReader(const std::string& file) : file_(file) {}
  CocoParts take() && { return std::move(parts_); }

  bool null() { return true; }
  bool boolean(bool value) { return number(value ? 1 : 0, value ? 1 : 0); }
  bool number_integer(number_integer_t value) { return number(static_cast<double>(value), value); }
  bool number_unsigned(number_unsigned_t value) {
    if (value > static_cast<uint64_t>(INT64_MAX)) return number(static_cast<double>(value), {});
    return number(static_cast<double>(value), static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) { return number(value, {}); }
  bool string(string_t& text) {
    if (in_segmentation() && open_.size() == 4 && inner_field_ == "counts") {
      try {
        outline_.runs = runs_of_text(text);
      } catch (const FormatError&) {
        fail("\"counts\" that are numbers or COCO's compressed runs");
      }
      return true;
    }
    if (!in_item() || open_.size() != 3) return true;
    if (field_ == (section_ == "images" ? "file_name" : "name")) name_ = std::move(text);
    return true;
  }
  bool binary(binary_t&) { return true; }

  bool start_object(size_t) {
    open_.push_back('{');
    if (open_.size() == 3 && in_item()) begin_item();
    return true;
  }
  bool end_object() {
    if (open_.size() == 3 && in_item()) end_item();
    open_.pop_back();
    return true;
  }
  bool start_array(size_t) {
    open_.push_back('[');
    if (in_segmentation() && open_.size() == 5 && open_[3] == '[') outline_.polygons.emplace_back();
    return true;
  }
  bool end_array() {
    open_.pop_back();
    return true;
  }
  bool key(string_t& name) {
    if (open_.size() == 1) section_ = std::move(name);
    if (open_.size() == 3) {
      field_ = std::move(name);
    } else if (open_.size() == 4) {
      inner_field_ = std::move(name);
    }
    return true;
  }
  bool parse_error(size_t at, const std::string&, const json::exception&) {
    throw FormatError(file_, static_cast<int64_t>(at), "expected JSON");
  }

 private:
  bool in_item() const {
    return open_.size() >= 3 && open_[0] == '{' && open_[1] == '[' && open_[2] == '{' &&
           (section_ == "images" || section_ == "annotations" || section_ == "categories");
  }

  bool number(double value, std::optional<int64_t> whole) {
    if (!in_item()) return true;
    if (open_.size() == 3) {
      if (field_ == "id") id_ = whole;
      if (field_ == "image_id") picture_ = whole;
      if (field_ == "category_id") category_ = whole;
      if (field_ == "iscrowd") crowd_ = value != 0;
    } else if (open_.size() == 4 && open_[3] == '[' && field_ == "bbox") {
      if (corners_ < box_.size()) box_[corners_] = value;
      ++corners_;
    } else if (open_.size() == 5 && in_segmentation()) {
      outline_number(value);
    }
    return true;
  }

  bool in_segmentation() const {
    return open_.size() >= 4 && field_ == "segmentation" && section_ == "annotations" && in_item();
  }

  // In [[x, y, ...], ...], or in {"counts": [...], "size": [height, width]}.
  void outline_number(double value) {
    if (open_[4] != '[') return;
    if (open_[3] == '[') {
      outline_.polygons.back().push_back(value);
      return;
    }
    if (inner_field_ != "counts" && inner_field_ != "size") return;
    if (!(value >= 0 && value <= INT32_MAX) || value != std::floor(value)) {
      fail("\"counts\" and a \"size\" of whole numbers");
    }
    if (inner_field_ == "counts") outline_.runs.push_back(static_cast<uint32_t>(value));
    if (inner_field_ != "size") return;
    outline_.height = std::exchange(outline_.width, static_cast<int64_t>(value));
  }

  void begin_item() {
    check_interrupt();
    field_.clear();
    name_.reset();
    id_ = picture_ = category_ = std::nullopt;
    corners_ = 0;
    crowd_ = false;
    outline_ = {};
    inner_field_.clear();
    ++count_[section_];
  }

  void end_item() {
    if (section_ == "images") {
      if (!id_ || !name_ || name_->empty() || name_->size() >= PATH_MAX ||
          name_->find('\0') != name_->npos) {
        fail("a whole number \"id\" and a \"file_name\"");
      }
      parts_.pictures.push_back({*id_, std::move(*name_)});
    } else if (section_ == "categories") {
      if (!id_ || !name_) fail("a whole number \"id\" and a \"name\"");
      if (!parts_.categories.emplace(*id_, std::move(*name_)).second) fail("an \"id\" of its own");
    } else {
      const bool has_outline = !outline_.runs.empty() || !outline_.polygons.empty();
      if (crowd_ && !(has_outline && picture_)) return;
      if (crowd_ && !category_) category_ = 0;  // its pixels have no class
      if (crowd_) corners_ = box_.size();
      if (!picture_ || !category_ || corners_ != box_.size() ||
          !(crowd_ ||
            std::all_of(box_.begin(), box_.end(), [](double v) { return std::isfinite(v); }))) {
        fail("whole numbers \"image_id\" and \"category_id\", and a \"bbox\" of four numbers");
      }
      parts_.boxes.push_back({*picture_, *category_, box_, crowd_,
                              has_outline ? encode_outline(outline_) : std::vector<std::byte>{}});
    }
  }

  [[noreturn]] void fail(std::string_view expected) {
    throw FormatError(
        file_, -1,
        fmt::format("element {} of \"{}\": expected {}", count_[section_] - 1, section_, expected));
  }

  const std::string& file_;
  CocoParts parts_;
  std::string open_;  // the brackets that are open
  std::string section_, field_;
  std::map<std::string, int64_t> count_;  // elements of sections
  std::optional<std::string> name_;
  std::optional<int64_t> id_, picture_, category_;
  std::array<double, 4> box_{};
  Outline outline_;
  std::string inner_field_;
  size_t corners_ = 0;
  bool crowd_ = false;
};

CocoParts read_parts(const std::string& source, std::string_view text) {
  CocoReader reader(source);
  json::sax_parse(text.begin(), text.end(), &reader);
  CocoParts parts = std::move(reader).take();
  if (parts.pictures.empty()) {
    throw FormatError(source, -1, "expected the instances of COCO: it lists no \"images\"");
  }
  std::sort(parts.pictures.begin(), parts.pictures.end(),
            [](const CocoPicture& a, const CocoPicture& b) { return a.id < b.id; });
  const auto twice = std::adjacent_find(parts.pictures.begin(), parts.pictures.end(),
                                        [](const auto& a, const auto& b) { return a.id == b.id; });
  if (twice != parts.pictures.end()) {
    throw FormatError(source, -1, fmt::format("two images have the id {}", twice->id));
  }
  return parts;
}

// Of one picture.
struct CocoGroup {
  std::vector<Annotation> boxes;
  std::vector<EncodedOutline> outlines;
};

// By the place of their picture, each in its order.
std::vector<CocoGroup> group_boxes(const std::string& source, CocoParts& parts) {
  std::unordered_map<int64_t, size_t> places;
  for (const CocoPicture& picture : parts.pictures) places.emplace(picture.id, places.size());
  std::unordered_map<int64_t, int64_t> labels;
  for (const auto& [id, name] : parts.categories) {
    labels.emplace(id, static_cast<int64_t>(labels.size()));
  }
  std::vector<CocoGroup> groups(parts.pictures.size());
  for (CocoBox& box : parts.boxes) {
    const auto place = places.find(box.picture);
    const auto label = labels.find(box.category);
    if (box.crowd) {
      if (place == places.end()) continue;
      groups[place->second].outlines.push_back({.box = -1, .bytes = std::move(box.outline)});
      continue;
    }
    if (place == places.end() || label == labels.end()) {
      throw FormatError(source, -1,
                        fmt::format("an annotation is of image {} and category {}, which are not "
                                    "both listed",
                                    box.picture, box.category));
    }
    const auto& [x, y, width, height] = box.corner_and_size;
    CocoGroup& group = groups[place->second];
    if (!box.outline.empty()) {
      group.outlines.push_back({std::ssize(group.boxes), std::move(box.outline)});
    }
    group.boxes.push_back({.x0 = static_cast<float>(x),
                           .y0 = static_cast<float>(y),
                           .x1 = static_cast<float>(x + width),
                           .y1 = static_cast<float>(y + height),
                           .label = label->second});
  }
  return groups;
}

Dataset make_dataset(const std::string& source, CocoParts parts, const std::string& folder) {
  const std::vector<CocoGroup> groups = group_boxes(source, parts);
  TableBuilder builder;
  builder.table().source = source;
  builder.table().kind = "coco";
  builder.table().one_file_each_below = folder;
  for (const auto& [id, name] : parts.categories) builder.table().class_names.push_back(name);
  for (size_t i = 0; i < parts.pictures.size(); ++i) {
    const CocoPicture& picture = parts.pictures[i];
    builder.add(picture.name, {}, groups[i].boxes,
                encode_details(picture.id, groups[i].outlines, {}));
  }
  return Dataset(std::move(builder).take());
}

// "instances_train2017": "train2017".
std::string_view after_kind(std::string_view stem) {
  const size_t at = stem.find('_');
  return at == stem.npos ? stem : stem.substr(at + 1);
}

// The folders of pictures of `name` near the file's folder and the one above it, if it is known.
std::vector<std::string> folders_near(std::span<const std::string> bases, std::string_view name) {
  std::vector<std::string> folders;
  for (const std::string& base : bases) {
    folders.insert(folders.end(),
                   {base, fmt::format("{}/{}", base, name), fmt::format("{}/images/{}", base, name),
                    fmt::format("{}/images", base)});
  }
  return folders;
}

std::string find_folder(const std::string& source, const std::string& picture,
                        const std::vector<std::string>& folders, const HoldsPicture& holds) {
  std::string tried;
  for (const std::string& folder : folders) {
    if (holds(folder, picture)) return folder;
    tried += "\n  " + folder;
  }
  throw FormatError(source, -1,
                    fmt::format("its first picture, {}, is in none of{}", picture, tried));
}

}  // namespace

bool is_coco(const std::string& source) {
  struct stat info {};
  return source.ends_with(".json") && ::stat(source.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

Dataset parse_coco(const std::string& source, std::string_view text, const std::string& folder) {
  return make_dataset(source, read_parts(source, text), folder);
}

Dataset parse_coco(const std::string& source, std::string_view text,
                   const std::vector<std::string>& folders, const HoldsPicture& holds) {
  CocoParts parts = read_parts(source, text);
  const std::string& first = parts.pictures.front().name;
  const bool is_url = first.find("://") != first.npos;
  const std::string folder = is_url ? folders.front() : find_folder(source, first, folders, holds);
  return make_dataset(source, std::move(parts), folder);
}

Dataset open_coco(const std::string& source) {
  const fs::path file = fs::absolute(source);
  const std::string beside = file.parent_path().string();
  const std::string above = file.parent_path().parent_path().string();
  const auto holds = [](const std::string& folder, const std::string& picture) {
    return ::access((fs::path(folder) / picture).c_str(), F_OK) == 0;
  };
  return parse_coco(source, read_file(source),
                    folders_near(std::array{beside, above}, after_kind(file.stem().string())),
                    holds);
}

std::vector<std::string> coco_folders_of_url(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const size_t host = url.find("://") + 3;
  const auto above = [](std::string_view path) { return path.substr(0, path.rfind('/')); };
  std::string_view stem = url.substr(url.rfind('/') + 1);
  stem = stem.substr(0, stem.rfind('.'));
  std::vector<std::string> bases{std::string(above(url))};
  if (bases.front().find('/', host) != std::string::npos) {
    bases.emplace_back(above(bases.front()));
  }
  return folders_near(bases, after_kind(stem));
}

}  // namespace stretto::data
