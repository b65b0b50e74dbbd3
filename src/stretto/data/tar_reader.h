// The members of a tar archive and where their bytes are: ustar, the long names of GNU and of pax.
#pragma once

#include <cstdint>
#include <string>

#include "stretto/data/read_file.h"

namespace stretto::data {

class TarReader {
 public:
  struct Member {
    std::string name;
    uint64_t offset = 0, length = 0;
    int64_t archive = 0;  // rises where another archive begins in the file
  };

  // Throws FormatError if the file cannot be opened. It is `name` in errors.
  TarReader(const std::string& path, const std::string& name);

  // The next regular file; others are passed over, as is the end of an archive that another one
  // follows (cat a.tar b.tar). False at the end of the last archive; what else follows it is not
  // read, with a warning. Throws FormatError with the offset of a header that is none, or whose
  // member ends behind the file.
  bool next(Member& member);
  // The content of a small member. Throws FormatError if it has more than `most` bytes.
  std::string read(const Member& member, uint64_t most) const;

 private:
  struct Header;
  bool read_header(Header& header);
  static bool is_compressed(const Header& header);
  std::string extension(const Header& header, uint64_t size);
  void apply_pax(std::string_view records);

  ReadFile file_;
  uint64_t at_ = 0, header_at_ = 0;
  int64_t archive_ = 0;
  // From extended headers, for the next member.
  std::string long_name_;
  uint64_t long_size_ = 0;
  bool has_long_name_ = false, has_long_size_ = false;
};

// Says that an archive has to be decompressed first.
[[noreturn]] void throw_compressed(const std::string& path);

}  // namespace stretto::data
