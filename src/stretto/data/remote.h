// Datasets behind URLs. Whoever knows the store says which files there are; a Fetcher gets them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/data/dataset.h"
#include "stretto/data/fetcher.h"

namespace stretto::data {

struct RemoteSource {
  std::string url;  // of the file or folder, or a pattern of URLs, as open_dataset() takes paths
  // "tar" and "tfrecord": `files` are the shards, in order; expand_braces() (containers.h) makes
  // them of a pattern.
  // "pack": its index, of the URL `url`/index, and its shards as far as something is known of them.
  // "list": the list; no file: `url` is the path of a local one whose every path is a URL. "coco":
  // the file of instances. "folder": all files below `url`; others than pictures do not matter.
  std::string kind;
  std::vector<RemoteFile> files;
  std::vector<std::string> folders;  // of "folder": those below `url`, of which some may be empty
};

// The dataset that open_dataset() makes of the same files in a local folder: the same names, labels
// and order. Lists and indexes come through the fetcher meanwhile, as do whole shards of tar and
// TFRecord the first time: which samples they have is kept beside the cache. Throws what
// open_dataset() and Fetcher::open() throw.
Dataset open_remote(const RemoteSource& source, std::shared_ptr<Fetcher> fetcher);

// Of all fetchers of a dataset together; nothing: its files are local.
std::optional<RemoteStats> remote_stats(const Dataset& dataset);

}  // namespace stretto::data
