#include "npz.h"

#include <minizip/unzip.h>
#include <minizip/zip.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "npy.h"
#include "stretto/base/file.h"

namespace stretto::cli {
namespace {

constexpr std::string_view kSuffix = ".npy";

struct Unzip {
  explicit Unzip(const std::string& path) : handle(unzOpen64(path.c_str())) {}
  ~Unzip() {
    if (handle) unzClose(handle);
  }
  unzFile handle;
};

// zlib checks the CRC when an entry that was read to its end is closed.
std::string read_entry(unzFile zip, uint64_t size, const std::string& label) {
  if (unzOpenCurrentFile(zip) != UNZ_OK) {
    throw FormatError(label, -1, "npz: this entry is encrypted, or compressed in an unknown way");
  }
  std::string content;
  // Grows as data really arrives: the size in the file is only a claim.
  constexpr size_t kChunk = size_t{1} << 20;
  int got = 0;
  do {
    const size_t have = content.size();
    content.resize(have + kChunk);
    got = unzReadCurrentFile(zip, content.data() + have, static_cast<unsigned>(kChunk));
    content.resize(have + static_cast<size_t>(std::max(got, 0)));
  } while (got > 0 && content.size() <= size);
  const int closed = unzCloseCurrentFile(zip);
  if (got < 0 || closed != UNZ_OK || content.size() != size) {
    throw FormatError(label, -1, "npz: this entry is damaged");
  }
  return content;
}

}  // namespace

std::map<std::string, Tensor> read_npz(const std::string& path) {
  MappedFile::open(path);  // the message of a missing file says why
  Unzip zip(path);
  if (!zip.handle) throw FormatError(path, -1, "not an .npz file: it is not a zip archive");
  std::map<std::string, Tensor> tensors;
  for (int at = unzGoToFirstFile(zip.handle); at == UNZ_OK; at = unzGoToNextFile(zip.handle)) {
    unz_file_info64 info{};
    char name[4096] = {};
    if (unzGetCurrentFileInfo64(zip.handle, &info, name, sizeof name - 1, nullptr, 0, nullptr, 0) !=
        UNZ_OK) {
      throw FormatError(path, -1, "npz: the directory of the archive is damaged");
    }
    std::string key = name;
    const std::string label = path + ":" + key;
    const std::string content = read_entry(zip.handle, info.uncompressed_size, label);
    if (key.ends_with(kSuffix)) key.resize(key.size() - kSuffix.size());
    tensors[key] = parse_npy(std::as_bytes(std::span(content)), label);
  }
  return tensors;
}

void write_npz(const std::string& path,
               const std::vector<std::pair<std::string, Tensor>>& tensors) {
  const std::string temporary = path + ".part";
  zipFile zip = zipOpen64(temporary.c_str(), APPEND_STATUS_CREATE);
  if (!zip) {
    const int code = errno;
    throw FormatError(path, -1, fmt::format("cannot create: {}", std::strerror(code)), code);
  }
  bool good = true;
  for (const auto& [name, tensor] : tensors) {
    const std::string bytes = npy_bytes(tensor);
    zip_fileinfo info{};
    info.tmz_date = {.tm_mday = 1, .tm_mon = 0, .tm_year = 1980};  // the same bytes every time
    constexpr int kStored = 0, kZip64 = 1;
    good = good && zipOpenNewFileInZip64(zip, (name + std::string(kSuffix)).c_str(), &info, nullptr,
                                         0, nullptr, 0, nullptr, kStored, 0, kZip64) == ZIP_OK;
    for (size_t at = 0; good && at < bytes.size();) {
      const size_t part = std::min(bytes.size() - at, size_t{1} << 30);
      good = zipWriteInFileInZip(zip, bytes.data() + at, static_cast<unsigned>(part)) == ZIP_OK;
      at += part;
    }
    good = good && zipCloseFileInZip(zip) == ZIP_OK;
  }
  good = zipClose(zip, nullptr) == ZIP_OK && good;
  if (!good || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    throw FormatError(path, -1, "cannot be written (is the disk full?)");
  }
}

Tensor read_npy(const std::string& path) {
  return parse_npy(MappedFile::open(path)->bytes(), path);
}

}  // namespace stretto::cli
