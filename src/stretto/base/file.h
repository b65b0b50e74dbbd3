// Files: whole-file reads, memory maps, and writes that never leave half a file behind.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace stretto {

// A read-only memory map of a whole file. The bytes stay valid while any copy of the pointer lives.
class MappedFile {
 public:
  // Throws FormatError naming the file when it cannot be opened or mapped.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // Hints about a part of bytes(). read_ahead: all of it is about to be read, one call instead of a
  // fault per page. let_go: it takes no memory of this process until it is read again.
  void read_ahead(std::span<const std::byte> part) const;
  void let_go(std::span<const std::byte> part) const;

  const std::string& path() const { return path_; }

 private:
  MappedFile() = default;
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Throws FormatError naming the file.
std::string read_file(const std::string& path);

// Writes to a temporary name beside `path` and renames it, so readers see the old file or the new
// one. Links stay: the file that they lead to is replaced. A device or a pipe stays too: the
// content is written to it. Throws FormatError naming the file; a folder that is missing is not
// made. An interrupt (base/interrupt.h) during a long write ends it and leaves the old file.
void write_file(const std::string& path, std::string_view content);

// The same with the pieces one behind the other, which need not lie together in memory.
void write_file(const std::string& path, std::span<const std::string_view> pieces);

// For a process that a signal ends now: removes what other threads of it are writing. Every later
// write_file() waits for ever.
void remove_unfinished_files();

// Throws what write_file() would throw if it cannot write to `path` now: to be called before long
// work whose result goes there. Leaves no file, and writes nothing to a device or a pipe.
void check_writable(const std::string& path);

// Whether both paths lead to the same file, by any link, or would if it existed.
bool same_file(const std::string& a, const std::string& b);

// The folder for what is kept between runs: $STRETTO_CACHE_DIR, else $XDG_CACHE_HOME/stretto, else
// ~/.cache/stretto. Not created.
std::string cache_directory();

}  // namespace stretto
