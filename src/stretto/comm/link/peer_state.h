// The inside of a Peer, shared by its three source files.
#pragma once

#include <array>

#include "stretto/comm/link/peer.h"

namespace stretto::comm {

inline constexpr uint64_t kCopyBytes = 16 << 10;    // messages up to this size are copied
inline constexpr uint64_t kTurnBytes = 64 << 10;    // larger messages take turns
inline constexpr size_t kReadBytes = 64 << 10;      // buffer for headers and small payloads
inline constexpr size_t kReadBudget = 4 << 20;      // per call, so that other streams get a turn
inline constexpr int64_t kReportBytes = 256 << 10;  // acknowledge at least this often
inline constexpr size_t kFramesPerWrite = 64;
// Of memory for early chunks, kept for the next.
inline constexpr size_t kSparePieceBytes = 8 << 20;

struct Peer::Outgoing {
  MessageKey key;
  uint64_t fingerprint = 0;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t cut = 0;           // given to chunks so far
  uint64_t acknowledged = 0;  // bytes
  Ticket ticket;
  int32_t ahead = 0;
  std::unique_ptr<std::byte[]> own;
  uint8_t flags = 0;       // kOffer and kWant: no message, but a word about one
  uint64_t announced = 0;  // of kOffer: bytes of the message
};

struct Peer::Incoming {
  std::byte* to = nullptr;  // when it is expected
  uint64_t bytes = 0;
  uint64_t arrived = 0;
  uint64_t fingerprint = 0;
  Ticket ticket;
  int32_t ahead = 0;
  bool expected = false;
  bool offered = false;        // nothing comes before it is wanted
  bool empty_arrived = false;  // a message of no bytes has come
  struct Piece {
    uint64_t offset;
    uint32_t length;
    BufferPool::Buffer data;
  };
  std::vector<Piece> pieces;  // came before it was expected
  bool complete() const { return arrived == bytes && (bytes > 0 || empty_arrived); }
};

struct Peer::Stream {
  int index = 0;
  std::unique_ptr<Pipe> pipe;
  std::string name;
  std::string reason;  // why it is no more
  bool alive = true;
  bool ended = false;    // by a goodbye
  bool full = false;     // the last write found no room
  bool ready = false;    // there may be more to read
  bool hung_up = false;  // the other side has ended it: read until the end
  int64_t sent_bytes = 0, received_bytes = 0;
  double last_heard_s = 0;
  bool sent_since_beat = false;

  // Being written: headers and payloads of whole frames, in order.
  std::array<FrameBytes, kFramesPerWrite> headers;
  std::vector<iovec> parts;
  std::vector<uint64_t> chunks;  // among them
  std::vector<std::string> texts;
  std::vector<std::unique_ptr<std::byte[]>> copies;
  size_t frames = 0, next_part = 0;
  double turn_s = 0;  // when a chunk that took a turn began; 0: none is being written
  bool free() const { return alive && !full && next_part == parts.size(); }
  std::deque<std::pair<Frame, std::string>> controls;  // to go first

  // Being read.
  std::unique_ptr<std::byte[]> buffer = std::make_unique<std::byte[]>(kReadBytes);
  size_t begin = 0, end = 0;  // unread part of the buffer
  Frame frame;
  bool in_payload = false;
  bool keep = false;             // the payload goes to `to`; else it is dropped
  std::byte* to = nullptr;       // where its next byte goes
  uint64_t remaining = 0;        // of the payload
  Incoming* incoming = nullptr;  // that it is part of
  BufferPool::Buffer piece;      // nobody has asked for it yet
  bool is_note = false;          // a new word about a message
  std::string text;              // of a control frame
};

}  // namespace stretto::comm
