// The handshake in which two ranks prove to each other that they know the job's secret, before a
// stream carries data.
//
//   connector -> acceptor   hello      who, for whom, which epoch and stream; a fresh nonce
//   acceptor  -> connector  challenge  a fresh nonce, MAC(secret, "acceptor", hello, nonce)
//   connector -> acceptor   proof      MAC(secret, "connector", hello, nonce)
//   acceptor  -> connector  welcome    one byte
//
// The MAC is HMAC-SHA-256. Replaying a recorded handshake fails because both nonces are new, and
// reflecting one fails because the MACs name the role. Nothing is encrypted: the handshake keeps
// strangers out, not eavesdroppers. It protects what follows only where frames carry tags.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stretto::comm {

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

// What carries a stream after the handshake, which is always over a socket. kCall: nothing; a lower
// rank asks the acceptor to connect `streams` streams to it.
enum class Transport : uint8_t { kTcp, kShm, kRdma, kCall };

struct Hello {
  uint32_t epoch = 0;
  int32_t from = 0, to = 0;  // ranks
  uint16_t stream = 0;       // 0 .. streams-1
  uint16_t streams = 1;      // of this link
  Transport transport = Transport::kTcp;
  bool tags = false;  // frames carry tags (frame_mac.h)
  Nonce nonce{};
};

inline constexpr size_t kHelloBytes = 64;
inline constexpr size_t kChallengeBytes = sizeof(Nonce) + sizeof(Mac);
inline constexpr size_t kProofBytes = sizeof(Mac);
inline constexpr std::byte kWelcome{0x57};

using HelloBytes = std::array<std::byte, kHelloBytes>;
HelloBytes encode_hello(const Hello& hello);
// Parses any bytes; empty unless encode_hello could have made them.
std::optional<Hello> parse_hello(std::span<const std::byte, kHelloBytes> bytes);

enum class Role : uint8_t { kConnector, kAcceptor };
Mac authenticate(std::string_view secret, Role role, const HelloBytes& hello, const Nonce& nonce);

// The result of a handshake, with which both sides can authenticate further messages.
struct Proof {
  std::string secret;
  HelloBytes hello{};
  Nonce nonce{};  // the acceptor's
};
// The MAC of a text, not empty, that `role` sends after the handshake. It differs from every MAC of
// the handshake itself.
Mac seal(const Proof& proof, Role role, std::span<const std::byte> text);

// Compares in constant time.
bool equal(std::span<const std::byte> a, std::span<const std::byte> b);

// Unpredictable bytes from the operating system.
Nonce random_nonce();
std::string random_secret();  // 32 bytes

}  // namespace stretto::comm
