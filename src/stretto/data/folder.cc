#include "stretto/data/folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/log.h"
#include "stretto/base/parallel.h"
#include "stretto/data/index.h"

namespace stretto::data {
namespace {

constexpr size_t kDeepest = 100;  // folders in each other
constexpr int kMostScanners = 8;  // they wait for the disk or the network, not for a core

using Identity = std::pair<dev_t, ino_t>;

// The pictures that lie in a folder, and its sub-folders; names only, one behind the other.
struct Listing {
  std::string below;  // the folder's path below the source, with "/" behind; empty: the source
  std::string names;
  std::vector<std::pair<uint32_t, uint32_t>> pictures;  // begin and size in `names`
  std::vector<std::string> folders;

  std::string_view picture(std::pair<uint32_t, uint32_t> at) const {
    return std::string_view(names).substr(at.first, at.second);
  }
};

[[noreturn]] void fail_folder(const std::string& path) {
  const int code = errno;
  throw FormatError(path, -1, fmt::format("cannot read the folder: {}", std::strerror(code)), code);
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// Most file systems say in the entry whether it is a folder. Links lead anywhere; one that leads
// nowhere is a file, which cannot be opened when it is needed.
bool entry_is_folder(DIR* folder, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN && entry.d_type != DT_LNK) return entry.d_type == DT_DIR;
  struct stat info {};
  return ::fstatat(::dirfd(folder), entry.d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

bool entry_may_be_file(const dirent& entry) {
  return entry.d_type == DT_REG || entry.d_type == DT_LNK || entry.d_type == DT_UNKNOWN;
}

Listing list_folder(const std::string& source, std::string below, Identity& identity) {
  const std::string path = below.empty() ? source : source + "/" + below;
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
  if (!folder) fail_folder(path);
  struct stat info {};
  if (::fstat(::dirfd(folder.get()), &info) != 0) fail_folder(path);
  identity = {info.st_dev, info.st_ino};

  Listing listing;
  listing.below = std::move(below);
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name.starts_with('.')) continue;
    if (entry_is_folder(folder.get(), *entry)) {
      listing.folders.emplace_back(name);
    } else if (is_picture_name(name) && entry_may_be_file(*entry)) {
      if (listing.names.size() > UINT32_MAX - name.size()) {
        throw_unsupported("{}: more than 4 GiB of names", path);
      }
      listing.pictures.emplace_back(listing.names.size(), name.size());
      listing.names += name;
    }
  }
  if (errno != 0) fail_folder(path);
  std::sort(listing.folders.begin(), listing.folders.end());
  std::sort(listing.pictures.begin(), listing.pictures.end(),
            [&](auto a, auto b) { return listing.picture(a) < listing.picture(b); });
  return listing;
}

// Everything in a folder and below it, unless `stop`. `above`: the folders that it lies in.
void walk(const std::string& source, std::string below, const std::atomic<bool>& stop,
          std::vector<Identity>& above, std::vector<Listing>& listings) {
  check_interrupt();
  if (stop) return;
  Identity identity;
  Listing listing = list_folder(source, std::move(below), identity);
  if (std::find(above.begin(), above.end(), identity) != above.end()) return;  // a link upwards
  if (above.size() == kDeepest) {
    throw FormatError(source + "/" + listing.below, -1,
                      fmt::format("more than {} folders in each other", kDeepest));
  }
  above.push_back(identity);
  const std::vector<std::string> folders = std::move(listing.folders);
  const std::string path = listing.below;
  if (!listing.pictures.empty()) listings.push_back(std::move(listing));
  for (const std::string& name : folders) {
    walk(source, fmt::format("{}{}/", path, name), stop, above, listings);
  }
  above.pop_back();
}

// By class, folder by folder in the order of their paths.
std::vector<std::vector<Listing>> walk_classes(const std::string& source, Identity top,
                                               const std::vector<std::string>& names) {
  std::vector<std::vector<Listing>> classes(names.size());
  std::atomic<size_t> next{0}, done{0};
  std::atomic<bool> stop{false};  // an error or an interrupt of one thread ends all
  const auto walk_class = [&](size_t i) {
    std::vector<Identity> above{top};
    walk(source, names[i] + "/", stop, above, classes[i]);
    std::sort(classes[i].begin(), classes[i].end(), [](const Listing& a, const Listing& b) {
      // Without the "/" behind them: "a" is before "a-b", and "a/b" behind it.
      const auto path = [](const Listing& l) {
        return std::string_view(l.below.data(), l.below.size() - 1);
      };
      return path(a) < path(b);
    });
    ++done;
  };
  run_parallel(std::min<int>(kMostScanners, static_cast<int>(names.size())), [&] {
    try {
      for (size_t i = next++; i < names.size() && !stop; i = next++) walk_class(i);
      // The calling thread, the only one that sees an interrupt, may be done before the others.
      while (done < names.size() && !stop) {
        check_interrupt();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    } catch (...) {
      stop = true;
      throw;
    }
  });
  return classes;
}

void add_listing(TableBuilder& builder, const Listing& listing, int64_t label) {
  std::string name;
  for (const auto& at : listing.pictures) {
    name = listing.below;
    name += listing.picture(at);
    builder.add(name, {.label = label});
  }
}

}  // namespace

bool is_picture_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string ending(name.substr(dot + 1));
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return ending == "jpg" || ending == "jpeg" || ending == "png" || ending == "webp";
}

bool is_folder(const std::string& source) {
  struct stat info {};
  return ::stat(source.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Dataset open_folder(const std::string& source) {
  Identity top_identity;
  const Listing top = list_folder(source, "", top_identity);
  const std::vector<std::vector<Listing>> classes = walk_classes(source, top_identity, top.folders);

  TableBuilder builder;
  builder.table().source = source;
  builder.table().kind = "folder";
  builder.table().one_file_each_below = source;
  for (size_t i = 0; i < classes.size(); ++i) {
    for (const Listing& listing : classes[i]) {
      add_listing(builder, listing, static_cast<int64_t>(i));
    }
  }
  if (builder.size() > 0) {
    builder.table().class_names = top.folders;
    if (!top.pictures.empty()) {
      log_message(LogLevel::kWarning,
                  fmt::format("{}: {} pictures beside the folders of classes are left out", source,
                              top.pictures.size()));
    }
  } else {
    add_listing(builder, top, -1);
  }
  if (builder.size() == 0) {
    throw FormatError(source, -1,
                      "the folder has no pictures: expected .jpg, .jpeg, .png or .webp files in a "
                      "folder per class, or in this one");
  }
  return Dataset(std::move(builder).take());
}

}  // namespace stretto::data
