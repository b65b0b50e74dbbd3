// The text of preprocessing: a list of steps with arguments by place or by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "stretto/base/error.h"
#include "stretto/media/preprocess.h"

namespace stretto::media {
namespace {

constexpr int64_t kMostSide = 16384;
constexpr std::array<float, 3> kImagenetMean{0.485f, 0.456f, 0.406f},
    kImagenetStd{0.229f, 0.224f, 0.225f};

template <typename T>
struct Named {
  std::string_view name;
  T value;
};
constexpr Named<Filter> kFilters[] = {
    {"triangle", Filter::kTriangle}, {"cubic", Filter::kCubic}, {"box", Filter::kBox}};
constexpr Named<Channels> kLayouts[] = {{"NCHW", Channels::kFirst}, {"NHWC", Channels::kLast}};

// A step as it was written: arguments by the names that the step gives them.
struct Written {
  std::string_view step;
  std::map<std::string_view, std::string_view> arguments;
};

std::string_view without_spaces(std::string_view s) {
  constexpr std::string_view kSpaces = " \t\n";
  const auto begin = s.find_first_not_of(kSpaces);
  if (begin == s.npos) return {};
  return s.substr(begin, s.find_last_not_of(kSpaces) - begin + 1);
}

template <typename T>
T number(const Written& w, std::string_view name, std::string_view text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(value >= least && value <= most)) {
    throw_invalid("preprocess: {} of {}: expected a {}number from {} to {}, got '{}'", name, w.step,
                  std::is_integral_v<T> ? "whole " : "", least, most, text);
  }
  return value;
}

std::optional<std::string_view> argument(const Written& w, std::string_view name) {
  const auto at = w.arguments.find(name);
  if (at == w.arguments.end()) return std::nullopt;
  return at->second;
}

int64_t side(const Written& w, std::string_view name, std::optional<int64_t> standard = {}) {
  const auto text = argument(w, name);
  if (text) return number<int64_t>(w, name, *text, 1, kMostSide);
  if (!standard) throw_invalid("preprocess: {} needs its {}: {}(224)", w.step, name, w.step);
  return *standard;
}

// "0.5", or "[0.485, 0.456, 0.406]" of red, green and blue.
std::array<float, 3> colours(const Written& w, std::string_view name,
                             const std::array<float, 3>& standard) {
  const auto text = argument(w, name);
  if (!text) return standard;
  constexpr float kMost = 1e6f;
  const bool is_std = name == "std";
  const float least = is_std ? 1e-6f : -kMost;
  std::array<float, 3> values{};
  if (!text->starts_with('[')) {
    values.fill(number<float>(w, name, *text, least, kMost));
    return values;
  }
  std::string_view rest = text->substr(1, text->size() - 2);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto comma = rest.find(',');
    if ((comma == rest.npos) != (i + 1 == values.size())) {
      throw_invalid("preprocess: {} of {}: expected one number or three in brackets, got {}", name,
                    w.step, *text);
    }
    values[i] = number<float>(w, name, without_spaces(rest.substr(0, comma)), least, kMost);
    if (comma != rest.npos) rest = rest.substr(comma + 1);
  }
  return values;
}

template <typename T, size_t kCount>
T choice(const Written& w, std::string_view name, const Named<T> (&known)[kCount], T standard) {
  const auto text = argument(w, name);
  if (!text) return standard;
  std::vector<std::string_view> names;
  for (const Named<T>& one : known) {
    if (one.name == *text) return one.value;
    names.push_back(one.name);
  }
  throw_invalid("preprocess: {} of {}: expected {}, got '{}'", name, w.step,
                fmt::join(names, " or "), *text);
}

template <typename T, size_t kCount>
std::string_view name_of(const Named<T> (&known)[kCount], T value) {
  for (const Named<T>& one : known) {
    if (one.value == value) return one.name;
  }
  return {};
}

// What has been read so far; which steps there were says what may follow.
struct Reading {
  Preprocess made;
  bool resized = false, cropped = false, normalised = false;
};

void once(const Written& w, bool& done) {
  if (done) throw_invalid("preprocess: {} comes after a step that does the same", w.step);
  done = true;
}

void normalize(const Written& w, Reading& r, const std::array<float, 3>& mean,
               const std::array<float, 3>& std) {
  once(w, r.normalised);
  r.made.mean = colours(w, "mean", mean);
  r.made.std = colours(w, "std", std);
}

void read_resize(const Written& w, Reading& r) {
  if (r.cropped) throw_invalid("preprocess: resize comes before center_crop");
  once(w, r.resized);
  r.made.filter = choice(w, "filter", kFilters, Filter::kTriangle);
  const int64_t height = side(w, "size");
  if (!argument(w, "width")) {
    r.made.shorter = height;
    return;
  }
  r.made.fit = Fit::kStretch;
  r.made.size = r.made.resized = {.width = side(w, "width"), .height = height};
}

void read_center_crop(const Written& w, Reading& r) {
  if (!r.resized) throw_invalid("preprocess: center_crop comes after resize");
  once(w, r.cropped);
  Preprocess& p = r.made;
  if (p.fit == Fit::kLetterbox) {
    throw_invalid("preprocess: letterbox shows all of the picture, so center_crop cannot follow");
  }
  const int64_t height = side(w, "size");
  p.size = {.width = side(w, "width", height), .height = height};
  const Size most =
      p.fit == Fit::kStretch ? p.resized : Size{.width = p.shorter, .height = p.shorter};
  if (p.size.width > most.width || p.size.height > most.height) {
    throw_invalid("preprocess: center_crop of {}x{} is larger than the picture resized to {}x{}",
                  p.size.height, p.size.width, most.height, most.width);
  }
}

void read_imagenet(const Written& w, Reading& r) {
  once(w, r.resized);
  r.cropped = true;
  Preprocess& p = r.made;
  const int64_t size = side(w, "size");
  p.size = {.width = size, .height = size};
  p.shorter = side(w, "resize", recipe_side(size));
  if (p.shorter < size) {
    throw_invalid("preprocess: resize of imagenet: expected at least the size of {}, got {}", size,
                  p.shorter);
  }
  p.filter = choice(w, "filter", kFilters, Filter::kTriangle);
  normalize(w, r, kImagenetMean, kImagenetStd);
}

void read_letterbox(const Written& w, Reading& r) {
  once(w, r.resized);
  Preprocess& p = r.made;
  p.fit = Fit::kLetterbox;
  const int64_t height = side(w, "size");
  p.size = {.width = side(w, "width", height), .height = height};
  p.filter = choice(w, "filter", kFilters, Filter::kTriangle);
  if (const auto text = argument(w, "fill")) p.fill = number<int>(w, "fill", *text, 0, 255);
}

void read_normalize(const Written& w, Reading& r) { normalize(w, r, kImagenetMean, kImagenetStd); }

void read_to_layout(const Written& w, Reading& r) {
  if (r.made.channels) throw_invalid("preprocess: to_layout is given twice");
  r.made.channels = choice(w, "layout", kLayouts, Channels::kFirst);
}

// Every step. The arguments of `form` are those that a step takes, in the order of their places.
struct Row {
  PreprocessStep shown;
  void (*read)(const Written& written, Reading& reading);
};
constexpr Row kRows[] = {
    {{"imagenet", "imagenet(size, resize, mean, std, filter)",
      "resizes the shorter side to size * 256 / 224, shows size x size of the middle, normalises"},
     read_imagenet},
    {{"letterbox", "letterbox(size, width, fill, filter)",
      "shows all of the picture in size x size pixels, with the value 114 beside it"},
     read_letterbox},
    {{"resize", "resize(size, width, filter)",
      "resizes the shorter side to size, or with two numbers the height and the width"},
     read_resize},
    {{"center_crop", "center_crop(size, width)", "shows the middle"}, read_center_crop},
    {{"normalize", "normalize(mean, std)", "makes (v / 255 - mean) / std of each value"},
     read_normalize},
    {{"to_layout", "to_layout(layout)", "NCHW or NHWC; otherwise as the model's input has it"},
     read_to_layout},
};

const Row& row_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) {
    if (row.shown.name == name) return row;
    names.push_back(row.shown.name);
  }
  throw_invalid("preprocess: there is no step '{}'; there are {}", name, fmt::join(names, ", "));
}

// The text before the first of `ends` that is in no bracket; `rest` becomes what follows it, and
// `found` which one it was, or 0 at the end.
std::string_view cut(std::string_view& rest, std::string_view ends, char& found) {
  int depth = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    const char c = rest[i];
    if (depth == 0 && ends.find(c) != ends.npos) {
      const std::string_view before = rest.substr(0, i);
      rest = rest.substr(i + 1);
      found = c;
      return without_spaces(before);
    }
    if (c == '[') ++depth;
    if (c == ']' && --depth < 0) break;
  }
  if (depth != 0) throw_invalid("preprocess: '{}': brackets do not match", rest);
  found = 0;
  return without_spaces(std::exchange(rest, {}));
}

void read_argument(Written& w, const PreprocessStep& step, size_t place, std::string_view text) {
  std::vector<std::string_view> names;
  std::string_view form = step.form.substr(step.name.size() + 1);
  form.remove_suffix(1);
  for (char comma = ','; comma == ',';) names.push_back(cut(form, ",", comma));
  char equals = 0;
  std::string_view value = text;
  std::string_view name = cut(value, "=", equals);
  if (equals == 0) {
    value = name;
    if (place >= names.size()) throw_invalid("preprocess: too many arguments: {}", step.form);
    name = names[place];
  }
  value = without_spaces(value);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw_invalid("preprocess: there is no argument '{}': {}", name, step.form);
  }
  if (value.empty() || (value.starts_with('[') && !value.ends_with(']'))) {
    throw_invalid("preprocess: {} of {}: a value is missing or malformed in '{}'", name, w.step,
                  text);
  }
  if (!w.arguments.emplace(*std::find(names.begin(), names.end(), name), value).second) {
    throw_invalid("preprocess: {} of {} is given twice", name, w.step);
  }
}

}  // namespace

std::span<const PreprocessStep> preprocess_steps() {
  static const std::vector<PreprocessStep> steps = [] {
    std::vector<PreprocessStep> shown;
    for (const Row& row : kRows) shown.push_back(row.shown);
    return shown;
  }();
  return steps;
}

Preprocess parse_preprocess(std::string_view text) {
  Reading reading;
  std::string_view rest = without_spaces(text);
  for (char end = ','; end == ',';) {
    Written written{.step = cut(rest, "(,", end)};
    const Row& row = row_named(written.step);
    if (end == '(') {
      for (size_t place = 0; end != ')'; ++place) {
        const std::string_view argument = cut(rest, ",)", end);
        if (end == 0) throw_invalid("preprocess: '{}': a ) is missing", text);
        if (argument.empty() && end == ')' && place == 0) break;
        read_argument(written, row.shown, place, argument);
      }
      const std::string_view between = cut(rest, ",", end);
      if (!between.empty()) throw_invalid("preprocess: expected a comma before '{}'", between);
    }
    row.read(written, reading);
  }
  const Preprocess& p = reading.made;
  if (!reading.resized) {
    throw_invalid(
        "preprocess: '{}' has no step that gives pictures one size; add imagenet, "
        "letterbox or resize",
        text);
  }
  if (p.size.width == 0) {
    throw_invalid(
        "preprocess: resize({}) leaves the longer side open; add center_crop, or give "
        "height and width",
        p.shorter);
  }
  return p;
}

std::string preprocess_text(const Preprocess& p) {
  const std::string filter =
      p.filter == Filter::kTriangle ? "" : fmt::format(", filter={}", name_of(kFilters, p.filter));
  std::string text;
  switch (p.fit) {
    case Fit::kShorter:
      text = fmt::format("resize({}{}), center_crop({}, {})", p.shorter, filter, p.size.height,
                         p.size.width);
      break;
    case Fit::kStretch:
      text = fmt::format("resize({}, {}{})", p.resized.height, p.resized.width, filter);
      if (p.size != p.resized) {
        text += fmt::format(", center_crop({}, {})", p.size.height, p.size.width);
      }
      break;
    case Fit::kLetterbox:
      text =
          fmt::format("letterbox({}, {}, fill={}{})", p.size.height, p.size.width, p.fill, filter);
      break;
  }
  text += fmt::format(", normalize(mean=[{}], std=[{}])", fmt::join(p.mean, ", "),
                      fmt::join(p.std, ", "));
  if (p.channels) text += fmt::format(", to_layout({})", name_of(kLayouts, *p.channels));
  return text;
}

}  // namespace stretto::media
