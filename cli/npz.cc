#include "npz.h"

#include <minizip/unzip.h>
#include <minizip/zip.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

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

// An archive in memory.
class ZipBytes {
 public:
  ZipBytes() {
    zlib_filefunc64_def calls{};
    calls.zopen64_file = [](voidpf self, const void*, int) { return self; };
    calls.zwrite_file = write;
    calls.ztell64_file = [](voidpf self, voidpf) -> ZPOS64_T { return of(self).at_; };
    calls.zseek64_file = seek;
    calls.zclose_file = [](voidpf, voidpf) { return 0; };
    calls.zerror_file = [](voidpf, voidpf) { return 0; };
    calls.opaque = this;
    zip_ = zipOpen2_64("", APPEND_STATUS_CREATE, nullptr, &calls);
  }
  ~ZipBytes() {
    if (zip_) zipClose(zip_, nullptr);
  }
  ZipBytes(const ZipBytes&) = delete;
  ZipBytes& operator=(const ZipBytes&) = delete;

  void add(const std::string& name, const std::string& content) {
    zip_fileinfo info{};
    info.tmz_date = {.tm_mday = 1, .tm_mon = 0, .tm_year = 1980};  // the same bytes every time
    constexpr int kStored = 0, kZip64 = 1;
    good_ = good_ && zip_ &&
            zipOpenNewFileInZip64(zip_, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr,
                                  kStored, 0, kZip64) == ZIP_OK;
    for (size_t at = 0; good_ && at < content.size();) {
      const size_t part = std::min(content.size() - at, size_t{1} << 30);
      good_ = zipWriteInFileInZip(zip_, content.data() + at, static_cast<unsigned>(part)) == ZIP_OK;
      at += part;
    }
    good_ = good_ && zipCloseFileInZip(zip_) == ZIP_OK;
  }

  // The archive, which is complete then.
  const std::string& finish(const std::string& path) {
    good_ = zip_ && zipClose(std::exchange(zip_, nullptr), nullptr) == ZIP_OK && good_;
    if (!good_) throw FormatError(path, -1, "the archive cannot be made");
    return bytes_;
  }

 private:
  static ZipBytes& of(voidpf self) { return *static_cast<ZipBytes*>(self); }

  static uLong write(voidpf self, voidpf, const void* data, uLong size) {
    ZipBytes& zip = of(self);
    if (zip.bytes_.size() < zip.at_ + size) zip.bytes_.resize(zip.at_ + size);
    std::memcpy(zip.bytes_.data() + zip.at_, data, size);
    zip.at_ += size;
    return size;
  }

  static long seek(voidpf self, voidpf, ZPOS64_T offset, int origin) {
    ZipBytes& zip = of(self);
    if (origin == ZLIB_FILEFUNC_SEEK_CUR) offset += zip.at_;
    if (origin == ZLIB_FILEFUNC_SEEK_END) offset += zip.bytes_.size();
    zip.at_ = offset;
    return 0;
  }

  std::string bytes_;
  size_t at_ = 0;
  zipFile zip_ = nullptr;
  bool good_ = true;
};

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
  ZipBytes zip;
  for (const auto& [name, tensor] : tensors)
    zip.add(name + std::string(kSuffix), npy_bytes(tensor));
  write_file(path, zip.finish(path));
}

Tensor read_npy(const std::string& path) {
  return parse_npy(MappedFile::open(path)->bytes(), path);
}

}  // namespace stretto::cli
