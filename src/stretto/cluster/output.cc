#include "stretto/cluster/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>
#include <system_error>

#include "stretto/base/error.h"
#include "stretto/base/file.h"

namespace stretto::cluster {
namespace {

namespace fs = std::filesystem;

constexpr const char* kList = "FILES";  // names what we wrote, so that we may replace it

// Removes what was begun, unless it was renamed.
struct Unfinished {
  fs::path path;
  ~Unfinished() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

// Throws unless `folder` is missing, empty, or holds only what its list names.
void check_replaceable(const fs::path& folder) {
  if (!fs::exists(folder)) return;
  if (!fs::is_directory(folder)) throw_invalid("{}: expected a folder", folder.string());
  std::set<std::string> ours;
  if (fs::exists(folder / kList)) {
    std::istringstream list(read_file((folder / kList).string()));
    for (std::string line; std::getline(list, line);) ours.insert(line);
    ours.insert(kList);
  }
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory() && !entry.is_symlink()) continue;
    const std::string name = entry.path().lexically_relative(folder).string();
    if (ours.count(name)) continue;
    throw_invalid("{}: it has {}, which was not written from a site file; name another folder",
                  folder.string(), name);
  }
}

[[noreturn]] void fail_with(const fs::path& path, int code) {
  throw FormatError(path.string(), -1, std::generic_category().message(code), code);
}

}  // namespace

std::string in_comment(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= 0x20 && c < 0x7f && c != '\\' ? c : '?';
  return out;
}

void write_folder(const std::string& name, const Files& files) {
  fs::path folder = fs::absolute(name).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  try {
    check_replaceable(folder);
    std::string pattern =
        (folder.parent_path() / ("." + folder.filename().string() + ".XXXXXX")).string();
    if (!mkdtemp(pattern.data())) fail_with(folder, errno);
    Unfinished part{pattern};
    fs::permissions(part.path, fs::perms(0755));
    std::string list;
    for (const auto& [path, text] : files) {
      fs::create_directories((part.path / path).parent_path());
      write_file((part.path / path).string(), text);
      if (path.ends_with(".sh")) fs::permissions(part.path / path, fs::perms(0755));
      list += path + "\n";
    }
    write_file((part.path / kList).string(), list);
    // An empty folder gives way to rename(); one that is full has to change places.
    if (::rename(part.path.c_str(), folder.c_str()) == 0) {
      part.path.clear();
      return;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) fail_with(folder, errno);
    if (renameat2(AT_FDCWD, part.path.c_str(), AT_FDCWD, folder.c_str(), RENAME_EXCHANGE) != 0) {
      fail_with(folder, errno);
    }
  } catch (const fs::filesystem_error& e) {
    throw FormatError(e.path1().string(), -1, e.code().message(), e.code().value());
  }
}

}  // namespace stretto::cluster
