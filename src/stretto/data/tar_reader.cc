#include "stretto/data/tar_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/log.h"

namespace stretto::data {
namespace {

constexpr uint64_t kBlock = 512, kEndBlocks = 2;
constexpr uint64_t kLongestExtension = uint64_t{1} << 20;

template <size_t N>
std::string_view text_until_zero(const char (&field)[N]) {
  return {field, static_cast<size_t>(std::find(field, field + N, '\0') - field)};
}

// Octal digits, with spaces or zero bytes around them; or, where the first bit is set, big-endian
// bytes (GNU). False if it is neither or too large.
template <size_t N>
bool read_number(const char (&field)[N], uint64_t& number) {
  number = 0;
  if (static_cast<uint8_t>(field[0]) == 0x80) {
    for (size_t i = 1; i < N; ++i) {
      if (number >> 55 != 0) return false;
      number = number << 8 | static_cast<uint8_t>(field[i]);
    }
    return true;
  }
  const char *at = field, *const end = field + N;
  while (at != end && *at == ' ') ++at;
  for (; at != end && *at >= '0' && *at <= '7'; ++at) number = number * 8 + (*at - '0');
  return std::all_of(at, end, [](char c) { return c == ' ' || c == '\0'; });
}

}  // namespace

struct TarReader::Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8];
  char type;
  char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155];
  char padding[12];

  bool is_zero() const {
    const auto* bytes = reinterpret_cast<const char*>(this);
    return std::all_of(bytes, bytes + sizeof *this, [](char c) { return c == 0; });
  }
  // The sum of all bytes, the checksum's own as spaces.
  uint64_t sum() const {
    const auto* bytes = reinterpret_cast<const uint8_t*>(this);
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof *this; ++i) {
      const bool own = i >= offsetof(Header, checksum) && i < offsetof(Header, type);
      sum += own ? ' ' : bytes[i];
    }
    return sum;
  }
  std::string full_name() const {
    const std::string_view short_name = text_until_zero(name);
    const bool posix = std::memcmp(magic, "ustar\0", 6) == 0;
    const std::string_view before = posix ? text_until_zero(prefix) : std::string_view();
    return before.empty() ? std::string(short_name) : fmt::format("{}/{}", before, short_name);
  }
};

// By gzip, zstd, xz or bzip2.
bool TarReader::is_compressed(const Header& header) {
  const std::string_view begin(reinterpret_cast<const char*>(&header), 6);
  return begin.starts_with("\x1F\x8B") || begin.starts_with("\x28\xB5\x2F\xFD") ||
         begin.starts_with(
             "\xFD"
             "7zXZ") ||
         begin.starts_with("BZh");
}

void throw_compressed(const std::string& path) {
  throw FormatError(path, -1,
                    "the archive is compressed, so that no member can be read without those before "
                    "it: decompress it to a .tar file, which for pictures is hardly any larger");
}

TarReader::TarReader(const std::string& path, const std::string& name) : file_(path, name) {
  static_assert(sizeof(Header) == kBlock);
}

bool TarReader::read_header(Header& header) {
  // Blocks of zeros are the archive's end, up to the next header if another archive follows.
  uint64_t zeros = 0;
  for (;; ++zeros) {
    check_interrupt();
    header_at_ = at_;
    if (at_ == file_.size()) return false;
    const uint64_t size = std::min(kBlock, file_.size() - at_);
    header = {};
    file_.read(at_, std::as_writable_bytes(std::span(&header, 1)).first(size));
    at_ += size;
    if (header.is_zero() && (size == kBlock || zeros > 0)) continue;
    uint64_t sum = 0;
    if (size == kBlock && read_number(header.checksum, sum) && sum == header.sum()) break;
    if (zeros >= kEndBlocks) {
      log_message(LogLevel::kWarning,
                  fmt::format("{} (byte {}): what follows the archive's end is no archive, and is "
                              "not read",
                              file_.path(), header_at_));
      at_ = file_.size();
      return false;
    }
    if (header_at_ == 0 && is_compressed(header)) throw_compressed(file_.path());
    throw FormatError(file_.path(), static_cast<int64_t>(header_at_),
                      size < kBlock ? "the archive ends in a header"
                                    : "expected the header of a tar member: its checksum is wrong");
  }
  if (zeros > 0) {
    ++archive_;
    has_long_name_ = has_long_size_ = false;
  }
  return true;
}

bool TarReader::next(Member& member) {
  for (;;) {
    Header header;
    if (!read_header(header)) return false;
    uint64_t size = 0;
    if (!read_number(header.size, size)) {
      throw FormatError(file_.path(), static_cast<int64_t>(header_at_), "the size is no number");
    }
    const bool extends = std::strchr("LKxg", header.type) != nullptr && header.type != '\0';
    if (!extends && has_long_size_) size = long_size_;
    if (size > file_.size() - at_) {
      throw FormatError(file_.path(), static_cast<int64_t>(header_at_),
                        fmt::format("the archive ends in member {}, which has {} bytes",
                                    header.full_name(), size));
    }
    const uint64_t begin = at_;
    if (extends) {
      const std::string text = extension(header, size);
      if (header.type == 'L') {
        long_name_ = text.substr(0, text.find('\0'));
        has_long_name_ = true;
      } else if (header.type == 'x') {
        apply_pax(text);
      }
      at_ = std::min(begin + (size + kBlock - 1) / kBlock * kBlock, file_.size());
      continue;
    }
    // What lies in the archive is rounded up to blocks; the last one may be cut.
    at_ = std::min(begin + (size + kBlock - 1) / kBlock * kBlock, file_.size());
    member.name = has_long_name_ ? std::move(long_name_) : header.full_name();
    has_long_name_ = has_long_size_ = false;
    if (header.type == 'S') {
      throw FormatError(file_.path(), static_cast<int64_t>(header_at_),
                        fmt::format("member {} is sparse, which is not read", member.name));
    }
    if (header.type != '0' && header.type != '\0' && header.type != '7') continue;
    if (member.name.ends_with('/')) continue;  // a folder, in archives of old
    member.archive = archive_;
    member.offset = begin;
    member.length = size;
    return true;
  }
}

std::string TarReader::extension(const Header& header, uint64_t size) {
  if (header.type != 'L' && header.type != 'x') return "";
  if (size > kLongestExtension) {
    throw FormatError(file_.path(), static_cast<int64_t>(header_at_),
                      fmt::format("an extended header of {} bytes; expected {} at most", size,
                                  kLongestExtension));
  }
  std::string text(size, '\0');
  file_.read(at_, std::as_writable_bytes(std::span(text)));
  return text;
}

// Records "LENGTH KEY=VALUE\n" (POSIX, pax).
void TarReader::apply_pax(std::string_view records) {
  const auto fail = [&] {
    throw FormatError(file_.path(), static_cast<int64_t>(header_at_), "the pax header is damaged");
  };
  while (!records.empty()) {
    size_t length = 0;
    const char* const end = records.data() + records.size();
    const auto [rest, problem] = std::from_chars(records.data(), end, length);
    const auto digits = static_cast<size_t>(rest - records.data());
    if (problem != std::errc() || length > records.size() || length < digits + 3 || *rest != ' ' ||
        records[length - 1] != '\n') {
      fail();
    }
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    records.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == record.npos) fail();
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") {
      long_name_ = value;
      has_long_name_ = true;
    } else if (key == "size") {
      const auto [stop, wrong] =
          std::from_chars(value.data(), value.data() + value.size(), long_size_);
      if (wrong != std::errc() || stop != value.data() + value.size()) fail();
      has_long_size_ = true;
    } else if (key.starts_with("GNU.sparse.")) {
      throw FormatError(file_.path(), static_cast<int64_t>(header_at_),
                        "a member is sparse, which is not read");
    }
  }
}

std::string TarReader::read(const Member& member, uint64_t most) const {
  if (member.length > most) {
    throw FormatError(file_.path(), static_cast<int64_t>(member.offset),
                      fmt::format("member {} has {} bytes; expected {} at most", member.name,
                                  member.length, most));
  }
  std::string text(member.length, '\0');
  file_.read(member.offset, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace stretto::data
