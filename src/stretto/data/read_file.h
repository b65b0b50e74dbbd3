// A file of which parts are read.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace stretto::data {

class ReadFile {
 public:
  // Throws FormatError naming the file if it cannot be opened or is no regular file. A pipe is not
  // waited for.
  explicit ReadFile(const std::string& path);
  // The same of a file that lies at `path`, and is `name` in errors.
  ReadFile(const std::string& path, std::string name);
  ~ReadFile();
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  // Fills `bytes`. Throws FormatError if the file ends before.
  void read(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  [[noreturn]] void fail(std::string_view action) const;

  std::string path_;
  int fd_;
  uint64_t size_ = 0;
};

}  // namespace stretto::data
