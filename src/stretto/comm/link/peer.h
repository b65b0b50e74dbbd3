// Messages to and from one other rank, over one or several streams, each message delivered exactly
// once while any stream lives.
//
// A message is cut into chunks when a stream is free to take one, so fast streams take more. Every
// chunk between two ranks has a number. The receiver remembers which numbers it has, whole; it
// tells the highest one below which none is missing in every frame it sends back, so an
// acknowledgement never depends on the stream it was sent over. When a stream breaks, the sender
// gives its unacknowledged chunks to the others, and the receiver forgets the part of a chunk that
// had come over it. A chunk that arrives twice is read and dropped. If a chunk begins on one stream
// while another is in the middle of it, its sender has given up the stream of the earlier attempt,
// and that one is cut: it need not be the one that is read first.
//
// Messages that the other side has not asked for may take so much of its memory and no more. The
// sender counts what it has sent and what the other side says has got where it belongs; beyond the
// limit it only offers a message, and sends it when the other side wants it. So nothing that is
// asked for ever waits behind something that is not.
//
// A rank with many peers does not write to all of them at once: chunks of large messages are then
// begun one at a time, by whoever knows the other peers as well (give_turn).
//
// Not thread-safe: whoever calls holds the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "stretto/comm/buffer_pool.h"
#include "stretto/comm/link/frame.h"
#include "stretto/comm/link/pipe.h"

namespace stretto::comm {

// Whom a message's end concerns; owner null: nobody.
struct Ticket {
  void* owner = nullptr;
  int32_t step = 0;
  int32_t ahead = std::numeric_limits<int32_t>::max();  // what came with a received message
};

struct Message {
  MessageKey key;
  uint64_t fingerprint = 0;
  const void* data = nullptr;
  uint64_t bytes = 0;
  Ticket ticket;      // done when `data` may change
  int32_t ahead = 0;  // a number that travels with it
};

// What happened, for the engine to act on after the call that made it happen has returned.
struct Events {
  struct Arrival {  // of the first chunk of a message that nobody has asked for yet
    int peer;
    MessageKey key;
    uint64_t fingerprint;
    bool mismatch;  // it was asked for, but with another length or for another operation
  };
  struct Control {  // kMismatch, kAbort or kBye
    int peer;
    Frame frame;
    std::string text;
  };
  struct Loss {  // of the last stream to a peer
    int peer;
    std::string link, reason;
    bool silent;  // it did not break: nothing came
  };
  std::vector<Ticket> done;
  std::vector<Arrival> arrivals;
  std::vector<Control> controls;
  std::vector<Loss> losses;
  bool empty() const {
    return done.empty() && arrivals.empty() && controls.empty() && losses.empty();
  }
};

struct PeerSettings {
  int rank = 0;  // the other one
  uint32_t epoch = 0;
  uint64_t chunk_bytes = 256 << 10;
  uint64_t batch_bytes = 1 << 20;   // small messages that wait travel in one write up to this size
  uint64_t early_bytes = 64 << 20;  // that may arrive before they are asked for, in each direction
  bool takes_turns = false;         // chunks of large messages are begun by give_turn() alone
};

enum class Expect : uint8_t { kPending, kComplete, kMismatch };

class Peer {
 public:
  Peer(PeerSettings settings, Events* events);
  ~Peer();

  // Stream `index` of `count`; all of them are attached before the first message.
  void attach(int index, int count, std::unique_ptr<Pipe> pipe);

  // In the place of stream `index`, which broke or is taken to have broken; at any time.
  void revive(int index, std::unique_ptr<Pipe> pipe);
  // Whether that would do any good: the link goes on over other streams, and keeps what to resend.
  bool may_revive(int stream, int streams) const;
  bool misses(int stream) const;              // and that stream broke
  int lost_streams() const { return lost_; }  // ever

  // Small data are copied; others must stay until the ticket is done. Nothing is written before
  // flush().
  void send(const Message& message);
  // Written at once, before waiting messages, on every stream for kAbort and kBye.
  void send_control(FrameType type, const MessageKey& key, int origin, std::string_view text);

  // Where the message shall go. kComplete: it is already there, and `ahead` is what came with it.
  // kMismatch: what arrived belongs to another operation or has another length; nothing is
  // delivered.
  Expect expect(const MessageKey& key, void* to, uint64_t bytes, uint64_t fingerprint,
                Ticket ticket, int32_t* ahead = nullptr);

  // Events of a stream's descriptors; hung_up: the other side will write no more.
  void on_readable(int stream, bool hung_up);
  void on_writable(int stream);

  // Gives a stream up, as if it had broken.
  void cut(int stream, std::string_view reason);
  // Gives everything up, because nothing comes any more; reported as one loss.
  void give_up(std::string_view reason);

  // Writes what waits, as far as the streams take it: small messages that wait travel in one write.
  void flush();
  bool waits() const { return waits_; }  // there may be something to flush

  // A chunk of a large message could begin, if it were this peer's turn.
  bool wants_turn() const;
  // Begins it, and writes as far as the streams take it.
  void give_turn();
  // Streams that have not taken all of such a chunk, which began later than that.
  int turns_since(double begun_s) const;

  // Messages go over the first `count` streams that live; the others are kept for later.
  void use_streams(int count) {
    used_streams_ = count;
    waits_ = true;
  }
  // Of messages over several streams: not acknowledged yet; acknowledged, ever.
  uint64_t under_way_bytes() const { return retains() ? promised_ - delivered_ : 0; }
  uint64_t acknowledged_bytes() const { return retains() ? delivered_ : 0; }

  // True when a stream has something to do right now. before_sleep: whatever comes later shall wake
  // this process.
  bool look(bool before_sleep);
  void run_ready();  // does it

  // Once per beat: sends a heartbeat on every stream on which nothing else was sent since the last
  // call. Gives up streams that have been silent for so long while another was heard: their chunks
  // go to the others.
  void beat(double stream_limit_s);
  // This process did not listen for so long.
  void excuse_silence(double pause_s);

  // Copies what streams are in the middle of sending, and forgets everything else that refers to
  // memory of others. Only control frames work after that.
  void forget_messages();

  int rank() const { return settings_.rank; }
  bool alive() const { return alive_ > 0; }
  bool idle() const;            // nothing waits to be sent or acknowledged
  bool flushed() const;         // nothing waits to be written
  bool owes() const;            // something that was sent or asked for is not done
  double last_heard_s() const;  // when any bytes came
  bool departed = false;        // has said goodbye

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
  int64_t most_early_bytes() const { return most_early_; }  // held at a time for later expect()s

 private:
  struct Outgoing;
  struct Incoming;
  struct Chunk {
    std::shared_ptr<Outgoing> message;
    uint64_t offset = 0;
    uint32_t length = 0;
    int stream = -1;      // that carries it; -1: waits to be sent again
    uint8_t attempt = 0;  // how often it was sent before
  };
  struct Stream;
  std::unique_ptr<Stream> make_stream(int index, std::unique_ptr<Pipe> pipe);

  // Sending.
  void fill(Stream& stream, bool carries_messages);
  void add_frame(Stream& stream, Frame frame, const std::byte* payload);
  void add_chunk(Stream& stream, uint64_t id, bool again);
  bool write(Stream& stream);
  void acknowledge(uint64_t received);
  bool retains() const { return stream_count_ > 1; }
  void note(const MessageKey& key, uint64_t fingerprint, uint64_t announced, uint8_t flags);
  void on_offer(const Frame& frame);
  void on_want(const MessageKey& key);
  bool owes_account() const;
  bool needs_turn(const Outgoing& message) const;
  // Receiving.
  bool read(Stream& stream);
  void consume(Stream& stream);
  void begin_frame(Stream& stream);
  void begin_data(Stream& stream);
  void end_frame(Stream& stream);
  void end_data(Stream& stream);
  void end_note(Stream& stream);
  void arrive(const Frame& frame);
  bool has_arrived(uint64_t chunk) const;
  bool has_room_for(const Frame& frame) const;
  void lose(Stream& stream, std::string reason, bool silent = false);

  const PeerSettings settings_;
  Events* const events_;
  BufferPool early_memory_;
  std::vector<std::unique_ptr<Stream>> streams_;
  int stream_count_ = 0, alive_ = 0, used_streams_ = 1 << 16;
  int lost_ = 0, revived_ = 0;

  std::deque<std::shared_ptr<Outgoing>> queue_;
  std::deque<uint64_t> again_;        // numbers of chunks whose stream broke
  std::deque<Chunk> unacknowledged_;  // of consecutive numbers
  uint64_t first_unacknowledged_ = 1, acknowledged_to_ = 0;
  // Bytes of the messages in queue_ and of those sent before; how many got where they belong.
  uint64_t promised_ = 0, consumed_there_ = 0;
  uint64_t delivered_ = 0;  // bytes that were acknowledged

  struct KeyHash {
    size_t operator()(const MessageKey& key) const;
  };
  std::unordered_map<MessageKey, std::shared_ptr<Outgoing>, KeyHash> offered_;
  std::unordered_map<MessageKey, std::unique_ptr<Incoming>, KeyHash> incoming_;
  uint64_t consumed_ = 0, reported_consumed_ = 0;  // of the other side's messages
  int64_t early_ = 0, most_early_ = 0;             // bytes that nobody has asked for
  uint64_t arrived_low_ = 0;                       // every chunk up to this has arrived
  std::set<uint64_t> arrived_;                     // and these above
  uint64_t reported_low_ = 0, asked_for_ = 0;      // acknowledged; the highest to be, soon
  int64_t unreported_bytes_ = 0;                   // arrived since the last frame that acknowledged
  bool report_soon_ = false;
  bool forgotten_ = false, waits_ = false, has_turn_ = false;
  int64_t payload_bytes_ = 0, resent_ = 0, duplicates_ = 0;
};

}  // namespace stretto::comm
