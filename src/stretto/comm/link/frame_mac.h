// Tags that authenticate the frames of a stream between hosts: whoever can write into a connection
// without the job's secret cannot make, change, repeat, drop or reorder a frame.
//
// A tag is the GMAC (AES-128-GCM of no plaintext, NIST SP 800-38D) of a frame. Each direction of
// each stream has a key of its own, from the secret and both nonces of its handshake, and counts
// its tags; the count is the nonce. docs/formats/frame.md says where tags stand.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "stretto/comm/link/handshake.h"
#include "stretto/comm/options.h"

struct evp_cipher_ctx_st;

namespace stretto::comm {

inline constexpr size_t kTagBytes = 16;
// Up to this payload a frame has one tag, behind the payload. A larger one has a tag behind the
// header, which is believed before the payload is there, and one behind the payload.
inline constexpr size_t kWholeBytes = 4096;

// Whether a stream's frames carry tags. The connecting side decides, and its hello says so.
// `same_machine`: the stream does not leave it. speed_mbit: of the interface, -1: unknown.
bool wants_tags(const Options& options, Transport transport, bool same_machine, int speed_mbit);

using FrameKey = std::array<std::byte, 16>;
using FrameTag = std::array<std::byte, kTagBytes>;

struct FrameKeys {
  FrameKey sends, receives;
};
// `role`: of the side that uses them.
FrameKeys frame_keys(const Proof& proof, Role role);

// The tags of one direction of a stream, in order.
class FrameMac {
 public:
  explicit FrameMac(const FrameKey& key);

  // Adds bytes to the part that the next tag covers.
  void add(std::span<const std::byte> bytes);
  // Does now what the next add() would do first. Nothing depends on it but when the time is spent.
  void prepare();
  // Ends the part; the next add() begins the next one.
  FrameTag tag();
  // The same; whether the tag is this one.
  bool matches(std::span<const std::byte, kTagBytes> tag);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
  uint64_t count_ = 0;
  bool begun_ = false;
};

}  // namespace stretto::comm
