#include "stretto/media/jpeg/markers.h"

#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto::media::jpeg {
namespace {

constexpr const char* kName = "JPEG data";

// Reads numbers of a range of bytes; whoever reads past its end gets an error.
class Reader {
 public:
  Reader(Bytes bytes, size_t begin, size_t end) : bytes_(bytes), at_(begin), end_(end) {}

  size_t at() const { return at_; }
  size_t left() const { return end_ - at_; }
  int byte() {
    if (at_ >= end_) {
      throw FormatError(kName, static_cast<int64_t>(at_), "expected more bytes in this segment");
    }
    return std::to_integer<int>(bytes_[at_++]);
  }
  int word() {
    const int high = byte();
    return high << 8 | byte();
  }
  bool starts_with(std::string_view text) const {
    return left() >= text.size() && std::memcmp(bytes_.data() + at_, text.data(), text.size()) == 0;
  }
  Bytes rest() const { return bytes_.subspan(at_, left()); }

 private:
  Bytes bytes_;
  size_t at_, end_;
};

// SOF0 to SOF15 without DHT (C4), JPG (C8) and DAC (CC), which lie between them.
bool is_frame(int marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

void read_frame(Headers& headers, int marker, Reader in) {
  const auto at = static_cast<int64_t>(in.at());
  if (headers.frame != 0) throw FormatError(kName, at, "expected one frame, found a second one");
  headers.frame = marker;
  headers.bits = in.byte();
  headers.size_at = in.at();
  headers.height = in.word();
  headers.width = in.word();
  const int count = in.byte();
  if (headers.width == 0 || headers.height == 0) {
    throw FormatError(kName, at,
                      fmt::format("expected a size, got {}x{}", headers.width, headers.height));
  }
  if (count < 1 || count > 4) {
    throw FormatError(kName, at, fmt::format("expected 1 to 4 components, got {}", count));
  }
  for (int i = 0; i < count; ++i) {
    Component c;
    c.id = in.byte();
    const int factors = in.byte();
    c.h = factors >> 4;
    c.v = factors & 15;
    c.quantisation = in.byte();
    if (c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4) {
      throw FormatError(kName, at,
                        fmt::format("expected sampling factors of 1 to 4, got {}x{}", c.h, c.v));
    }
    headers.components.push_back(c);
  }
}

void read_application(Headers& headers, int marker, Reader in) {
  using namespace std::string_view_literals;
  if (marker == 0xE0 && in.starts_with("JFIF\0"sv)) headers.jfif = true;
  if (marker == 0xE1 && in.starts_with("Exif\0"sv) && in.left() > 6) {
    headers.orientation = exif_orientation(in.rest().subspan(6));
  }
  if (marker == 0xEE && in.starts_with("Adobe"sv) && in.left() >= 12) {
    headers.adobe_transform = std::to_integer<int>(in.rest()[11]);
  }
}

}  // namespace

int Headers::max_h() const {
  int h = 1;
  for (const Component& c : components) h = std::max(h, c.h);
  return h;
}

int Headers::max_v() const {
  int v = 1;
  for (const Component& c : components) v = std::max(v, c.v);
  return v;
}

bool is_jpeg(Bytes file) {
  return file.size() >= 3 && file[0] == std::byte{0xFF} && file[1] == std::byte{0xD8} &&
         file[2] == std::byte{0xFF};
}

Headers read_headers(Bytes file) {
  if (!is_jpeg(file)) throw FormatError(kName, 0, "expected the bytes FF D8 FF");
  Headers headers;
  headers.segments.push_back({0xD8, 0, 2});
  Reader in(file, 2, file.size());
  while (true) {
    const size_t begin = in.at();
    if (in.byte() != 0xFF) {
      throw FormatError(kName, static_cast<int64_t>(begin), "expected a marker (FF)");
    }
    int marker = in.byte();
    while (marker == 0xFF) marker = in.byte();  // fill bytes are allowed before a marker
    if (marker == 0 || marker == 0xD8 || marker == 0xD9 || (marker >= 0xD0 && marker <= 0xD7)) {
      throw FormatError(
          kName, static_cast<int64_t>(begin),
          fmt::format("expected a segment before the first scan, got marker FF {:02X}", marker));
    }
    if (marker == 0x01) continue;  // TEM, which has no length
    const size_t start = in.at();
    const auto length = static_cast<size_t>(in.word());
    if (length < 2 || length - 2 > in.left()) {
      throw FormatError(
          kName, static_cast<int64_t>(begin),
          fmt::format("marker FF {:02X}: {} bytes do not fit into the file", marker, length));
    }
    const size_t end = start + length;
    headers.segments.push_back({static_cast<uint8_t>(marker), begin, end});
    Reader body(file, start + 2, end);
    if (is_frame(marker)) {
      read_frame(headers, marker, body);
    } else if (marker == 0xDD) {
      headers.restart_interval = body.word();
    } else if (marker >= 0xE0 && marker <= 0xEF) {
      read_application(headers, marker, body);
    } else if (marker == 0xDA) {
      if (headers.frame == 0) {
        throw FormatError(kName, static_cast<int64_t>(begin), "expected a frame before the scan");
      }
      headers.components_in_scan = body.byte();
      headers.data = end;
      return headers;
    }
    in = Reader(file, end, file.size());
  }
}

PictureInfo read_info(Bytes file) {
  const Headers headers = read_headers(file);
  PictureInfo info{.format = Format::kJpeg,
                   .width = headers.width,
                   .height = headers.height,
                   .components = static_cast<int>(headers.components.size()),
                   .bits = headers.bits,
                   .orientation = headers.orientation};
  for (size_t i = 0; i < headers.components.size(); ++i) {
    info.h[i] = headers.components[i].h;
    info.v[i] = headers.components[i].v;
  }
  info.progressive = (headers.frame & 3) == 2;
  info.arithmetic = headers.frame > 0xC8;
  info.restart_interval = headers.restart_interval;
  return info;
}

int exif_orientation(Bytes block) {
  // A TIFF header, then a directory of 12-byte entries (TIFF 6.0, section 2).
  const auto at = [&](size_t i) { return std::to_integer<uint32_t>(block[i]); };
  if (block.size() < 8) return 1;
  const bool little = at(0) == 'I' && at(1) == 'I';
  if (!little && !(at(0) == 'M' && at(1) == 'M')) return 1;
  const auto word = [&](size_t i) {
    return little ? at(i) | at(i + 1) << 8 : at(i) << 8 | at(i + 1);
  };
  if (word(2) != 42) return 1;
  const size_t directory = little ? word(4) | word(6) << 16 : word(4) << 16 | word(6);
  if (directory > block.size() - 2) return 1;
  const size_t count = word(directory);
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > block.size()) return 1;
    if (word(entry) != 0x0112) continue;
    const uint32_t value = word(entry + 8);
    return word(entry + 2) == 3 && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace stretto::media::jpeg
