// What travels on a stream: a header of fixed size, then `length` bytes of payload. Described in
// docs/formats/frame.md. Little-endian; the header protects itself by a checksum, the payload
// relies on the transport's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace stretto::comm {

enum class FrameType : uint8_t {
  kData,       // part of a message
  kAck,        // nothing but the acknowledgement that every header carries
  kHeartbeat,  // "I am alive"
  kMismatch,   // payload: text describing the sender's operation `sequence` of `group`
  kAbort,      // payload: text; the sender has given up, and so shall the receiver
  kBye,        // the sender leaves in good order
};
inline constexpr uint8_t kFrameTypes = 6;

// Which messages an operation's data belong to. Unique per sender and receiver.
struct MessageKey {
  uint64_t group = 0;
  uint64_t sequence = 0;  // of the operation in its group; of the message for point-to-point
  uint32_t unit = 0;      // of the operation; kPointToPoint for send and recv
  uint32_t tag = 0;
  bool operator==(const MessageKey&) const = default;
};
inline constexpr uint32_t kPointToPoint = 0xffffffff;
inline constexpr uint32_t kJoined = 0x80000000;  // added to the unit of joined operations

struct Frame {
  FrameType type = FrameType::kHeartbeat;
  uint8_t flags = 0;
  uint8_t attempt = 0;  // kData: how often its chunk was sent before, modulo 256
  uint32_t epoch = 0;
  uint32_t length = 0;  // payload bytes that follow
  MessageKey key;
  uint64_t chunk = 0;        // kData: number of the frame between this pair of ranks, from 1 on
  uint64_t received = 0;     // all of the other side's chunks up to this number have arrived
  uint64_t consumed = 0;     // bytes of the other side's messages that have got where they belong
  uint64_t offset = 0;       // kData: of the payload in its message
  uint64_t total = 0;        // kData: bytes of the message
  uint64_t fingerprint = 0;  // kData: of the operation, equal on every rank; 0: not checked
  int32_t origin = -1;       // kAbort: the rank that is to blame; kData: Message::ahead
};

// Frame::flags.
inline constexpr uint8_t kAckSoon = 1;  // the sender waits for the acknowledgement
inline constexpr uint8_t kOffer = 2;    // kData of no bytes: the message waits to be wanted
inline constexpr uint8_t kWant = 4;     // kData of no bytes: the other side's message is wanted

inline constexpr size_t kFrameBytes = 96;
inline constexpr uint32_t kMaxPayload = 64u << 20;
inline constexpr uint32_t kMaxText = 4096;  // of kMismatch and kAbort

using FrameBytes = std::array<std::byte, kFrameBytes>;
FrameBytes encode_frame(const Frame& frame);

// Empty when the bytes are no header that encode_frame makes: wrong magic, version, checksum, type
// or impossible lengths. Never reads beyond the span; any bytes may come.
std::optional<Frame> parse_frame(std::span<const std::byte, kFrameBytes> bytes);

}  // namespace stretto::comm
