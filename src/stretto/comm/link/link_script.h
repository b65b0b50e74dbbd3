// A remote rank that breaks the rules of the protocol, for the fuzzer and for the test that replays
// what the fuzzer found. The bytes are a script: what the remote rank sends over two streams
// (frames with correct checksums, and arbitrary bytes) and what this rank does meanwhile.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "stretto/comm/link/link.h"

namespace stretto::comm {

inline constexpr uint64_t kEagerLimitBytes = 64 << 10;
inline constexpr int kStreams = 2;

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

inline MessageKey key_of(Script& script) {
  const uint8_t bits = script.byte();
  return {.group = bits & 1u, .sequence = bits >> 1 & 3u, .unit = bits >> 3 & 3u, .tag = 0};
}

inline std::string frame_of(Script& script, uint32_t epoch) {
  const auto type = static_cast<FrameType>(script.byte() % kFrameTypes);
  const uint8_t bits = script.byte();
  Frame frame{.type = type,
              .flags = static_cast<uint8_t>(bits & 7),
              .attempt = static_cast<uint8_t>(bits >> 3),
              .epoch = epoch,
              .length = static_cast<uint32_t>(script.number(2)),
              .key = key_of(script)};
  frame.chunk = script.byte();
  frame.received = script.byte();
  frame.consumed = script.number(2);
  frame.offset = script.number(2);
  frame.total = script.number(3);
  frame.fingerprint = script.byte() & 1;
  frame.origin = static_cast<int8_t>(script.byte());
  const FrameBytes header = encode_frame(frame);
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size());
  // Sometimes the payload is shorter than the header says.
  return bytes.append(script.byte() % 8 == 0 ? frame.length / 2 : frame.length, 'p');
}

// Returns the most memory in bytes that this rank held for messages before it asked for them. The
// eager limit allows kEagerLimitBytes.
inline int64_t run_script(const uint8_t* data, size_t size) {
  Script script(data, size);
  constexpr uint32_t kEpoch = 7;
  Wire wires[kStreams];
  Events events;
  // Buffers have exactly the expected sizes, so that the sanitizer sees a byte too many.
  std::vector<std::unique_ptr<std::byte[]>> memory;
  Link link(
      {.rank = 1, .epoch = kEpoch, .chunk_bytes = 4096, .eager_limit_bytes = kEagerLimitBytes},
      &events);
  for (int s = 0; s < kStreams; ++s)
    link.attach(s, kStreams, std::make_unique<ScriptPipe>(&wires[s]));
  std::vector<MessageKey> asked_for;
  uint64_t next_sent = 100;
  while (!script.done() && link.alive()) {
    const uint8_t what = script.byte();
    const int stream = what & 1;
    switch (what >> 1 & 7) {
      case 0:
      case 1:
        wires[stream].sent += frame_of(script, kEpoch);
        link.on_readable(stream, false);
        break;
      case 2:
        wires[stream].sent += script.text(script.byte());
        link.on_readable(stream, false);
        break;
      case 3: {
        const MessageKey key = key_of(script);
        if (std::find(asked_for.begin(), asked_for.end(), key) != asked_for.end()) break;
        asked_for.push_back(key);
        const uint64_t bytes = script.number(2);
        memory.push_back(std::make_unique<std::byte[]>(bytes));
        link.expect(key, memory.back().get(), bytes, script.byte() & 1, {});
        break;
      }
      case 4: {
        const uint64_t bytes = script.number(2);
        memory.push_back(std::make_unique<std::byte[]>(bytes));
        link.send({.key = {.group = 0, .sequence = next_sent++},
                   .data = memory.back().get(),
                   .bytes = bytes});
        break;
      }
      case 5:
        link.flush();
        wires[stream].room += script.number(2);
        link.on_writable(stream);
        break;
      case 6:
        link.beat(1e9);
        if (link.look(true)) link.run_ready();
        break;
      default:
        if (script.byte() % 16 == 0) {
          wires[stream].broken = true;
          link.on_readable(stream, true);
        }
    }
    events = {};
  }
  link.flush();
  return link.peak_eager_bytes();
}

}  // namespace stretto::comm
