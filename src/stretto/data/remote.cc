#include "stretto/data/remote.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/log.h"
#include "stretto/data/coco.h"
#include "stretto/data/containers.h"
#include "stretto/data/folder.h"
#include "stretto/data/found_notes.h"
#include "stretto/data/list.h"
#include "stretto/data/pack.h"
#include "stretto/data/pack_format.h"
#include "stretto/data/read_file.h"
#include "stretto/data/segmentation.h"
#include "stretto/data/tar.h"
#include "stretto/data/tfrecord.h"

namespace stretto::data {
namespace {

using FetcherPointer = std::shared_ptr<Fetcher>;

RemoteState state_of_remote(const RemoteFile& file) {
  return {.bytes = file.bytes, .version = file.version};
}

const RemoteFile& only_file(const RemoteSource& source) {
  if (source.files.empty()) throw FormatError(source.url, -1, "there is no such file");
  return source.files.front();
}

// The same table with another thing known of it.
Dataset with_fetcher(Dataset::Table table, FetcherPointer fetcher,
                     std::vector<RemoteState> states = {}) {
  table.fetcher = std::move(fetcher);
  table.states = std::move(states);
  return Dataset(std::make_shared<const Dataset::Table>(std::move(table)));
}

std::optional<std::vector<Found>> noted(const std::string& path, uint64_t container_bytes) {
  try {
    const std::string note = read_file(path);
    return read_found(std::as_bytes(std::span(note)), container_bytes);
  } catch (const FormatError&) {
    return std::nullopt;  // there is none yet
  }
}

void write_note(const std::string& path, const std::vector<Found>& samples) {
  try {
    write_file(path, write_found(samples));
  } catch (const FormatError& e) {
    log_message(
        LogLevel::kWarning,
        fmt::format("what a container has is looked for again at the next opening: {}", e.what()));
  }
}

using FindInContainer = std::vector<Found> (*)(const std::string& path, const std::string& name);

Dataset open_remote_containers(const RemoteSource& source, FetcherPointer fetcher,
                               std::string_view kind, FindInContainer find) {
  if (source.files.empty()) throw FormatError(source.url, -1, "there are no such files");
  std::vector<std::string> urls;
  std::vector<RemoteState> states;
  std::unordered_map<std::string, const RemoteFile*> by_url;
  for (const RemoteFile& file : source.files) {
    urls.push_back(file.url);
    states.push_back(state_of_remote(file));
    by_url.emplace(file.url, &file);
  }
  const auto find_remote = [&](const std::string& url) {
    const RemoteFile& file = *by_url.at(url);
    const bool known = file.bytes != RemoteFile::kUnknown;
    const std::string path = known ? fetcher->note_path(file, kind) : "";
    if (known) {
      if (auto samples = noted(path, file.bytes)) return std::move(*samples);
    }
    const auto local = fetcher->open(file);
    std::vector<Found> samples = find(local->path(), url);
    if (known) write_note(path, samples);
    return samples;
  };
  return open_containers(source.url, kind, urls, find_remote, {fetcher, std::move(states)});
}

Dataset open_remote_tar(const RemoteSource& source, FetcherPointer fetcher) {
  return open_remote_containers(source, std::move(fetcher), "tar", find_in_tar);
}

Dataset open_remote_tfrecord(const RemoteSource& source, FetcherPointer fetcher) {
  return open_remote_containers(source, std::move(fetcher), "tfrecord", find_in_tfrecord);
}

// Of a list that is local, URLs alone: a dataset is local or is fetched.
void check_paths(const std::string& source, const Dataset& dataset, bool local) {
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const std::string name = dataset.name(i);
    if (local && !is_url(name)) {
      throw FormatError(source, -1,
                        fmt::format("{}: expected a URL, as other paths of the list are: put paths "
                                    "of files and URLs into two lists, and load both",
                                    name));
    }
    if (name.starts_with('/')) {
      throw FormatError(source, -1,
                        fmt::format("{}: expected a path relative to the folder, or a URL", name));
    }
  }
}

Dataset open_remote_list(const RemoteSource& source, FetcherPointer fetcher) {
  const bool local = !is_url(source.url);
  const std::string text = read_file(local ? source.url : fetcher->open(only_file(source))->path());
  const std::string_view path =
      std::string_view(source.url).substr(0, local ? source.url.npos : source.url.find('?'));
  const Dataset dataset =
      path.ends_with(".csv") ? parse_csv(source.url, text) : parse_json_lines(source.url, text);
  check_paths(source.url, dataset, local);
  return with_fetcher(dataset.table(), std::move(fetcher));
}

// "a/b/c.jpg": "a/b" and "c.jpg".
std::pair<std::string_view, std::string_view> split_path(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {{}, path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

bool is_hidden(std::string_view path) {
  return path.starts_with('.') || path.find("/.") != path.npos;
}

Dataset open_remote_folder(const RemoteSource& source, FetcherPointer fetcher) {
  const std::string below = source.url + "/";
  const auto path_of_url = [&](const std::string& url) {
    if (!url.starts_with(below)) {
      throw FormatError(source.url, -1, fmt::format("expected files below it, got {}", url));
    }
    return std::string_view(url).substr(below.size());
  };
  struct Picture {
    std::string_view folder, name;
    const RemoteFile* file;
  };
  std::set<std::string_view> classes;
  std::vector<Picture> pictures, beside;
  for (const std::string& url : source.folders) {
    const std::string_view path = path_of_url(url);
    if (!path.empty() && !is_hidden(path)) classes.insert(path.substr(0, path.find('/')));
  }
  for (const RemoteFile& file : source.files) {
    const std::string_view path = path_of_url(file.url);
    if (path.empty() || is_hidden(path)) continue;
    const auto [folder, name] = split_path(path);
    if (!folder.empty()) classes.insert(folder.substr(0, folder.find('/')));
    if (!is_picture_name(name)) continue;
    (folder.empty() ? beside : pictures).push_back({folder, name, &file});
  }
  TableBuilder builder;
  builder.table().source = source.url;
  builder.table().kind = "folder";
  builder.table().one_file_each_below = source.url;
  std::map<std::string_view, int64_t> labels;
  for (const std::string_view name : classes) {
    labels.emplace(name, static_cast<int64_t>(labels.size()));
  }
  std::vector<Picture>& shown = pictures.empty() ? beside : pictures;
  // As open_folder() has them: by class, then by folder, then by name.
  std::sort(shown.begin(), shown.end(), [&](const Picture& a, const Picture& b) {
    const auto top = [](const Picture& p) { return p.folder.substr(0, p.folder.find('/')); };
    return std::tuple(top(a), a.folder, a.name) < std::tuple(top(b), b.folder, b.name);
  });
  if (!pictures.empty()) {
    for (const auto& [name, label] : labels) builder.table().class_names.emplace_back(name);
    if (!beside.empty()) {
      log_message(LogLevel::kWarning,
                  fmt::format("{}: {} pictures beside the folders of classes are left out",
                              source.url, beside.size()));
    }
  }
  std::vector<RemoteState> states;
  for (const Picture& picture : shown) {
    check_interrupt();
    const std::string_view top = picture.folder.substr(0, picture.folder.find('/'));
    const auto label = pictures.empty() ? labels.end() : labels.find(top);
    builder.add(path_of_url(picture.file->url),
                {.label = label == labels.end() ? -1 : label->second});
    states.push_back(state_of_remote(*picture.file));
  }
  if (builder.size() == 0) {
    throw FormatError(source.url, -1,
                      "the folder has no pictures: expected .jpg, .jpeg, .png or .webp files in a "
                      "folder per class, or in this one");
  }
  builder.table().fetcher = std::move(fetcher);
  builder.table().states = std::move(states);
  return Dataset(std::move(builder).take());
}

// As open_segmentation(): pictures below "images", whose maps are listed below "masks".
Dataset open_remote_segmentation(const RemoteSource& source, FetcherPointer fetcher) {
  const std::string images = source.url + "/images";
  RemoteSource pictures{.url = images, .kind = "folder", .files = {}, .folders = {}};
  std::unordered_map<std::string, RemoteState> listed;
  for (const RemoteFile& file : source.files) {
    if (file.url.starts_with(images + "/")) {
      pictures.files.push_back(file);
    } else {
      listed.emplace(file.url, state_of_remote(file));
    }
  }
  const Dataset found = open_remote_folder(pictures, fetcher);
  TableBuilder builder;
  builder.table().source = source.url;
  builder.table().kind = "segmentation";
  builder.table().one_file_each_below = source.url;
  builder.table().masks_beside = true;
  std::vector<RemoteState> states = found.table().states;
  for (int64_t i = 0; i < found.size(); ++i) {
    check_interrupt();
    const std::string name = fmt::format("images/{}", found.name(i));
    const std::string mask = fmt::format("{}/{}", source.url, mask_name(name));
    const auto at = listed.find(mask);
    if (at == listed.end()) {
      throw FormatError(fmt::format("{}/{}", source.url, name), -1,
                        fmt::format("expected its label map at {}", mask));
    }
    states.push_back(at->second);
    builder.add(name, {});
  }
  builder.table().fetcher = std::move(fetcher);
  builder.table().states = std::move(states);
  return Dataset(std::move(builder).take());
}

// Compares all samples of a shard with the checksums of the pack.
void check_pack_shard(const PackIndex& index, uint32_t shard, const std::string& url,
                      const std::string& path) {
  const ReadFile file(path, url);
  const std::span<const std::byte> section = index.section(kPackRecords);
  const std::span records(reinterpret_cast<const Record*>(section.data()),
                          section.size() / sizeof(Record));
  const std::span<const uint64_t> checksums = index.checksums();
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    if (record.container != shard) continue;
    // Records that are impossible are errors when they are used.
    if (record.restart_bytes > record.offset || record.length > kLargestSample ||
        record.details_bytes > kLargestSample) {
      continue;
    }
    // As stored, one behind the other: its restart table, the picture and its details.
    bytes.resize(record.length + record.restart_bytes + record.details_bytes);
    file.read(record.offset - record.restart_bytes, bytes);
    if (pack_checksum(bytes) == checksums[i]) continue;
    throw FormatError(url, static_cast<int64_t>(record.offset),
                      fmt::format("sample {}: its checksum is not the one in the pack's index", i),
                      EIO);
  }
}

Dataset open_remote_pack(const RemoteSource& source, FetcherPointer fetcher) {
  const auto file = fetcher->open(only_file(source));
  auto index = std::make_shared<PackIndex>(
      read_pack_index_file(file->path(), only_file(source).url, kPackIndexToMap));
  // A mapped index must not be evicted.
  index->keep =
      std::make_shared<std::pair<std::shared_ptr<const void>, decltype(file)>>(index->keep, file);
  Dataset::Table table = dataset_of(source.url, *index, false).table();
  std::unordered_map<std::string, const RemoteFile*> listed;
  for (const RemoteFile& shard : source.files) listed.emplace(shard.url, &shard);
  std::unordered_map<std::string, uint32_t> numbers;
  const std::span<const std::byte> sizes = index->section(kPackShards);
  std::vector<RemoteState> states;
  for (const std::string& url : table.containers) {
    RemoteState state;
    std::memcpy(&state.bytes, sizes.data() + sizeof(uint64_t) * states.size(), sizeof state.bytes);
    if (const auto at = listed.find(url); at != listed.end()) {
      const RemoteFile& found = *at->second;
      if (found.bytes != RemoteFile::kUnknown && found.bytes != state.bytes) {
        throw FormatError(url, -1,
                          fmt::format("expected {} bytes, got {}", state.bytes, found.bytes));
      }
      state.version = found.version;
    }
    numbers.emplace(url, static_cast<uint32_t>(states.size()));
    states.push_back(state);
  }
  fetcher->set_check(
      [index, numbers = std::move(numbers)](const std::string& url, const std::string& path) {
        const auto shard = numbers.find(url);
        if (shard != numbers.end()) check_pack_shard(*index, shard->second, url, path);
      });
  return with_fetcher(std::move(table), std::move(fetcher), std::move(states));
}

// As open_coco(): what tells where the pictures are is the first of them, which is fetched for it.
Dataset open_remote_coco(const RemoteSource& source, FetcherPointer fetcher) {
  const std::string text = read_file(fetcher->open(only_file(source))->path());
  const auto holds = [&](const std::string& folder, const std::string& picture) {
    if (picture.starts_with('/')) return true;  // which is refused below
    try {
      fetcher->open({.url = fmt::format("{}/{}", folder, picture)});
      return true;
    } catch (const FormatError& e) {
      // Stores that list nothing to strangers say EACCES where there is no such file.
      if (e.code() == ENOENT || e.code() == EACCES) return false;
      throw;
    }
  };
  const Dataset dataset = parse_coco(source.url, text, coco_folders_of_url(source.url), holds);
  check_paths(source.url, dataset, false);
  return with_fetcher(dataset.table(), std::move(fetcher));
}

struct RemoteRow {
  std::string_view kind;
  Dataset (*open)(const RemoteSource& source, FetcherPointer fetcher);
};
constexpr RemoteRow kRemoteSources[] = {
    {"pack", open_remote_pack},         {"list", open_remote_list},
    {"coco", open_remote_coco},         {"tar", open_remote_tar},
    {"tfrecord", open_remote_tfrecord}, {"segmentation", open_remote_segmentation},
    {"folder", open_remote_folder}};

}  // namespace

Dataset open_remote(const RemoteSource& source, std::shared_ptr<Fetcher> fetcher) {
  std::string kinds;
  for (const RemoteRow& row : kRemoteSources) {
    if (row.kind == source.kind) return row.open(source, std::move(fetcher));
    kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", row.kind);
  }
  throw_invalid("{}: a dataset behind a URL is one of {}; got \"{}\"", source.url, kinds,
                source.kind);
}

std::optional<RemoteStats> remote_stats(const Dataset& dataset) {
  std::set<const Fetcher*> seen;
  std::set<std::string> folders;
  RemoteStats all;
  for (const RemotePart& part : remote_parts(dataset)) {
    const Fetcher& fetcher = *part.dataset.fetcher();
    if (!seen.insert(&fetcher).second) continue;
    const RemoteStats one = fetcher.stats();
    all.fetched += one.fetched;
    all.fetched_bytes += one.fetched_bytes;
    all.hits += one.hits;
    all.waits += one.waits;
    all.wait_seconds += one.wait_seconds;
    all.retries += one.retries;
    all.failures += one.failures;
    all.evicted += one.evicted;
    // A limit is of a folder, whose files may be of all of them.
    if (folders.insert(fetcher.folder()).second) all.limit_bytes += one.limit_bytes;
  }
  if (seen.empty()) return std::nullopt;
  return all;
}

}  // namespace stretto::data
