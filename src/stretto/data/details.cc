#include "stretto/data/details.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto::data {
namespace {

// Bits of the first byte: what follows, in this order.
constexpr uint8_t kHasId = 1, kHasOutlines = 2, kHasMask = kMaskAlone;
enum Form : uint8_t { kHundredths, kDoubles, kRuns };

uint64_t zigzag(int64_t v) {
  return static_cast<uint64_t>(v) << 1 ^ static_cast<uint64_t>(v >> 63);
}
int64_t unzigzag(uint64_t v) { return static_cast<int64_t>(v >> 1 ^ (~(v & 1) + 1)); }

// Hundredths that give back the number bit for bit; nothing if there are none.
std::optional<int64_t> hundredths(double v) {
  if (!(std::abs(v) < 1e9)) return std::nullopt;
  const auto whole = static_cast<int64_t>(std::llround(v * 100));
  if (static_cast<double>(whole) / 100 != v) return std::nullopt;
  return whole;
}

// In as few groups of seven bits as it needs, the lowest first.
void put_varint(std::vector<std::byte>& bytes, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    bytes.push_back(static_cast<std::byte>((value & 0x7F) | 0x80));
  }
  bytes.push_back(static_cast<std::byte>(value));
}

void put_polygon(std::vector<std::byte>& bytes, const std::vector<double>& polygon, bool exact) {
  put_varint(bytes, polygon.size());
  int64_t last[2] = {};
  for (size_t i = 0; i < polygon.size(); ++i) {
    if (exact) {
      const int64_t now = *hundredths(polygon[i]);
      put_varint(bytes, zigzag(now - last[i % 2]));
      last[i % 2] = now;
    } else {
      std::byte raw[sizeof(double)];
      std::memcpy(raw, &polygon[i], sizeof raw);
      bytes.insert(bytes.end(), raw, raw + sizeof raw);
    }
  }
}

class Cursor {
 public:
  explicit Cursor(media::Bytes bytes) : bytes_(bytes), size_(bytes.size()) {}
  [[noreturn]] void fail(std::string_view expected) const {
    throw FormatError("details", static_cast<int64_t>(at_), fmt::format("expected {}", expected));
  }
  uint8_t byte() {
    if (at_ == size_) fail("more bytes");
    return std::to_integer<uint8_t>(bytes_[at_++]);
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t b = byte();
      value |= uint64_t{b & 0x7Fu} << shift;
      if ((b & 0x80) == 0) return value;
    }
    fail("a number of 64 bits");
  }
  // Of things that take at least `bytes` each.
  size_t count(size_t bytes) {
    const uint64_t n = varint();
    if (n > (size_ - at_) / bytes) fail("as many elements as are counted");
    return static_cast<size_t>(n);
  }
  media::Bytes take(size_t count) {
    if (count > size_ - at_) fail("more bytes");
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  // Only the first `bytes` of all are taken from here on.
  void limit(uint64_t bytes) { size_ = std::min<size_t>(bytes, bytes_.size()); }
  media::Bytes rest() { return take(size_ - at_); }
  bool at_end() const { return at_ == size_; }

 private:
  media::Bytes bytes_;
  size_t size_, at_ = 0;
};

int64_t side(Cursor& cursor) {
  const uint64_t value = cursor.varint();
  if (value > INT32_MAX) cursor.fail("a side of a picture");
  return static_cast<int64_t>(value);
}

// `left`: how many outlines and polygons may follow.
void take_outlines(const Cursor& cursor, size_t count, size_t& left) {
  if (count > left) cursor.fail(fmt::format("at most {} outlines and polygons", kMostOutlines));
  left -= count;
}

std::vector<double> read_polygon(Cursor& cursor, bool exact) {
  std::vector<double> polygon(cursor.count(exact ? 1 : sizeof(double)));
  if (!exact) {
    const media::Bytes raw = cursor.take(polygon.size() * sizeof(double));
    if (!raw.empty()) std::memcpy(polygon.data(), raw.data(), raw.size());
    return polygon;
  }
  int64_t last[2] = {};
  for (size_t i = 0; i < polygon.size(); ++i) {
    int64_t& now = last[i % 2];
    const int64_t step = unzigzag(cursor.varint());
    if (std::abs(static_cast<double>(now) + static_cast<double>(step)) > 1e12) {
      cursor.fail("a coordinate");
    }
    now += step;
    polygon[i] = static_cast<double>(now) / 100;
  }
  return polygon;
}

Outline read_outline(Cursor& cursor, size_t& left) {
  Outline outline;
  const uint64_t box = cursor.varint();
  if (box > UINT32_MAX) cursor.fail("the number of a box");
  outline.box = static_cast<int64_t>(box) - 1;
  const uint8_t form = cursor.byte();
  if (form == kHundredths || form == kDoubles) {
    const size_t count = cursor.count(1);
    take_outlines(cursor, count, left);
    for (size_t i = 0; i < count; ++i) {
      outline.polygons.push_back(read_polygon(cursor, form == kHundredths));
    }
  } else if (form == kRuns) {
    outline.width = side(cursor);
    outline.height = side(cursor);
    outline.runs.resize(cursor.count(1));
    for (uint32_t& run : outline.runs) {
      const uint64_t value = cursor.varint();
      if (value > UINT32_MAX) cursor.fail("the length of a run");
      run = static_cast<uint32_t>(value);
    }
  } else {
    cursor.fail("a form of outlines from 0 to 2");
  }
  return outline;
}

}  // namespace

std::vector<std::byte> encode_outline(const Outline& outline) {
  std::vector<std::byte> bytes;
  if (outline.runs.empty()) {
    bool exact = true;
    for (const auto& polygon : outline.polygons) {
      exact = exact && std::all_of(polygon.begin(), polygon.end(),
                                   [](double v) { return hundredths(v).has_value(); });
    }
    bytes.push_back(static_cast<std::byte>(exact ? kHundredths : kDoubles));
    put_varint(bytes, outline.polygons.size());
    for (const auto& polygon : outline.polygons) put_polygon(bytes, polygon, exact);
    return bytes;
  }
  bytes.push_back(static_cast<std::byte>(kRuns));
  put_varint(bytes, static_cast<uint64_t>(outline.width));
  put_varint(bytes, static_cast<uint64_t>(outline.height));
  put_varint(bytes, outline.runs.size());
  for (const uint32_t run : outline.runs) put_varint(bytes, run);
  return bytes;
}

std::vector<std::byte> encode_details(std::optional<int64_t> image_id,
                                      std::span<const EncodedOutline> outlines, media::Bytes mask) {
  std::vector<std::byte> bytes;
  const int flags = (image_id ? kHasId : 0) | (outlines.empty() ? 0 : kHasOutlines) |
                    (mask.empty() ? 0 : kHasMask);
  if (flags == 0) return bytes;
  bytes.push_back(static_cast<std::byte>(flags));
  if (image_id) put_varint(bytes, zigzag(*image_id));
  if (!outlines.empty()) put_varint(bytes, outlines.size());
  for (const EncodedOutline& outline : outlines) {
    put_varint(bytes, static_cast<uint64_t>(outline.box + 1));
    bytes.insert(bytes.end(), outline.bytes.begin(), outline.bytes.end());
  }
  bytes.insert(bytes.end(), mask.begin(), mask.end());
  return bytes;
}

std::vector<std::byte> encode_details(const Details& d) {
  std::vector<EncodedOutline> outlines;
  for (const Outline& outline : d.outlines) {
    outlines.push_back({outline.box, encode_outline(outline)});
  }
  return encode_details(d.image_id, outlines, d.mask);
}

Details decode_details(media::Bytes bytes) {
  Details d;
  if (bytes.empty()) return d;
  Cursor cursor(bytes);
  const uint8_t flags = cursor.byte();
  if (flags == 0 || flags >= 2 * kHasMask) cursor.fail("details of a picture");
  if ((flags & kHasId) != 0) d.image_id = unzigzag(cursor.varint());
  if ((flags & kHasOutlines) != 0) {
    const size_t count = cursor.count(3);
    size_t left = kMostOutlines;
    take_outlines(cursor, count, left);
    d.outlines.reserve(count);
    cursor.limit(kLargestOutlines);
    for (size_t i = 0; i < count; ++i) d.outlines.push_back(read_outline(cursor, left));
    cursor.limit(bytes.size());
  }
  if ((flags & kHasMask) != 0) {
    d.mask = cursor.rest();
    if (d.mask.empty()) cursor.fail("a PNG file");
  }
  if (!cursor.at_end()) cursor.fail("nothing more");
  return d;
}

std::optional<int64_t> decode_image_id(media::Bytes bytes) {
  if (bytes.empty()) return std::nullopt;
  Cursor cursor(bytes.first(std::min<size_t>(bytes.size(), kLongestId)));
  if ((cursor.byte() & kHasId) == 0) return std::nullopt;
  return unzigzag(cursor.varint());
}

bool has_outlines_or_mask(media::Bytes bytes) {
  return !bytes.empty() && (std::to_integer<int>(bytes[0]) & (kHasOutlines | kHasMask)) != 0;
}

std::vector<std::byte> with_image_id(media::Bytes bytes, int64_t id) {
  std::vector<std::byte> changed;
  if (!decode_image_id(bytes)) return {bytes.begin(), bytes.end()};
  changed.push_back(bytes[0]);
  put_varint(changed, zigzag(id));
  Cursor cursor(bytes.subspan(1));
  cursor.varint();
  const media::Bytes rest = cursor.rest();
  changed.insert(changed.end(), rest.begin(), rest.end());
  return changed;
}

// Five bits a letter from '0' on, the lowest first, with a bit for "more" and sign extension; from
// the fourth number on, the difference to the one two before.
std::vector<uint32_t> runs_of_text(std::string_view text) {
  std::vector<uint32_t> runs;
  for (size_t at = 0; at < text.size();) {
    int64_t value = 0;
    for (int shift = 0;; shift += 5) {
      const int letter = at < text.size() ? text[at++] - '0' : -1;
      if (letter < 0 || letter > 63 || shift > 35) {
        throw FormatError("runs", static_cast<int64_t>(at), "expected COCO's compressed runs");
      }
      value |= int64_t{letter & 0x1F} << shift;
      if ((letter & 0x20) != 0) continue;
      if ((letter & 0x10) != 0) value -= int64_t{1} << (shift + 5);
      break;
    }
    if (runs.size() > 2) value += runs[runs.size() - 2];
    if (value < 0 || value > UINT32_MAX) {
      throw FormatError("runs", static_cast<int64_t>(at), "expected runs of at least 0");
    }
    runs.push_back(static_cast<uint32_t>(value));
  }
  return runs;
}

}  // namespace stretto::data
