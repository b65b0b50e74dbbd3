#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/details.h"
#include "stretto/data/pack.h"
#include "stretto/data/pack_format.h"
#include "stretto/data/sample_bytes.h"
#include "stretto/data/segmentation.h"

namespace stretto::data {
namespace {

namespace fs = std::filesystem;

// Of the details of a sample; empty: it has none, or it is not written.
std::string mask_of(const Dataset& dataset, int64_t index, std::string_view name) {
  if (dataset.sample(index).details_bytes == 0 || !name.starts_with("images/")) return {};
  const std::vector<std::byte> details = read_details(dataset, index);
  const media::Bytes mask = decode_details(details).mask;
  return {reinterpret_cast<const char*>(mask.data()), mask.size()};
}

// Two samples of one name have to be the same picture, as the same file may be listed twice; two
// whose label maps have one name, the same map.
void check_names(const std::string& path, const std::string& out, const Dataset& dataset,
                 const PackIndex& index) {
  std::unordered_map<std::string, uint64_t> checksums;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    check_interrupt();
    const std::string name = dataset.name(i);
    if (!can_be_unpacked(name)) {
      throw_invalid("{}: sample {} is called \"{}\", which is not below {}: it is not unpacked",
                    path, i, name, out);
    }
    const uint64_t checksum = index.checksums()[static_cast<size_t>(i)];
    const auto [found, added] =
        checksums.try_emplace(fs::path(name).lexically_normal().string(), checksum);
    if (!added && found->second != checksum) {
      throw_invalid("{}: two samples are called \"{}\", and are not the same: it is not unpacked",
                    path, found->first);
    }
  }
  std::unordered_map<std::string, int64_t> masks;  // the first sample of each name
  for (int64_t i = 0; i < dataset.size(); ++i) {
    check_interrupt();
    const std::string name = dataset.name(i);
    if (dataset.sample(i).details_bytes == 0 || !name.starts_with("images/")) continue;
    const std::string mask = fs::path(mask_name(name)).lexically_normal().string();
    const auto [found, added] = masks.try_emplace(mask, i);
    const bool taken = checksums.contains(mask);
    if (added && !taken) continue;
    const std::string mine = mask_of(dataset, i, name);
    if (mine.empty()) continue;
    const std::string other = mask_of(dataset, found->second, dataset.name(found->second));
    if (other.empty()) found->second = i;
    if (!taken && (other.empty() || other == mine)) continue;
    throw_invalid(
        "{}: the label map of sample {} is called \"{}\" as another file is, and is not "
        "the same: it is not unpacked",
        path, name, mask);
  }
}

void check_same(const std::string& written, std::string_view content, const std::string& sample) {
  if (read_file(written) == content) return;
  throw_invalid("{}: its file {} has been written for another sample, and is not the same", sample,
                written);
}

void make_folders(const fs::path& path) {
  std::error_code problem;
  fs::create_directories(path, problem);
  if (!problem) return;
  throw FormatError(path.string(), -1, fmt::format("cannot make the folder: {}", problem.message()),
                    problem.value());
}

}  // namespace

bool can_be_unpacked(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.back() == '/' || name.find('\0') != name.npos) {
    return false;
  }
  while (!name.empty()) {
    const size_t slash = std::min(name.find('/'), name.size());
    if (name.substr(0, slash) == "..") return false;
    name.remove_prefix(std::min(slash + 1, name.size()));
  }
  return true;
}

UnpackResult unpack(const std::string& path, const std::string& out,
                    const std::function<void(int64_t done, int64_t count)>& progress) {
  const Dataset dataset = open_pack(path);
  const PackIndex index = read_pack_index(path);
  check_names(path, out, dataset, index);
  std::error_code ignored;
  if (fs::exists(out, ignored) && !(fs::is_directory(out, ignored) && fs::is_empty(out, ignored))) {
    throw_invalid("{}: expected a folder that is empty or does not exist", out);
  }
  make_folders(out);

  UnpackResult result;
  std::vector<std::byte> bytes;
  std::string folder;
  const auto write = [&](int64_t i, const std::string& name, std::span<const std::byte> file) {
    const std::string_view content(reinterpret_cast<const char*>(file.data()), file.size());
    const std::string target = fmt::format("{}/{}", out, name);
    if (std::string parent = fs::path(target).parent_path(); parent != folder) {
      make_folders(parent);
      folder = std::move(parent);
    }
    if (fs::exists(target, ignored)) {  // it is listed twice, or A.png and a.png are one file here
      check_same(target, content, describe_sample(dataset, i));
    } else {
      write_file(target, content);
      ++result.files;
      result.bytes += content.size();
    }
  };
  for (int64_t i = 0; i < dataset.size(); ++i) {
    check_interrupt();
    read_sample(dataset, i, bytes);
    const size_t picture_end = bytes.size();
    const std::vector<std::byte> details = read_details(dataset, i);
    bytes.insert(bytes.end(), details.begin(), details.end());
    if (pack_checksum(bytes) != index.checksums()[static_cast<size_t>(i)]) {
      throw FormatError(describe_sample(dataset, i), -1, "damaged: the checksum differs");
    }
    const std::span<const std::byte> picture =
        std::span(bytes).first(picture_end).subspan(dataset.sample(i).restart_bytes);
    const std::string name = dataset.name(i);
    write(i, name, picture);
    if (!details.empty() && name.starts_with("images/")) {
      const media::Bytes mask = decode_details(details).mask;
      if (!mask.empty()) write(i, mask_name(name), mask);
    }
    if (progress) progress(i + 1, dataset.size());
  }
  return result;
}

}  // namespace stretto::data
