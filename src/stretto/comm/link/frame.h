// Frames: what ranks send on a stream after its handshake, as described in docs/formats/frame.md.
// A frame is a header of kFrameBytes, little-endian and with a checksum, and `length` bytes of
// payload, which rely on the checksums of the transport.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace stretto::comm {

enum class FrameType : uint8_t {
  kData,       // part of a message
  kAck,        // only the acknowledgement that every header carries
  kHeartbeat,  // only a sign of life
  kMismatch,   // payload: text that describes the sender's operation `sequence` of `group`
  kAbort,      // payload: the reason; the sender ends the job, and the receiver must too
  kBye,        // the sender leaves and sends nothing more
};
inline constexpr uint8_t kFrameTypes = 6;

// Identifies a message. Unique for a sender and a receiver.
struct MessageKey {
  uint64_t group = 0;
  uint64_t sequence = 0;  // of the operation in its group; of the message for point-to-point
  uint32_t unit = 0;      // of the operation; kPointToPoint for send and recv
  uint32_t tag = 0;
  bool operator==(const MessageKey&) const = default;
};
inline constexpr uint32_t kPointToPoint = 0xffffffff;
inline constexpr uint32_t kJoined = 0x80000000;  // bit in the unit of fused operations

struct Frame {
  FrameType type = FrameType::kHeartbeat;
  uint8_t flags = 0;
  uint8_t attempt = 0;  // kData: how often its chunk was sent before, modulo 256
  uint32_t epoch = 0;
  uint32_t length = 0;  // payload bytes that follow
  MessageKey key;
  uint64_t chunk = 0;        // kData: number of the chunk in this direction of the link, from 1
  uint64_t received = 0;     // all of the receiver's chunks up to this number have arrived
  uint64_t consumed = 0;     // bytes of the receiver's messages that are in their place
  uint64_t offset = 0;       // kData: where the payload begins in its message, in bytes
  uint64_t total = 0;        // kData: length of the message in bytes
  uint64_t fingerprint = 0;  // kData: of the operation, the same on every rank; 0: not checked
  int32_t origin = -1;       // kAbort: the rank that failed, -1: none
  int32_t ahead = 0;         // kData: Message::ahead
};

// Frame::flags.
inline constexpr uint8_t kAckSoon = 1;  // the sender waits for the acknowledgement
inline constexpr uint8_t kRts = 2;      // request to send: kData of no bytes, `total` announced
inline constexpr uint8_t kCts = 4;      // clear to send: kData of no bytes, answers an RTS

inline constexpr size_t kFrameBytes = 104;
inline constexpr uint32_t kMaxPayload = 64u << 20;
inline constexpr uint32_t kMaxText = 4096;  // bytes, of kMismatch and kAbort

using FrameBytes = std::array<std::byte, kFrameBytes>;
FrameBytes encode_frame(const Frame& frame);

// Parses any bytes. Empty unless encode_frame could have made them: the magic number, version,
// checksum, type or a length is wrong.
std::optional<Frame> parse_frame(std::span<const std::byte, kFrameBytes> bytes);

}  // namespace stretto::comm
