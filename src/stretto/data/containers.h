// Sources that are files of many samples each.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/data/index.h"

namespace stretto::data {

// A sample that was found in a container.
struct Found {
  std::string name;  // in it
  uint64_t offset = 0, length = 0;
  int64_t label = -1;
  std::string label_name;  // instead of `label`; empty: none
};

using IsContainerName = bool (*)(std::string_view name);

// Whether `source` is such a file, a pattern of them, or a folder that has such files and neither
// pictures nor folders.
bool names_containers(const std::string& source, IsContainerName is_name);

// The paths or URLs that a pattern stands for, "{000..012}" being the numbers 000, 001, ..., 012;
// one without such braces stands for itself. Throws InvalidArgument as list_containers() does.
std::vector<std::string> expand_braces(const std::string& pattern);

// The files: `source` itself; those that lie in the folder, in the order of their names; or what
// the pattern stands for. Throws FormatError if
// there are none, InvalidArgument for a pattern that is none or stands for more than a million.
std::vector<std::string> list_containers(const std::string& source, IsContainerName is_name);

// Where containers behind URLs come from; nothing for local ones.
struct RemoteContainers {
  std::shared_ptr<Fetcher> fetcher;
  std::vector<RemoteState> states;  // of each, or none
};

// The dataset of all samples that `find` gives for each file, in order; several files are read at
// the same time. A sample is called FILE:NAME, with FILE below the folder of a pattern's braces.
Dataset open_containers(const std::string& source, std::string_view kind,
                        const std::vector<std::string>& files,
                        const std::function<std::vector<Found>(const std::string& file)>& find,
                        RemoteContainers remote = {});

}  // namespace stretto::data
