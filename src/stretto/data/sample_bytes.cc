#include "stretto/data/sample_bytes.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "stretto/data/details.h"
#include "stretto/data/fetcher.h"
#include "stretto/data/read_file.h"

namespace stretto::data {

namespace {

void read_bytes_of(const ReadFile& file, uint64_t offset, uint64_t length,
                   std::vector<std::byte>& bytes) {
  const std::string& path = file.path();
  const uint64_t size = file.size();
  if (offset > size || length > size - offset) {
    throw FormatError(
        path, static_cast<int64_t>(size),
        fmt::format("expected {} bytes from {}, but the file ends here", length, offset));
  }
  if (length == 0) length = size - offset;
  if (length > kLargestSample) {
    throw FormatError(
        path, -1,
        fmt::format("{} bytes are more than a picture may have ({})", length, kLargestSample));
  }
  bytes.resize(length);
  file.read(offset, bytes);
}

}  // namespace

void read_bytes(const std::string& path, uint64_t offset, uint64_t length,
                std::vector<std::byte>& bytes) {
  read_bytes_of(ReadFile(path), offset, length, bytes);
}

LocalPath local_path(const Dataset& dataset, int64_t index) {
  const auto remote = dataset.remote(index);
  if (!remote) return {.path = dataset.path(index), .keep = nullptr};
  const Dataset& from = *remote->dataset;
  auto cached = from.fetcher()->open(from.remote_file(file_of(from, remote->index)));
  return {.path = cached->path(), .keep = std::move(cached)};
}

void read_sample(const Dataset& dataset, int64_t index, std::vector<std::byte>& bytes) {
  const Sample sample = dataset.sample(index);
  const uint64_t before = sample.restart_bytes;
  const LocalPath local = local_path(dataset, index);
  read_bytes_of(ReadFile(local.path, dataset.path(index)), sample.offset - before,
                sample.length == 0 ? 0 : sample.length + before, bytes);
}

std::vector<std::byte> read_details(const Dataset& dataset, int64_t index) {
  const auto known = dataset.details(index);
  if (!known.empty()) return {known.begin(), known.end()};
  std::vector<std::byte> bytes;
  if (const std::string mask = dataset.mask_path(index); !mask.empty()) {
    if (const auto remote = dataset.remote(index)) {
      const Dataset& from = *remote->dataset;
      const auto cached = from.fetcher()->open(from.remote_file(from.mask_file(remote->index)));
      read_bytes_of(ReadFile(cached->path(), mask), 0, 0, bytes);
    } else {
      read_bytes(mask, 0, 0, bytes);
    }
    bytes.insert(bytes.begin(), static_cast<std::byte>(kMaskAlone));
    return bytes;
  }
  const Sample sample = dataset.sample(index);
  if (sample.details_bytes == 0) return bytes;
  if (sample.details_bytes > kLargestDetails) {
    throw FormatError(dataset.path(index), -1,
                      fmt::format("sample {}: its details have {} bytes, expected at most {}",
                                  dataset.name(index), sample.details_bytes, kLargestDetails));
  }
  const LocalPath local = local_path(dataset, index);
  read_bytes_of(ReadFile(local.path, dataset.path(index)), sample.offset + sample.length,
                sample.details_bytes, bytes);
  return bytes;
}

bool is_of_the_sample(const FormatError& e, const Dataset& dataset, int64_t index) {
  if (e.code() == 0) return true;
  if (!dataset.one_file_each(index)) return false;
  if (dataset.remote(index)) return e.code() == ENOENT;
  const std::string mask = dataset.mask_path(index);
  const bool of_mask = !mask.empty() && e.file() == mask;
  const auto folder = std::filesystem::path(of_mask ? mask : dataset.path(index)).parent_path();
  std::error_code problem;
  switch (e.code()) {
    case ENOENT:
      return !std::filesystem::is_empty(folder, problem) && !problem;
    case EACCES:
    case EPERM:
      return ::access(folder.c_str(), R_OK | X_OK) == 0;
    case ELOOP:
    case ENAMETOOLONG:
    case ENOTDIR:
      return true;
    default:
      return false;
  }
}

std::string describe_sample(const Dataset& dataset, int64_t index) {
  if (dataset.one_file_each(index)) return dataset.path(index);
  return fmt::format("{}: {}", dataset.source(), dataset.name(index));
}

}  // namespace stretto::data
