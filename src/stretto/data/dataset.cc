#include "stretto/data/dataset.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/data/index.h"
#include "stretto/data/segmentation.h"

namespace stretto::data {
namespace {

[[noreturn]] void fail_record(const Dataset::Table& table, int64_t index, std::string_view what) {
  throw FormatError(table.source, -1,
                    fmt::format("its index is damaged: {} of sample {}", what, index));
}

const Record& record_of(const Dataset::Table& table, int64_t index) {
  const auto size = static_cast<int64_t>(table.records.size());
  if (index < 0 || index >= size) {
    throw_invalid("dataset {}: expected a sample below {}, got {}", table.source, size, index);
  }
  return table.records[static_cast<size_t>(index)];
}

std::string_view name_of(const Dataset::Table& table, int64_t index) {
  const uint64_t end = record_of(table, index).name_end;
  const uint64_t begin = index == 0 ? 0 : record_of(table, index - 1).name_end;
  if (begin > end || end > table.names.size()) fail_record(table, index, "the name");
  return table.names.substr(begin, end - begin);
}

ContainerIs kind_of(const Dataset::Table& table, int64_t index) {
  if (!table.one_file_each_below.empty()) {
    return table.masks_beside ? ContainerIs::kMasked : ContainerIs::kFolder;
  }
  if (table.container_kinds.empty()) return ContainerIs::kFile;
  const uint32_t container = record_of(table, index).container;
  if (container >= table.container_kinds.size()) fail_record(table, index, "the container");
  return table.container_kinds[container];
}

const std::string& folder_of(const Dataset::Table& table, int64_t index) {
  if (!table.one_file_each_below.empty()) return table.one_file_each_below;
  return table.containers[record_of(table, index).container];
}

// -1, or one of the classes where they have names.
bool label_can_be(const Dataset::Table& table, int64_t label) {
  return label >= -1 && (table.class_names.empty() || label == -1 ||
                         static_cast<uint64_t>(label) < table.class_names.size());
}

bool annotation_can_be(const Dataset::Table& table, const Annotation& a) {
  return label_can_be(table, a.label) && std::isfinite(a.x0) && std::isfinite(a.y0) &&
         std::isfinite(a.x1) && std::isfinite(a.y1);
}

}  // namespace

Dataset::Dataset(std::shared_ptr<const Table> table) : table_(std::move(table)) {}

int64_t Dataset::size() const { return static_cast<int64_t>(table_->records.size()); }

Sample Dataset::sample(int64_t index) const {
  const Record& record = record_of(*table_, index);
  const bool own_file = one_file_each(index);
  if (record.length > UINT64_MAX - record.offset || (record.length == 0 && !own_file)) {
    fail_record(*table_, index, "the length");
  }
  if (record.restart_bytes > record.offset) fail_record(*table_, index, "the restart table");
  if (record.width < 0 || record.height < 0) fail_record(*table_, index, "the size");
  if (!label_can_be(*table_, record.label)) fail_record(*table_, index, "the label");
  if (!own_file && record.container >= table_->containers.size()) {
    fail_record(*table_, index, "the container");
  }
  return {.container = record.container,
          .offset = record.offset,
          .length = record.length,
          .label = record.label,
          .width = record.width,
          .height = record.height,
          .restart_bytes = record.restart_bytes,
          .details_bytes = record.details_bytes};
}

std::string Dataset::name(int64_t index) const { return std::string(name_of(*table_, index)); }

std::string_view Dataset::container_path(uint32_t container) const {
  if (container >= table_->containers.size()) {
    throw_invalid("dataset {}: expected a container below {}, got {}", table_->source,
                  table_->containers.size(), container);
  }
  return table_->containers[container];
}

bool Dataset::one_file_each() const {
  const auto& kinds = table_->container_kinds;
  return !table_->one_file_each_below.empty() ||
         (!kinds.empty() &&
          std::find(kinds.begin(), kinds.end(), ContainerIs::kFile) == kinds.end());
}

bool Dataset::has_own_files() const {
  const auto& kinds = table_->container_kinds;
  return !table_->one_file_each_below.empty() ||
         std::any_of(kinds.begin(), kinds.end(), [](auto k) { return k != ContainerIs::kFile; });
}

bool Dataset::one_file_each(int64_t index) const {
  return kind_of(*table_, index) != ContainerIs::kFile;
}

std::string Dataset::path(int64_t index) const {
  if (!one_file_each(index)) return std::string(container_path(sample(index).container));
  if (!table_->remote_parts.empty()) {
    if (const auto r = remote(index)) return r->dataset->path(r->index);
  }
  const std::string_view name = name_of(*table_, index);
  if (name.starts_with('/') || (table_->fetcher && name.find("://") != name.npos)) {
    return std::string(name);
  }
  return fmt::format("{}/{}", folder_of(*table_, index), name);
}

std::string Dataset::mask_path(int64_t index) const {
  if (kind_of(*table_, index) != ContainerIs::kMasked) return {};
  return fmt::format("{}/{}", folder_of(*table_, index), mask_name(name_of(*table_, index)));
}

std::span<const std::byte> Dataset::details(int64_t index) const {
  record_of(*table_, index);
  if (table_->detail_ends.empty()) return {};
  const auto i = static_cast<size_t>(index);
  const uint64_t begin = i == 0 ? 0 : table_->detail_ends[i - 1];
  return table_->details.subspan(begin, table_->detail_ends[i] - begin);
}

bool Dataset::has_annotations() const { return !table_->annotations.empty(); }

bool Dataset::has_masks_beside() const {
  const auto& kinds = table_->container_kinds;
  return table_->masks_beside ||
         std::find(kinds.begin(), kinds.end(), ContainerIs::kMasked) != kinds.end();
}

bool Dataset::has_details() const {
  // The number of a picture alone takes fewer bytes, an outline more.
  constexpr uint64_t kNumberAlone = 11;
  uint64_t begin = 0;
  for (const uint64_t end : table_->detail_ends) {
    if (end - begin > kNumberAlone) return true;
    begin = end;
  }
  return has_masks_beside() ||
         std::any_of(table_->records.begin(), table_->records.end(),
                     [](const Record& r) { return r.details_bytes > kNumberAlone; });
}

const std::shared_ptr<Fetcher>& Dataset::fetcher() const { return table_->fetcher; }

std::optional<RemoteSample> Dataset::remote(int64_t index) const {
  if (table_->fetcher != nullptr) return RemoteSample{this, index};
  const auto& parts = table_->remote_parts;
  auto part = std::upper_bound(parts.begin(), parts.end(), index,
                               [](int64_t i, const RemotePart& p) { return i < p.begin; });
  if (part == parts.begin()) return std::nullopt;
  --part;
  if (index - part->begin >= part->dataset.size()) return std::nullopt;
  return RemoteSample{&part->dataset, index - part->begin};
}

int64_t file_of(const Dataset& dataset, int64_t index) {
  return dataset.one_file_each() ? index : int64_t{dataset.sample(index).container};
}

std::vector<RemotePart> remote_parts(const Dataset& dataset) {
  if (dataset.fetcher() != nullptr) return {{.begin = 0, .dataset = dataset}};
  return dataset.table().remote_parts;
}

int64_t Dataset::files() const {
  if (!one_file_each()) return static_cast<int64_t>(table_->containers.size());
  return table_->masks_beside ? 2 * size() : size();
}

RemoteFile Dataset::remote_file(int64_t file) const {
  RemoteFile remote;
  if (!one_file_each()) {
    remote.url = container_path(static_cast<uint32_t>(file));
  } else {
    remote.url = file < size() ? path(file) : mask_path(file - size());
  }
  if (static_cast<size_t>(file) < table_->states.size()) {
    const RemoteState& state = table_->states[static_cast<size_t>(file)];
    remote.bytes = state.bytes;
    remote.version = state.version;
  }
  return remote;
}

std::span<const Annotation> Dataset::annotations(int64_t index) const {
  const uint32_t end = record_of(*table_, index).annotation_end;
  const uint32_t begin = index == 0 ? 0 : record_of(*table_, index - 1).annotation_end;
  if (begin > end || end > table_->annotations.size()) {
    fail_record(*table_, index, "the annotations");
  }
  const std::span<const Annotation> found = table_->annotations.subspan(begin, end - begin);
  if (!std::all_of(found.begin(), found.end(),
                   [&](const Annotation& a) { return annotation_can_be(*table_, a); })) {
    fail_record(*table_, index, "an annotation");
  }
  return found;
}

const std::vector<std::string>& Dataset::class_names() const { return table_->class_names; }
std::string_view Dataset::kind() const { return table_->kind; }
const std::string& Dataset::source() const { return table_->source; }

std::vector<Part> Dataset::parts() const {
  if (!table_->parts.empty()) return table_->parts;
  return {{.source = table_->source, .begin = 0, .size = size()}};
}

uint64_t Dataset::fingerprint() const { return table_->fingerprint; }

}  // namespace stretto::data
