// What a dataset holds, whatever it is stored in: a table of samples that is opened, not read. The
// bytes of a sample are read by the loader (reader.h) when it needs them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stretto::data {

// Where the bytes of a sample are, and what is known of them without reading them.
struct Sample {
  uint32_t container = 0;  // which file: Dataset::container_path()
  uint64_t offset = 0;     // in it, in bytes
  // In bytes. 0: up to the end of the file, whose size is not known yet; only where each sample is
  // a file of its own.
  uint64_t length = 0;
  int64_t label = -1;             // -1: it has none
  int32_t width = 0, height = 0;  // of the picture as stored; 0: not known
  // Bytes before `offset` in the container that are a restart table (formats/pack.md); 0: none.
  uint32_t restart_bytes = 0;
  // Bytes of a pack behind the picture that are its details (details.h); 0: none.
  uint32_t details_bytes = 0;
};

// A thing that is marked in a picture, in pixels of the picture as it is to be seen.
struct Annotation {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  int64_t label = -1;
};

class Fetcher;  // fetcher.h

// A file behind a URL, as far as it is known before it is fetched.
struct RemoteFile {
  static constexpr uint64_t kUnknown = UINT64_MAX;
  std::string url;
  uint64_t bytes = kUnknown;
  // Of what the store says of the file's state, such as an ETag: another one for another state. 0:
  // not known.
  uint64_t version = 0;
};

// Samples that come from one source of a dataset that concat() made of several.
struct Part {
  std::string source;
  int64_t begin = 0, size = 0;
};

class Dataset;

// A sample whose files come from behind a URL, as a sample of the dataset that was opened there.
struct RemoteSample {
  const Dataset* dataset;
  int64_t index;
};

// Immutable, safe for all threads, cheap to copy. Open files are not kept. The table may lie in a
// file that lies: whatever is given was checked, else FormatError names the source.
class Dataset {
 public:
  struct Table;  // index.h
  explicit Dataset(std::shared_ptr<const Table> table);

  int64_t size() const;
  Sample sample(int64_t index) const;  // 0 <= index < size(), else InvalidArgument
  // As a person finds it again: a path below the source, or CONTAINER:MEMBER.
  std::string name(int64_t index) const;
  std::string_view container_path(uint32_t container) const;
  // Whether a sample is a file of its own, as in folders. Sample::container means nothing then.
  bool one_file_each(int64_t index) const;
  bool one_file_each() const;  // all of them
  bool has_own_files() const;  // at least one may be
  // The file that a sample's bytes are in, whatever the source is.
  std::string path(int64_t index) const;
  // Through which the files come that path() names, where they are URLs; else nullptr, and for what
  // concat() made of several: then each of its remote_parts() has one.
  const std::shared_ptr<Fetcher>& fetcher() const;
  // Where a sample's files are fetched: itself if this has a fetcher(), or the dataset that it
  // comes from. Nothing: its files are local. Valid as long as this dataset.
  std::optional<RemoteSample> remote(int64_t index) const;
  // Files are containers or, where each sample has one of its own, as many as samples.
  int64_t files() const;
  // Of its label map, which is a file of its own behind a URL. The number of a sample's own file is
  // file_of().
  int64_t mask_file(int64_t index) const { return size() + index; }
  RemoteFile remote_file(int64_t file) const;  // 0 <= file < files()
  std::span<const Annotation> annotations(int64_t index) const;
  // Names of the labels 0 to n - 1; empty if the source has none.
  const std::vector<std::string>& class_names() const;
  // Where the label map of a sample's pixels is, a PNG file; empty: it has none, or its details
  // are.
  std::string mask_path(int64_t index) const;
  // What is known of the sample's things beside their boxes (details.h); empty: nothing, or it lies
  // in the pack behind the picture.
  std::span<const std::byte> details(int64_t index) const;
  bool has_masks_beside() const;  // some samples have a mask_path()
  bool has_annotations() const;   // any sample has a box
  bool has_details() const;       // any sample has outlines or a label map
  // "folder", "segmentation", "list", "tar", "tfrecord", "coco", "pack", or "concat" of several.
  std::string_view kind() const;
  const std::string& source() const;
  // The sources that it was made of by concat(), in their order; else one.
  std::vector<Part> parts() const;
  // Of names and labels: tells datasets apart whose order of samples would be another. A pack has
  // that of what it was made from.
  uint64_t fingerprint() const;
  const Table& table() const { return *table_; }

 private:
  friend Dataset concat(std::span<const Dataset> datasets);
  std::shared_ptr<const Table> table_;
};

// Of a dataset's samples, those from `begin` on, as many as `dataset` has, lie behind its URL.
struct RemotePart {
  int64_t begin = 0;
  Dataset dataset;
};
// Which of its files() a sample of a dataset that has a fetcher() is in.
int64_t file_of(const Dataset& dataset, int64_t index);
// In the order of samples; empty: all are local.
std::vector<RemotePart> remote_parts(const Dataset& dataset);

// A row of the list of what is read, in sources.cc.
struct SourceRow {
  std::string_view kind;
  std::string_view means;  // for --help and errors: "a folder with a folder of pictures per class"
  bool (*matches)(const std::string& source);
  Dataset (*open)(const std::string& source);
};
std::span<const SourceRow> sources();

// The samples of all datasets, one dataset behind the other. Takes about 100 bytes of memory per
// sample, also where an index was mapped.
//
// Labels are told apart by the names of their classes. Where all lists of names are the same, they
// stay; else the numbers of the first dataset with names stay, and names that it lacks get the next
// numbers in the order in which they come. Where no dataset has names, labels stay as they are.
// Throws InvalidArgument if one has names and another has labels that are bare numbers, or if lists
// differ and one has a name twice.
Dataset concat(std::span<const Dataset> datasets);

// Throws InvalidArgument with the list of what is read if no row matches, FormatError naming the
// file and the line, member or record that is wrong. `kind` forces a row; empty: the first match.
Dataset open_dataset(const std::string& source, std::string_view kind = {});

}  // namespace stretto::data
