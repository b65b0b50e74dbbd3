#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/data/coco.h"
#include "stretto/data/dataset.h"
#include "stretto/data/folder.h"
#include "stretto/data/list.h"
#include "stretto/data/pack.h"
#include "stretto/data/segmentation.h"
#include "stretto/data/tar.h"
#include "stretto/data/tfrecord.h"

namespace stretto::data {
namespace {

// The first that matches is taken.
constexpr SourceRow kSources[] = {
    {"pack", "a folder that `stretto pack` wrote", is_pack, open_pack},
    {"list", "a .csv or .jsonl file of paths and labels", is_list, open_list},
    {"coco", "the instances_*.json of COCO, near its pictures", is_coco, open_coco},
    {"tar", "a .tar file in WebDataset's form, a folder of them, or shard-{000..012}.tar", is_tar,
     open_tar},
    {"tfrecord", "a .tfrecord file of tf.train.Example, a folder of them, or a pattern as of tar",
     is_tfrecord, open_tfrecord},
    {"segmentation", "a folder with the folders images and masks, PNG files of classes",
     is_segmentation, open_segmentation},
    {"folder", "a folder with a folder of pictures per class, or with pictures alone", is_folder,
     open_folder},
};

std::string list_of_sources() {
  std::string text;
  for (const SourceRow& row : kSources) text += fmt::format("\n  {}: {}", row.kind, row.means);
  return text;
}

}  // namespace

std::span<const SourceRow> sources() { return kSources; }

Dataset open_dataset(const std::string& source, std::string_view kind) {
  if (source.empty()) throw_invalid("open_dataset: expected a path, got an empty string");
  if (source.find("://") != source.npos && ::access(source.c_str(), F_OK) != 0) {
    throw_unsupported(
        "{}: URLs are opened by stretto.data.open() and ImageLoader in Python, or by open_remote() "
        "with a store of your own in C++",
        source);
  }
  const auto* row = std::find_if(std::begin(kSources), std::end(kSources), [&](const SourceRow& r) {
    return kind.empty() ? r.matches(source) : r.kind == kind;
  });
  if (row != std::end(kSources)) return row->open(source);
  if (kind.empty()) {
    if (::access(source.c_str(), F_OK) != 0) {
      const int code = errno;
      throw FormatError(source, -1, fmt::format("cannot open: {}", std::strerror(code)), code);
    }
    throw_invalid("{}: not a dataset; expected one of{}", source, list_of_sources());
  }
  throw_invalid("{}: there is no kind of dataset \"{}\"; expected one of{}", source, kind,
                list_of_sources());
}

}  // namespace stretto::data
