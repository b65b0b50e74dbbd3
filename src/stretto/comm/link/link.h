// A link: all streams between this rank and one other rank. It delivers each message exactly once
// while at least one of its streams works.
//
// Chunks. A message is cut into chunks. A stream takes the next chunk when it has written the one
// before, so fast streams carry more. Chunks between two ranks are numbered. The receiver keeps the
// numbers of all complete chunks and reports, in every frame that it sends, the highest number up
// to which none is missing: an acknowledgement does not depend on the stream that carries it. When
// a stream breaks, the sender gives the unacknowledged chunks to the other streams and the receiver
// drops the incomplete chunk. A chunk that arrives twice is read and dropped. If a chunk begins on
// one stream while another stream is in the middle of it, the sender has given up the stream of the
// earlier attempt, and the receiver closes that one. The attempt number decides, not the order of
// reading. Chunks of different numbers never share a byte of a message; the receiver closes a
// stream that breaks this rule, so a message is done when each of its bytes has arrived once.
//
// Eager limit. A message is sent eagerly, before the receiver asks for it, while all bytes that the
// receiver has not put in place stay below LinkSettings::eager_limit_bytes. Beyond that the sender
// sends an RTS (request to send) and waits for the CTS (clear to send), which the receiver sends
// when an operation asks for the message. So a message that was asked for never waits behind one
// that was not. Message::rendezvous has it so from the first byte.
//
// Pacing. A rank with many links begins chunks of large messages one at a time over all links
// (Links::pace), instead of writing to all of them at once.
//
// Not thread-safe: the caller holds the engine's lock. Data pointers belong to the caller and must
// stay valid until their ticket is done or forget_messages() has returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "stretto/comm/link/buffer_pool.h"
#include "stretto/comm/link/callers.h"
#include "stretto/comm/link/frame.h"
#include "stretto/comm/link/pipe.h"
#include "stretto/comm/link/stream_rate.h"

namespace stretto::comm {

// Identifies who waits for the end of a message. A null owner: nobody waits.
struct Ticket {
  void* owner = nullptr;
  int32_t step = 0;
  int32_t ahead = std::numeric_limits<int32_t>::max();  // Message::ahead of a received message
};

struct Message {
  MessageKey key;
  uint64_t fingerprint = 0;
  const void* data = nullptr;
  uint64_t bytes = 0;
  Ticket ticket;            // done when the caller may change `data`
  int32_t ahead = 0;        // a number for the receiver, which expect() and tickets give it
  bool rendezvous = false;  // an RTS goes first, also below the eager limit
  int streams = 0;          // on how many streams its chunks may travel; 0: as use_streams() says
  bool tells_written = false;    // Events::written says which bytes of it have been written
  uint64_t following_bytes = 0;  // about as many will follow it to this rank
};

// Bytes of a message as its sender announced it, and as expect() asked for it.
struct Lengths {
  uint64_t sent = 0, expected = 0;
};

// What happened on all links, in order. The engine reads it after the call that caused it.
struct Events {
  struct Arrival {  // the first chunk or the RTS of a message that no expect() has asked for
    int rank;
    MessageKey key;
    uint64_t fingerprint;
    bool mismatch;         // true: expect() did ask for it, with another length or fingerprint
    Lengths lengths = {};  // of a mismatch
  };
  struct Control {  // kMismatch, kAbort or kBye
    int rank;
    Frame frame;
    std::string text;
  };
  struct Loss {  // the last stream to a rank is gone
    int rank;
    std::string link, reason;
    bool silent;  // true: no stream broke, but nothing arrived for too long
  };
  struct Written {  // bytes of a message that tells it, each once, and before the message is done
    Ticket ticket;  // unless it was copied: then `done` comes first
    uint64_t offset, length;
  };
  std::vector<Written> written;
  std::vector<Ticket> done;
  std::vector<Arrival> arrivals;
  std::vector<Control> controls;
  std::vector<Loss> losses;
  bool empty() const {
    return written.empty() && done.empty() && arrivals.empty() && controls.empty() &&
           losses.empty();
  }
};

struct LinkSettings {
  int rank = 0;  // of the remote rank
  uint32_t epoch = 0;
  uint64_t chunk_bytes = 256 << 10;
  uint64_t batch_bytes = 1 << 20;         // small messages share one write up to this size
  uint64_t eager_limit_bytes = 64 << 20;  // unasked bytes in flight and held, in each direction
  bool paced = false;  // only begin_paced_chunk() begins chunks of messages over kPacedBytes
  const Callers* callers = nullptr;  // while they wait, a stream is read once; null: nobody
};

enum class Expect : uint8_t { kPending, kComplete, kMismatch };

class Link {
 public:
  Link(LinkSettings settings, Events* events);
  ~Link();

  // Stream `index` of at most `count`. Messages wait for the first one.
  void attach(int index, int count, std::unique_ptr<Pipe> pipe);

  // Adds stream `index`, or replaces it, whether or not this side has noticed that it broke. At any
  // time after the first attach().
  void revive(int index, std::unique_ptr<Pipe> pipe);
  // Whether revive() is of use: other streams of the link work, and unacknowledged chunks are kept.
  bool may_revive(int stream, int streams) const;
  bool misses(int stream) const;  // may_revive(), and the stream broke or was never attached
  int living_streams() const { return alive_; }
  int lost_streams() const { return lost_; }  // how many streams broke since the start

  // Queues a message; flush() writes it. Up to kCopyBytes of data are copied; larger data must stay
  // unchanged until the ticket is done.
  void send(const Message& message);
  // Writes a control frame at once, before queued messages: kAbort and kBye on every stream, others
  // on the first that works. Text beyond kMaxText bytes is cut.
  void send_control(FrameType type, const MessageKey& key, int origin, std::string_view text);

  // Says where a message shall go. kComplete: it has arrived, is copied to `to`, and *ahead is its
  // Message::ahead. kPending: the ticket is done later. kMismatch: the message that arrived has
  // another length or fingerprint; nothing is delivered.
  Expect expect(const MessageKey& key, void* to, uint64_t bytes, uint64_t fingerprint,
                Ticket ticket, int32_t* ahead = nullptr);

  // The length of a message that has begun to arrive.
  uint64_t announced_bytes(const MessageKey& key) const;

  // For messages of a group that is no more: throws away what has arrived of them and what is still
  // to come, so that they do not count against the eager limit. An RTS is not answered. Returns how
  // many there are that no expect() has asked for.
  int64_t drop(uint64_t group);
  bool drop(const MessageKey& key);

  // Handles epoll's events of a stream. hung_up: the remote rank has closed its end.
  void on_readable(int stream, bool hung_up);
  void on_writable(int stream);

  // Closes a stream as if it had broken.
  void cut(int stream, std::string_view reason);
  // Closes all streams because the remote rank is silent; reported as one loss.
  void give_up(std::string_view reason);

  // Writes once to each stream what is queued. True when more is, and a stream may take it.
  bool flush();
  bool waits() const { return waits_; }  // flush() may have something to write
  // Whether a stream is free and left what is queued to a faster one. If that one does not get on,
  // flush() has to be called again.
  bool leaves_chunks() const { return leaves_chunks_; }

  // Whether the next chunk belongs to a paced message and a stream is free for it.
  bool awaits_pacing() const;
  // Begins that chunk and writes until the streams take no more.
  void begin_paced_chunk();
  // How many streams are still writing a paced chunk that they began after `begun_s` (now_s()).
  int paced_chunks_since(double begun_s) const;

  // Sends messages that do not say it over the first `count` working streams only.
  void use_streams(int count) {
    used_streams_ = count;
    waits_ = true;
  }
  // Bytes queued or sent but not acknowledged; bytes acknowledged since the start. Both are 0 for a
  // link of one stream.
  uint64_t under_way_bytes() const { return retains() ? promised_ - delivered_ : 0; }
  uint64_t acknowledged_bytes() const { return retains() ? delivered_ : 0; }

  // Whether a message of more than one chunk was sent: only then can a second stream help it.
  bool sends_large() const { return sends_large_; }

  // True when a stream can be read or written now; run_ready() does it. before_sleep: arms what
  // wakes this process when something arrives later.
  bool look(bool before_sleep);
  void run_ready();

  // Called once per beat: sends a heartbeat on every stream that sent nothing since the last call.
  // Closes streams that were silent for stream_limit_s while another stream was not.
  void beat(double stream_limit_s);
  // This process did not read for pause_s: does not count that time as silence.
  void excuse_silence(double pause_s);

  // Drops all messages and every pointer to the callers' data; the rest of a frame that is being
  // written is copied first. After this the link carries control frames only.
  void forget_messages();

  int rank() const { return settings_.rank; }
  bool alive() const { return alive_ > 0; }
  bool idle() const;            // everything is sent and acknowledged
  bool flushed() const;         // everything is written
  bool owes() const;            // a ticket is not done
  double last_heard_s() const;  // now_s() when bytes last arrived
  bool departed = false;        // the remote rank has sent kBye

  struct StreamState {
    std::string name, reason;
    int64_t sent_bytes, received_bytes;
    bool alive, used;
  };
  std::vector<StreamState> streams() const;
  int64_t payload_bytes() const { return payload_bytes_; }
  int64_t resent_chunks() const { return resent_; }
  int64_t revived_streams() const { return revived_; }
  int64_t duplicate_chunks() const { return duplicates_; }
  int64_t peak_eager_bytes() const { return peak_eager_; }  // most bytes held for later expect()s

 private:
  struct Outgoing;
  struct Incoming;
  struct Chunk {
    std::shared_ptr<Outgoing> message;
    uint64_t offset = 0;
    uint32_t length = 0;
    int stream = -1;      // that carries it; -1: to be sent again
    uint8_t attempt = 0;  // how often it was sent before this
    bool written = false;
  };
  struct Stream;
  std::unique_ptr<Stream> make_stream(int index, std::unique_ptr<Pipe> pipe);

  // Sending.
  void fill(Stream& stream, int place);
  bool carries(int place, const Outgoing& message) const;
  bool is_carried_by_one(const Outgoing& message) const;
  std::optional<StreamLoad> load(Stream& stream, double now);
  bool is_slow(const Stream& stream, double now) const;
  void choose_chunks(Stream& stream, bool written_at_once);
  bool leaves_to_faster(Stream& stream, const Outgoing& message);
  void add_frame(Stream& stream, Frame frame, const std::byte* payload);
  void add_chunk(Stream& stream, uint64_t id, bool again);
  bool write(Stream& stream);
  void note_written(const Stream& stream);
  void acknowledge(uint64_t received);
  bool callers_wait() const { return settings_.callers && settings_.callers->wait(); }
  bool retains() const { return stream_count_ > 1; }
  void send_rendezvous(const MessageKey& key, uint64_t fingerprint, uint64_t announced_bytes,
                       uint8_t flag);
  void on_rts(Stream& stream);
  void on_cts(const MessageKey& key);
  bool should_report_consumed() const;
  bool is_paced(const Outgoing& message) const;
  // Receiving.
  bool read(Stream& stream);
  void consume(Stream& stream);
  bool consume_header(Stream& stream);
  bool consume_tail(Stream& stream);
  void begin_frame(Stream& stream);
  void begin_data(Stream& stream);
  void end_frame(Stream& stream);
  void end_data(Stream& stream);
  void end_rendezvous(Stream& stream);
  void arrive(const Frame& frame);
  bool has_arrived(uint64_t chunk) const;
  bool has_room_for(const Frame& frame) const;
  bool overlaps(const Incoming& message, const Stream& stream) const;
  Incoming* add_unasked(const Frame& frame);
  void erase(const MessageKey& key, const Incoming& message);
  void lose(Stream& stream, std::string reason, bool silent = false);

  const LinkSettings settings_;
  Events* const events_;
  BufferPool eager_memory_;
  std::vector<std::unique_ptr<Stream>> streams_;
  int stream_count_ = 0, alive_ = 0, used_streams_ = 1 << 16;
  int lost_ = 0, revived_ = 0;

  std::deque<std::shared_ptr<Outgoing>> queue_;
  std::vector<StreamLoad> others_;    // scratch memory of leaves_to_faster()
  uint64_t uncut_bytes_ = 0;          // of messages in queue_, not given to chunks
  uint64_t following_bytes_ = 0;      // of the last large message that was queued
  std::deque<uint64_t> again_;        // chunks to send again, because their stream broke
  std::deque<Chunk> unacknowledged_;  // of consecutive numbers
  uint64_t first_unacknowledged_ = 1, acknowledged_to_ = 0;
  // Bytes of all messages queued or sent so far; how many of them the remote rank has put in place.
  uint64_t promised_ = 0, consumed_there_ = 0;
  uint64_t delivered_ = 0;  // bytes of acknowledged chunks

  struct KeyHash {
    size_t operator()(const MessageKey& key) const;
  };
  std::unordered_map<MessageKey, std::shared_ptr<Outgoing>, KeyHash> awaiting_cts_;
  std::unordered_map<MessageKey, std::unique_ptr<Incoming>, KeyHash> incoming_;
  int64_t unasked_ = 0;                            // of these, not expected
  uint64_t consumed_ = 0, reported_consumed_ = 0;  // bytes received and put in place
  int64_t eager_held_ = 0, peak_eager_ = 0;        // bytes received before expect()
  uint64_t arrived_low_ = 0;                       // every chunk up to this number has arrived
  std::set<uint64_t> arrived_;                     // and these higher numbers
  uint64_t reported_low_ = 0, asked_for_ = 0;      // reported; to be reported soon
  int64_t unreported_bytes_ = 0;                   // arrived since the last report
  bool report_soon_ = false;
  bool forgotten_ = false, waits_ = false, may_begin_paced_ = false, sends_large_ = false;
  bool leaves_chunks_ = false;
  int64_t payload_bytes_ = 0, resent_ = 0, duplicates_ = 0;
};

}  // namespace stretto::comm
