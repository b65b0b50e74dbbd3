// A remote rank that breaks the rules of the protocol, for the fuzzer and for the test that replays
// its seeds. The bytes are a script: what the remote rank sends over two streams and what this rank
// does meanwhile. Most of a script is what an honest rank could send, in another order: chunks of
// messages, delivered in parts, so that one stream is in the middle of a chunk while the other goes
// on. tests/fuzz/link_seeds.py writes such scripts. The rest is arbitrary frames and bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/comm/link/link.h"

namespace stretto::comm {

inline constexpr uint64_t kEagerLimitBytes = 20'000;
inline constexpr int kStreams = 2;
// Lengths of the messages that chunks belong to.
inline constexpr std::array<uint64_t, 8> kTotals{0, 1, 64, 1000, 4096, 9000, 20'000, 30'000};
inline constexpr uint64_t kFirstMessage = 10, kFirstSent = 100;  // sequence numbers

class Script {
 public:
  Script(const uint8_t* data, size_t size) : at_(data), left_(size) {}
  bool done() const { return left_ == 0; }
  // 0 when there is nothing left.
  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | byte();
    return value;
  }
  uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *at_++;
  }
  std::string text(size_t bytes) {
    const size_t taken = std::min(bytes, left_);
    std::string out(reinterpret_cast<const char*>(at_), taken);
    at_ += taken;
    left_ -= taken;
    return out;
  }

 private:
  const uint8_t* at_;
  size_t left_;
};

// What the script has sent and nobody has read; the wire takes `room` more bytes.
struct Wire {
  std::string sent;
  int64_t room = 1 << 20;
  bool broken = false;
};

class ScriptPipe : public Pipe {
 public:
  explicit ScriptPipe(Wire* wire) : wire_(wire) {}
  int64_t write(std::span<const iovec> parts) override {
    if (wire_->broken) return kBroken;
    int64_t all = 0;
    for (const iovec& part : parts) all += static_cast<int64_t>(part.iov_len);
    const int64_t taken = std::min(all, wire_->room);
    wire_->room -= taken;
    return taken;
  }
  int64_t read(std::span<const iovec> parts) override {
    int64_t moved = 0;
    for (const iovec& part : parts) {
      const size_t bytes = std::min(part.iov_len, wire_->sent.size());
      std::memcpy(part.iov_base, wire_->sent.data(), bytes);
      wire_->sent.erase(0, bytes);
      moved += static_cast<int64_t>(bytes);
    }
    return moved == 0 && wire_->broken ? kBroken : moved;
  }
  std::vector<int> descriptors() const override { return {}; }
  bool prepare_to_sleep() override { return !wire_->sent.empty(); }
  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return reason_; }

 private:
  Wire* const wire_;
  const std::string name_ = "script", reason_ = "the script ends it";
};

// What a run of a script has shown.
struct Findings {
  int64_t peak_eager_bytes = 0;  // held before this rank asked; at most kEagerLimitBytes
  int done = 0;                  // messages that were reported as done
  int wrong = 0;                 // of them: with bytes that nobody sent
};

class ScriptedLink {
 public:
  ScriptedLink(const uint8_t* data, size_t size) : script_(data, size) {
    tags_ = script_.byte() % 2 == 1;
    for (int s = 0; s < kStreams; ++s) link_.attach(s, kStreams, make_pipe(s));
  }

  Findings run() {
    while (!script_.done() && link_.alive()) {
      step();
      take_events();
    }
    link_.flush();
    take_events();
    findings_.peak_eager_bytes = link_.peak_eager_bytes();
    return findings_;
  }

 private:
  static constexpr uint32_t kEpoch = 7;
  // Memory of exactly the expected size, freed when its ticket is done, so that the sanitizer sees
  // a byte too many or too late.
  struct Memory {
    MessageKey key;
    std::unique_ptr<std::byte[]> data;
    uint64_t bytes = 0;
    bool received = false;  // into it; false: sent from it
  };

  // The byte at `offset` of every message of this key.
  static char content(const MessageKey& key, uint64_t offset) {
    return static_cast<char>(key.sequence * 31 + key.group * 17 + key.unit * 5 + offset * 7 +
                             (offset >> 8));
  }

  std::unique_ptr<Pipe> make_pipe(int stream) {
    auto pipe = std::make_unique<ScriptPipe>(&wires_[stream]);
    if (!tags_) return pipe;
    FrameKeys keys{};
    keys.sends[0] = std::byte{1};
    keys.sends[1] = keys.receives[1] = static_cast<std::byte>(++pipes_);
    pipe->keys = keys;
    macs_[stream].emplace(keys.receives);
    return pipe;
  }

  void step() {
    const uint8_t what = script_.byte();
    stream_ = what & 1;
    switch (what >> 1 & 15) {
      case 0:
      case 1:
        return begin_chunk();
      case 2:
        return deliver(static_cast<size_t>(script_.byte() % 4) * 64);
      case 3: {
        const MessageKey key = message(script_.byte() & 7);
        return ask(key, kTotals[last_index_], 0);
      }
      case 4:
        return repeat_chunk();
      case 5:
        return rendezvous();
      case 6:
        return any_frame();
      case 7:
        honest_ &= tags_;
        return receive(script_.text(script_.byte()));
      case 8: {
        const MessageKey key = any_key();
        const uint64_t bytes = script_.number(2);
        return ask(key, bytes, script_.byte() & 1);
      }
      case 9:
        return send(script_.number(2));
      case 10:
        link_.flush();
        wires_[stream_].room += static_cast<int64_t>(script_.number(2));
        return link_.on_writable(stream_);
      case 11:
        link_.beat(1e9);
        if (link_.look(true)) link_.run_ready();
        return;
      case 12:
        return harm(script_.byte());
      case 13:
        if (!link_.may_revive(stream_, kStreams)) return;
        wires_[stream_] = {};
        held_back_[stream_].clear();
        return link_.revive(stream_, make_pipe(stream_));
      case 14:
        if (script_.byte() % 4 != 0) return;
        link_.forget_messages();
        return memory_.clear();
      default:
        return link_.cut(stream_, "the script cuts it");
    }
  }

  // The connection breaks, or somebody changes a bit of what comes next.
  void harm(uint8_t how) {
    std::string& held = held_back_[stream_];
    if (how % 4 == 0) {
      wires_[stream_].broken = true;
      link_.on_readable(stream_, true);
    } else if (how % 4 == 1 && !held.empty()) {
      held[script_.number(2) % held.size()] ^= static_cast<char>(1 << (how >> 5));
      honest_ &= tags_;
    }
  }

  MessageKey message(uint8_t index) {
    last_index_ = index;
    return {.sequence = kFirstMessage + index};
  }

  // Begins a chunk of a message, some quarters of it or a byte beside them, and delivers a part.
  void begin_chunk() {
    const uint8_t what = script_.byte(), how = script_.byte();
    const MessageKey key = message(what & 7);
    const uint64_t total = kTotals[last_index_], first = what >> 3 & 3, count = 1 + (what >> 5 & 3);
    const uint64_t begin = total * first / 4 + (how & 1);
    uint64_t end = total * std::min<uint64_t>(first + count, 4) / 4;
    if (end > 0) end -= how >> 1 & 1;
    if (total > 0 && begin >= end) return;
    uint64_t number = next_chunk_;
    if (how & 16) {
      number = std::max<uint64_t>(next_chunk_ - std::min<uint64_t>(next_chunk_, 1 + (how >> 5)), 1);
    } else {
      ++next_chunk_;
    }
    chunks_.push_back({.type = FrameType::kData,
                       .epoch = kEpoch,
                       .length = total > 0 ? static_cast<uint32_t>(end - begin) : 0,
                       .key = key,
                       .chunk = number,
                       .offset = total > 0 ? begin : 0,
                       .total = total});
    send_frame(chunks_.back(), how >> 2 & 3);
  }

  // As a sender does whose stream has broken.
  void repeat_chunk() {
    const uint8_t which = script_.byte(), how = script_.byte();
    if (chunks_.empty()) return;
    Frame& frame = chunks_[which % chunks_.size()];
    ++frame.attempt;
    send_frame(frame, how & 3);
  }

  // An RTS for a message of this script, or a CTS for one that this rank sends.
  void rendezvous() {
    const uint8_t what = script_.byte();
    Frame frame{.type = FrameType::kData,
                .flags = what & 8 ? kRts : kCts,
                .epoch = kEpoch,
                .key = {.sequence = kFirstSent + (what & 7)},
                .chunk = next_chunk_++};
    if (what & 8) {
      frame.key = message(what & 7);
      frame.total = kTotals[last_index_];
    }
    send_frame(frame, 3);
  }

  // Sends the header and `quarters` of the payload; 3: all of it.
  void send_frame(const Frame& frame, int quarters) {
    deliver(held_back_[stream_].size());
    const FrameBytes header = encode_frame(frame);
    std::string payload;
    for (uint64_t i = 0; i < frame.length; ++i) payload += content(frame.key, frame.offset + i);
    const bool whole = frame.length <= kWholeBytes;
    std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
    if (tags_) macs_[stream_]->add(header);
    if (tags_ && !whole) bytes += tag();
    const size_t begun = bytes.size() + quarters * payload.size() / 4;
    if (tags_) macs_[stream_]->add(std::as_bytes(std::span(payload)));
    bytes += payload;
    if (tags_) bytes += tag();
    held_back_[stream_] = std::move(bytes);
    deliver(quarters == 3 ? 0 : begun);
  }

  std::string tag() {
    const FrameTag tag = macs_[stream_]->tag();
    return {reinterpret_cast<const char*>(tag.data()), tag.size()};
  }

  // Delivers bytes that were held back; 0: all.
  void deliver(size_t bytes) {
    std::string& held = held_back_[stream_];
    if (held.empty()) return;
    const size_t taken = bytes == 0 ? held.size() : std::min(bytes, held.size());
    const std::string now = held.substr(0, taken);
    held.erase(0, taken);
    receive(now);
  }

  void receive(const std::string& bytes) {
    wires_[stream_].sent += bytes;
    link_.on_readable(stream_, false);
    wires_[stream_].sent.clear();  // of a stream that is closed
  }

  MessageKey any_key() {
    const uint8_t bits = script_.byte();
    return {.group = bits & 1u, .sequence = bits >> 1 & 15u, .unit = bits >> 5 & 3u, .tag = 0};
  }

  void any_frame() {
    const auto type = static_cast<FrameType>(script_.byte() % kFrameTypes);
    const uint8_t bits = script_.byte();
    Frame frame{.type = type,
                .flags = static_cast<uint8_t>(bits & 7),
                .attempt = static_cast<uint8_t>(bits >> 3),
                .epoch = kEpoch,
                .length = static_cast<uint32_t>(script_.number(2)),
                .key = any_key()};
    frame.chunk = script_.byte();
    frame.received = script_.byte();
    frame.consumed = script_.number(2);
    frame.offset = script_.number(2);
    frame.total = script_.number(3);
    frame.fingerprint = script_.byte() & 1;
    frame.origin = frame.ahead = static_cast<int8_t>(script_.byte());
    // Sometimes the payload is shorter than the header says.
    const uint8_t quarters = script_.byte() % 8;
    send_frame(frame, quarters < 2 ? quarters : 3);
    if (quarters != 0) return;
    held_back_[stream_].clear();
    honest_ &= tags_;
  }

  void ask(const MessageKey& key, uint64_t bytes, uint64_t fingerprint) {
    if (std::find(asked_for_.begin(), asked_for_.end(), key) != asked_for_.end()) return;
    asked_for_.push_back(key);
    Memory& memory = take_memory(key, bytes, true);
    const Expect outcome =
        link_.expect(key, memory.data.get(), bytes, fingerprint, {&memory, /*step=*/0});
    if (outcome == Expect::kComplete) end(memory);
    if (outcome == Expect::kMismatch) forget(memory);
  }

  void send(uint64_t bytes) {
    const MessageKey key{.sequence = kFirstSent + sent_++};
    Memory& memory = take_memory(key, bytes, false);
    link_.send({.key = key, .data = memory.data.get(), .bytes = bytes, .ticket = {&memory, 0}});
  }

  Memory& take_memory(const MessageKey& key, uint64_t bytes, bool received) {
    return memory_.emplace_back(Memory{key, std::make_unique<std::byte[]>(bytes), bytes, received});
  }

  void take_events() {
    for (const Ticket& ticket : std::exchange(events_, {}).done)
      end(*static_cast<Memory*>(ticket.owner));
  }

  void end(Memory& memory) {
    ++findings_.done;
    for (uint64_t i = 0; memory.received && honest_ && i < memory.bytes; ++i) {
      if (static_cast<char>(memory.data[i]) == content(memory.key, i)) continue;
      ++findings_.wrong;
      break;
    }
    forget(memory);
  }

  void forget(Memory& memory) {
    memory_.remove_if([&](const Memory& other) { return &other == &memory; });
  }

  Script script_;
  bool tags_ = false;  // frames carry tags
  int pipes_ = 0;
  std::optional<FrameMac> macs_[kStreams];
  Wire wires_[kStreams];
  std::string held_back_[kStreams];  // of frames whose beginning was delivered
  Events events_;
  std::list<Memory> memory_;
  Link link_{
      {.rank = 1, .epoch = kEpoch, .chunk_bytes = 4096, .eager_limit_bytes = kEagerLimitBytes},
      &events_};
  std::vector<MessageKey> asked_for_;
  std::vector<Frame> chunks_;  // that were begun
  uint64_t next_chunk_ = 1, sent_ = 0;
  uint8_t last_index_ = 0;
  int stream_ = 0;
  bool honest_ = true;  // every payload that the link believes was content()
  Findings findings_;
};

inline Findings run_script(const uint8_t* data, size_t size) {
  return ScriptedLink(data, size).run();
}

}  // namespace stretto::comm
