// Private parts of Link, shared by link_send.cc, link_receive.cc and link_streams.cc.
#pragma once

#include <array>
#include <optional>

#include "stretto/comm/link/byte_ranges.h"
#include "stretto/comm/link/link.h"

namespace stretto::comm {

inline constexpr uint64_t kCopyBytes = 16 << 10;  // messages up to this size are copied
// A stream leaves a chunk that would take it longer than this to one that is so much faster.
inline constexpr double kLongChunk_s = 1e-3, kFaster = 1.5;
inline constexpr uint64_t kPacedBytes = 64 << 10;  // larger messages are paced
inline constexpr size_t kReadBytes = 64 << 10;     // buffer for headers and small payloads
inline constexpr size_t kReadBudget = 4
                                      << 20;  // bytes per call, so that other streams are read too
inline constexpr int64_t kReportBytes = 256 << 10;  // acknowledge after at most so many bytes
inline constexpr size_t kFramesPerWrite = 64;
inline constexpr uint64_t kMostChunkFactor = 4;  // chunks are at most so many times chunk_bytes
inline constexpr size_t kPartsPerFrame = 3;      // its header, payload and tag
// A remote rank that is sane, and any that is not, makes this one keep at most so much: messages
// that it has not asked for, and numbers of chunks behind one that is still missing.
inline constexpr int64_t kMostUnasked = int64_t{1} << 20;
inline constexpr uint64_t kMostAhead = uint64_t{1} << 22;
// How much memory of delivered eager chunks is kept for later ones.
inline constexpr size_t kSparePieceBytes = 8 << 20;

struct Link::Outgoing {
  MessageKey key;
  uint64_t fingerprint = 0;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t cut = 0;           // bytes given to chunks so far
  uint64_t acknowledged = 0;  // bytes
  bool tells_written = false;
  Ticket ticket;
  int32_t ahead = 0;
  int streams = 0;
  std::unique_ptr<std::byte[]> own;
  uint8_t flags = 0;             // kRts or kCts: this is no message, but a frame about one
  uint64_t announced_bytes = 0;  // kRts: length of the message it announces
};

// A message that is arriving. Its bytes in `arrived`, and those of the chunks that streams are in
// the middle of (Stream::incoming points here), never overlap. So when all bytes have arrived, no
// stream writes into it.
struct Link::Incoming {
  std::byte* to = nullptr;  // set by expect()
  uint64_t bytes = 0;
  ByteRanges arrived;
  uint64_t fingerprint = 0;
  Ticket ticket;
  int32_t ahead = 0;
  bool expected = false;
  bool dropped = false;        // nobody will ask for it: its bytes are received and thrown away
  bool rts_came = false;       // the sender waits for a CTS
  bool empty_arrived = false;  // a message of no bytes has arrived
  struct Piece {
    uint64_t offset;
    uint32_t length;
    BufferPool::Buffer data;
  };
  std::vector<Piece> pieces;  // arrived before expect()
  bool complete() const { return arrived.bytes() == bytes && (bytes > 0 || empty_arrived); }
};

struct Link::Stream {
  int index = 0;
  std::unique_ptr<Pipe> pipe;
  std::string name;
  std::string reason;  // why it was closed
  bool alive = true;
  bool ended = false;    // closed after kBye
  bool full = false;     // the last write found no room
  bool ready = false;    // there may be more to read
  bool hung_up = false;  // the remote rank closed it: read what is left
  int64_t sent_bytes = 0, received_bytes = 0;
  double last_heard_s = 0;
  bool sent_since_beat = false;

  // What is being written: headers, payloads and tags of whole frames, in order.
  struct SentHeader {
    FrameBytes header;
    FrameTag tag;
  };
  std::array<SentHeader, kFramesPerWrite> headers;
  std::array<FrameTag, kFramesPerWrite> tags;  // behind payloads
  std::optional<FrameMac> seals;               // none: no tags
  std::vector<iovec> parts;
  std::vector<uint64_t> chunks;  // their chunk numbers
  std::vector<std::string> texts;
  std::vector<std::unique_ptr<std::byte[]>> copies;
  size_t frames = 0, next_part = 0;
  uint64_t write_bytes = 0;   // of messages, in `parts`
  uint64_t chunk_factor = 1;  // of LinkSettings::chunk_bytes; see choose_chunks()
  StreamRate rate;
  double paced_since_s = 0;  // when the paced chunk being written began; 0: there is none
  bool free() const { return alive && !full && next_part == parts.size(); }
  std::deque<std::pair<Frame, std::string>> controls;  // sent before messages

  // What is being read.
  std::unique_ptr<std::byte[]> buffer = std::make_unique<std::byte[]>(kReadBytes);
  size_t begin = 0, end = 0;  // unread part of the buffer
  Frame frame;
  bool in_payload = false;
  bool keep = false;               // false: the payload is dropped
  std::byte* to = nullptr;         // where its next byte goes
  uint64_t remaining = 0;          // of the payload
  Incoming* incoming = nullptr;    // the message it belongs to
  BufferPool::Buffer piece;        // memory for a chunk that arrived before expect()
  bool is_rendezvous = false;      // the frame is an RTS or a CTS that did not arrive before
  std::string text;                // payload of a control frame
  std::optional<FrameMac> checks;  // none: no tags
  enum class Tail : uint8_t { kNone, kSkip, kCheck };  // kSkip: it was checked with the header
  Tail tail = Tail::kNone;                             // what stands behind the payload
};

}  // namespace stretto::comm
