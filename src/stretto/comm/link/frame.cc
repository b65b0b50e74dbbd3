#include "stretto/comm/link/frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>

namespace stretto::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian");

constexpr uint32_t kMagic = 0x46525453;  // "STRF"
constexpr uint8_t kVersion = 2;

// The layout on the wire: naturally aligned, without holes.
struct Wire {
  uint32_t magic;
  uint8_t version, type, flags, attempt;
  uint32_t epoch, length;
  uint64_t group, sequence;
  uint32_t unit, tag;
  uint64_t chunk, received, consumed, offset, total, fingerprint;
  int32_t origin, ahead;
  uint64_t checksum;  // of everything before it
};
static_assert(sizeof(Wire) == kFrameBytes);

uint64_t checksum(const Wire& wire) { return XXH3_64bits(&wire, offsetof(Wire, checksum)); }

bool plausible(const Wire& w) {
  if (w.magic != kMagic || w.version != kVersion || w.type >= kFrameTypes) return false;
  switch (static_cast<FrameType>(w.type)) {
    case FrameType::kData:
      return w.length <= kMaxPayload && w.offset <= w.total && w.length <= w.total - w.offset &&
             w.chunk > 0 &&
             ((w.flags & (kRts | kCts)) != 0 ? w.length == 0 : w.length > 0 || w.total == 0);
    case FrameType::kMismatch:
    case FrameType::kAbort:
      return w.length <= kMaxText;
    default:
      return w.length == 0;
  }
}

}  // namespace

FrameBytes encode_frame(const Frame& f) {
  Wire wire{.magic = kMagic,
            .version = kVersion,
            .type = static_cast<uint8_t>(f.type),
            .flags = f.flags,
            .attempt = f.attempt,
            .epoch = f.epoch,
            .length = f.length,
            .group = f.key.group,
            .sequence = f.key.sequence,
            .unit = f.key.unit,
            .tag = f.key.tag,
            .chunk = f.chunk,
            .received = f.received,
            .consumed = f.consumed,
            .offset = f.offset,
            .total = f.total,
            .fingerprint = f.fingerprint,
            .origin = f.origin,
            .ahead = f.ahead,
            .checksum = 0};
  wire.checksum = checksum(wire);
  return std::bit_cast<FrameBytes>(wire);
}

std::optional<Frame> parse_frame(std::span<const std::byte, kFrameBytes> bytes) {
  Wire wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (!plausible(wire) || wire.checksum != checksum(wire)) return std::nullopt;
  return Frame{.type = static_cast<FrameType>(wire.type),
               .flags = wire.flags,
               .attempt = wire.attempt,
               .epoch = wire.epoch,
               .length = wire.length,
               .key = {wire.group, wire.sequence, wire.unit, wire.tag},
               .chunk = wire.chunk,
               .received = wire.received,
               .consumed = wire.consumed,
               .offset = wire.offset,
               .total = wire.total,
               .fingerprint = wire.fingerprint,
               .origin = wire.origin,
               .ahead = wire.ahead};
}

}  // namespace stretto::comm
