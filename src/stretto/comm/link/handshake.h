// How two ranks make sure of one another before a stream carries data. Both know the job's secret.
//
//   connector -> acceptor   hello      who, for whom, which epoch and stream; a fresh nonce
//   acceptor  -> connector  challenge  a fresh nonce, MAC(secret, "acceptor", hello, nonce)
//   connector -> acceptor   proof      MAC(secret, "connector", hello, nonce)
//   acceptor  -> connector  welcome    one byte
//
// The MAC is HMAC-SHA-256. A recorded conversation proves nothing the next time, because either
// side's nonce differs; a reflected one does not, because the MACs name the role. Nothing is
// encrypted: the handshake keeps strangers out, not eavesdroppers.
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

// What shall carry a stream when the handshake over a socket is done.
enum class Transport : uint8_t { kTcp, kShm, kRdma };

struct Hello {
  uint32_t epoch = 0;
  int32_t from = 0, to = 0;  // ranks
  uint16_t stream = 0;       // 0 .. streams-1
  uint16_t streams = 1;      // of this link
  Transport transport = Transport::kTcp;
  Nonce nonce{};
};

inline constexpr size_t kHelloBytes = 64;
inline constexpr size_t kChallengeBytes = sizeof(Nonce) + sizeof(Mac);
inline constexpr size_t kProofBytes = sizeof(Mac);
inline constexpr std::byte kWelcome{0x57};

using HelloBytes = std::array<std::byte, kHelloBytes>;
HelloBytes encode_hello(const Hello& hello);
// Empty for anything that encode_hello does not make.
std::optional<Hello> parse_hello(std::span<const std::byte, kHelloBytes> bytes);

enum class Role : uint8_t { kConnector, kAcceptor };
Mac authenticate(std::string_view secret, Role role, const HelloBytes& hello, const Nonce& nonce);

// What a handshake leaves behind: with it either side can go on to prove what it says.
struct Proof {
  std::string secret;
  HelloBytes hello{};
  Nonce nonce{};  // the acceptor's
};
// Of a text, not empty, that `role` says after the handshake; differs from every MAC of the
// handshake itself.
Mac seal(const Proof& proof, Role role, std::span<const std::byte> text);

// In constant time.
bool equal(std::span<const std::byte> a, std::span<const std::byte> b);

// Unpredictable bytes from the operating system.
Nonce random_nonce();
std::string random_secret();  // 32 bytes

}  // namespace stretto::comm
