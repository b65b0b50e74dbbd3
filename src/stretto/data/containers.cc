#include "stretto/data/containers.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/data/folder.h"
#include "stretto/data/in_order.h"
#include "stretto/data/labels.h"

namespace stretto::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 1'000'000;
constexpr int kMostReaders = 8;  // they wait for the disk or the network, not for a core

// "BEFORE{FIRST..LAST}BEHIND".
struct Braces {
  std::string_view before, first, last, behind;
};

std::optional<Braces> find_braces(std::string_view text) {
  const size_t open = text.find('{'), dots = text.find("..", open == text.npos ? 0 : open);
  const size_t close = text.find('}', dots == text.npos ? 0 : dots);
  if (open == text.npos || dots == text.npos || close == text.npos) return std::nullopt;
  return Braces{.before = text.substr(0, open),
                .first = text.substr(open + 1, dots - open - 1),
                .last = text.substr(dots + 2, close - dots - 2),
                .behind = text.substr(close + 1)};
}

uint64_t brace_number(const std::string& source, std::string_view text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || rest != end || number > UINT32_MAX || text.size() > 20) {
    throw_invalid("{}: expected numbers in braces, such as {{000..012}}, got \"{}\"", source, text);
  }
  return number;
}

void expand_pattern(const std::string& source, const std::string& pattern,
                    std::vector<std::string>& files) {
  const std::optional<Braces> braces = find_braces(pattern);
  if (!braces) {
    if (files.size() == kMostFiles) {
      throw_invalid("{}: it stands for more than {} files", source, kMostFiles);
    }
    files.push_back(pattern);
    return;
  }
  const uint64_t first = brace_number(source, braces->first);
  const uint64_t last = brace_number(source, braces->last);
  if (first > last) throw_invalid("{}: expected numbers that rise in the braces", source);
  for (uint64_t n = first; n <= last; ++n) {
    expand_pattern(
        source, fmt::format("{}{:0{}}{}", braces->before, n, braces->first.size(), braces->behind),
        files);
  }
}

// With the first number of each braces.
std::string first_of(std::string pattern) {
  while (const std::optional<Braces> braces = find_braces(pattern)) {
    pattern = fmt::format("{}{}{}", braces->before, braces->first, braces->behind);
  }
  return pattern;
}

std::string base_name(const std::string& path) { return fs::path(path).filename().string(); }

bool path_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

std::vector<std::string> containers_in(const std::string& folder, IsContainerName is_name) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && is_name(name) && entry.is_regular_file()) {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// How many bytes of each path are the folder that all lie in, with its "/".
size_t size_of_common_folder(const std::string& source, const std::vector<std::string>& files) {
  const bool is_pattern = files.size() > 1 && find_braces(source) && !path_exists(source);
  const std::string& path = is_pattern ? source : files.front();
  const size_t slash = path.rfind('/', is_pattern ? path.find('{') : path.npos);
  return slash == path.npos ? 0 : slash + 1;
}

}  // namespace

bool names_containers(const std::string& source, IsContainerName is_name) {
  std::error_code problem;
  if (!path_exists(source)) return find_braces(source) && is_name(base_name(first_of(source)));
  if (!fs::is_directory(source, problem)) return is_name(base_name(source));
  bool some = false;
  for (fs::directory_iterator entry(source, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    if (name.starts_with('.')) continue;
    if (is_picture_name(name) || entry->is_directory(unknown)) return false;
    some = some || is_name(name);
  }
  return some && !problem;
}

std::vector<std::string> expand_braces(const std::string& pattern) {
  std::vector<std::string> files;
  expand_pattern(pattern, pattern, files);
  return files;
}

std::vector<std::string> list_containers(const std::string& source, IsContainerName is_name) {
  std::vector<std::string> files;
  std::error_code unknown;
  if (!path_exists(source)) {
    files = expand_braces(source);
  } else if (fs::is_directory(source, unknown)) {
    try {
      files = containers_in(source, is_name);
    } catch (const fs::filesystem_error& e) {
      throw FormatError(source, -1, fmt::format("cannot read the folder: {}", e.code().message()),
                        e.code().value());
    }
  } else {
    files.push_back(source);
  }
  if (files.empty()) throw FormatError(source, -1, "there are no such files in the folder");
  return files;
}

Dataset open_containers(const std::string& source, std::string_view kind,
                        const std::vector<std::string>& files,
                        const std::function<std::vector<Found>(const std::string& file)>& find,
                        RemoteContainers remote) {
  TableBuilder builder;
  builder.table().fetcher = std::move(remote.fetcher);
  builder.table().states = std::move(remote.states);
  builder.table().source = source;
  builder.table().kind = kind;
  builder.table().containers = files;
  Labels labels;
  const size_t common = size_of_common_folder(source, files);
  const auto count = static_cast<int64_t>(files.size());
  in_order<std::vector<Found>>(
      0, count, static_cast<int>(std::min<int64_t>(kMostReaders, count)),
      [&](int64_t i) { return find(files[static_cast<size_t>(i)]); },
      [&](int64_t i, const std::vector<Found>& samples) {
        const std::string& file = files[static_cast<size_t>(i)];
        const std::string prefix = file.substr(common) + ":";
        for (const Found& sample : samples) {
          const int64_t label = !sample.label_name.empty()
                                    ? labels.add_name(sample.label_name, file)
                                : sample.label != -1 ? labels.add_number(sample.label, file)
                                                     : -1;
          builder.add(prefix + sample.name, {.offset = sample.offset,
                                             .length = sample.length,
                                             .label = label,
                                             .container = static_cast<uint32_t>(i)});
        }
      });
  labels.finish(builder);
  if (builder.size() == 0) throw FormatError(source, -1, "it has no samples");
  return Dataset(std::move(builder).take());
}

}  // namespace stretto::data
