// The table behind a Dataset: columns of plain numbers in one piece of memory, which is the heap or
// a mapped file, so that millions of samples are no objects.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/data/dataset.h"

namespace stretto::data {

// More bytes than this are no picture, and are refused: a damaged index does not take the memory.
// The largest shard of a pack.
constexpr uint64_t kLargestSample = uint64_t{1} << 30;

// As in the index of a pack (docs/formats/pack.md): fixed size, little-endian, no padding.
struct Record {
  uint64_t offset = 0, length = 0;
  int64_t label = -1;
  uint64_t name_end = 0;  // in `names`; it begins where the record's before ends
  uint32_t container = 0;
  uint32_t annotation_end = 0;  // in `annotations`, likewise
  int32_t width = 0, height = 0;
  uint32_t restart_bytes = 0;
  uint32_t details_bytes = 0;
};
static_assert(sizeof(Record) == 56);

// What is known of a file behind a URL: RemoteFile without its name.
struct RemoteState {
  uint64_t bytes = RemoteFile::kUnknown, version = 0;
};

// What a container is, in a dataset that concat() made.
enum class ContainerIs : uint8_t {
  kFile,    // of several samples
  kFolder,  // of files of one sample each, whose paths are the folder's + "/" + name
  kMasked,  // the same, with masks: see Table::masks_beside
};

struct Dataset::Table {
  std::string source;
  std::string_view kind;
  std::vector<std::string> class_names;
  std::vector<std::string> containers;  // paths
  // Containers that are files of one sample each, as in folders: the path is this + "/" + name, or
  // the name where that is absolute, and Record::container is not used. Empty: `containers` counts.
  std::string one_file_each_below;
  // Of such files: the label map of images/NAME.EXT is masks/NAME.png.
  bool masks_beside = false;
  std::vector<ContainerIs> container_kinds;  // of concat(), one for each container; else empty
  std::vector<Part> parts;                   // likewise
  std::vector<RemotePart> remote_parts;      // likewise, of those that have a fetcher
  std::span<const Record> records;
  std::string_view names;
  std::span<const Annotation> annotations;
  std::span<const std::byte> details;     // of all samples, one behind the other
  std::span<const uint64_t> detail_ends;  // of each sample; empty: there are none
  uint64_t fingerprint = 0;
  std::shared_ptr<const void> keep;  // what they lie in
  std::shared_ptr<Fetcher> fetcher;  // nullptr: the files are local
  std::vector<RemoteState> states;   // of its files; empty: nothing is known
};

// Dataset::fingerprint() of these columns.
uint64_t fingerprint_of(std::span<const Record> records, std::string_view names);

// Collects samples and makes the table of them.
class TableBuilder {
 public:
  // `record` without name_end and annotation_end.
  void add(std::string_view name, Record record, std::span<const Annotation> annotations = {},
           std::span<const std::byte> details = {});
  // Every label n >= 0 of samples and annotations becomes labels[n].
  void relabel(std::span<const int64_t> labels);
  int64_t size() const { return static_cast<int64_t>(memory_->records.size()); }
  Dataset::Table& table() { return table_; }  // everything but what add() collects
  std::shared_ptr<const Dataset::Table> take() &&;

 private:
  struct Memory {
    std::vector<Record> records;
    std::string names;
    std::vector<Annotation> annotations;
    std::vector<std::byte> details;
    std::vector<uint64_t> detail_ends;
  };
  Dataset::Table table_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

}  // namespace stretto::data
